"""Who is told of a rousal, and when: the registry. Watchers notice, a registry tells.

Every `Watcher` tells one registry, and unless it is given another that is the process's: whoever notices first runs the
callbacks, and the others find that it was told (`heard.py`). All of them share the registry's lock, so that phases never
run twice at once, and a look that finds nothing new returns only after the callbacks of the look that did.

**The gate** belongs to the registry. It is closed while the phases run, from `before_snapshot()` to `after_restore()`, and
from a failing callback until the registry is mended. It is closed for those who ask: `pass_gate()` before an effect.
"""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .errors import GateClosed, RousalFailed
from .event import Finding, Kind, Rousal
from .heard import Heard
from .incarnation import PerProcess, incarnation
from .phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .detectors.clocks import Detector, Reading
    from .incarnation import Incarnation

    OnRousal = Callable[[Rousal], object]

Callback = TypeVar("Callback", bound="OnRousal")


class Registration(Generic[Callback]):
    """One callback in one phase. Calls the callback when it is called, so a decorated function stays a function."""

    __slots__ = ("_registry", "callback", "kinds", "phase")

    def __init__(self, registry: Registry, callback: Callback, phase: Phase, kinds: frozenset[Kind] | None) -> None:
        """Made by `Registry.on_rousal`."""
        self._registry = registry
        self.callback = callback
        self.phase = phase
        self.kinds = kinds

    def __call__(self, rousal: Rousal) -> object:
        """Call the callback by hand."""
        return self.callback(rousal)

    def __repr__(self) -> str:
        """Name the callback and its phase."""
        return f"<{self.name} in {self.phase.name}>"

    @property
    def name(self) -> str:
        """What a person calls the callback."""
        return str(getattr(self.callback, "__qualname__", repr(self.callback)))

    def wants(self, rousal: Rousal) -> bool:
        """Whether this callback is for such an event, or for what the phase also takes it for (`Phase.takes_for`)."""
        return self.kinds is None or not self.kinds.isdisjoint(
            self.phase.takes_for(rousal.kind, certain=rousal.certain)
        )

    def take_back(self) -> None:
        """Call it no more. Does nothing the second time."""
        self._registry.take_back(self)


class _Teller:
    """Who tells now, and what. Of one process: a copy made in the middle begins anew, with the event that it is a copy."""

    __slots__ = ("lock", "registering", "telling", "untold")

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a callback may call check()
        self.registering = threading.Lock()
        self.telling = False
        self.untold: list[Rousal] = []


class Registry:
    """Callbacks in phases, and the gate. One for the process; a test makes its own."""

    def __init__(self) -> None:
        """Empty and open."""
        self._teller = PerProcess(_Teller)
        self._registrations: tuple[Registration[Any], ...] = ()
        self._failure: RousalFailed | None = None
        self._closed: dict[str, None] = {}
        self._found: list[Finding] = []
        self.calling = ""
        """The callback that runs now, and its phase; empty if none does. For whoever says what does not return."""
        self.detectors: tuple[Detector, ...] = ()
        """Those outside the process (`watch()` opens them): every watcher asks them besides its own."""
        self.heard = Heard()
        """What was told already."""

    @property
    def lock(self) -> threading.RLock:
        """Held while somebody looks and tells. This process's own: a copy does not wait for a thread that it has not."""
        return self._teller.get().lock

    @property
    def registering(self) -> threading.Lock:
        """Held for a moment by who registers or takes back: nobody waits for callbacks to do that."""
        return self._teller.get().registering

    @overload
    def on_rousal(
        self, callback: Callback, *, phase: Phase = ..., kinds: Collection[Kind] | None = ...
    ) -> Registration[Callback]: ...
    @overload
    def on_rousal(
        self, callback: None = None, *, phase: Phase = ..., kinds: Collection[Kind] | None = ...
    ) -> Callable[[Callback], Registration[Callback]]: ...
    def on_rousal(
        self,
        callback: Callback | None = None,
        *,
        phase: Phase = Phase.AUTHORITY,
        kinds: Collection[Kind] | None = None,
    ) -> Registration[Callback] | Callable[[Callback], Registration[Callback]]:
        """Call `callback(rousal)` in `phase` after each rousal, after those registered earlier. A call or a decorator.

        It runs in the thread that noticed. It is short, may run again for the same event, waits for no other thread (that
        one may be waiting in `check()`), and raises only if this process must not go on. With `kinds` it is called for
        those only, and for what may have been one of them or includes it (`Phase.takes_for`).

        Raises:
            TypeError: the callback cannot be called, or is a coroutine function: nobody would wait for it, and the gate
                would open too early.
        """
        if callback is None:
            return lambda later: self.on_rousal(later, phase=phase, kinds=kinds)
        refuse_unfit(callback, "a rousal's callbacks", "functions of one argument, the rousal")
        made = Registration(self, callback, Phase(phase), None if kinds is None else frozenset(map(Kind, kinds)))
        with self.registering:
            self._registrations = (*self._registrations, made)
        return made

    def take_back(self, registration: Registration[Callback]) -> None:
        """Call it no more. If it runs at this moment in another thread, it is not waited for."""
        with self.registering:
            self._registrations = tuple(known for known in self._registrations if known is not registration)

    def look_outside(self, before: Reading, now: Reading) -> list[Finding]:
        """Return what the detectors outside say that is news. It stays found until `found_told`: they say it only once."""
        for detect in self.detectors:
            finding = detect(before, now)
            if finding is not None and self.heard.is_news(finding, now):
                self._found.append(finding)
        return list(self._found)

    def found_told(self) -> None:
        """Forget what `look_outside` found: it became a rousal."""
        self._found.clear()

    def tell(self, rousal: Rousal, *, later: bool = False) -> None:
        """Run the phases for `rousal`, the gate closed meanwhile. From inside a callback: after the present event's phases.

        `later`: leave that to the next `tell_untold`, in whichever thread; the gate is closed until then.

        Raises:
            RousalFailed: a callback failed, now or earlier. Those after it did not run, the gate stays closed until `mend()`.
        """
        with self.lock:
            self._teller.get().untold.append(rousal)
            self.sound()
            if not later:
                self._tell_all()

    def tell_untold(self) -> None:
        """Run the phases that were left for later, if there are any.

        Raises:
            RousalFailed: a callback failed, now or earlier.
        """
        with self.lock:
            self.sound()
            self._tell_all()

    def mend(self) -> None:
        """Run the phases again for each event since the one that failed; the gate opens if all of them succeed now.

        Call it once the cause is gone: the callback was taken back, or what it needs is there again.

        Raises:
            RousalFailed: it failed again.
        """
        with self.lock:
            self._failure = None
            self._tell_all()

    def sound(self) -> None:
        """Say nothing if the callbacks of every rousal succeeded.

        Raises:
            RousalFailed: one of them failed, and nobody has mended it.
        """
        if self._failure is not None:
            raise self._failure

    @property
    def is_open(self) -> bool:
        """Whether the gate is open at this moment, without waiting for phases that another thread is running."""
        teller = self._teller.get()
        return self._failure is None and not self._closed and not teller.telling and not teller.untold

    @property
    def is_behind(self) -> bool:
        """Whether a rousal was noticed whose callbacks somebody has yet to run."""
        return self._failure is None and bool(self._teller.get().untold)

    def is_closed_for(self, why: str) -> bool:
        """Whether the gate is closed for this reason, whatever else it is closed for."""
        return why in self._closed

    def close_gate(self, why: str) -> None:
        """Close the gate for the reason `why`, until `open_gate` is called with it. Reasons do not nest."""
        self._closed[why] = None

    def open_gate(self, why: str) -> None:
        """Take one reason away; the gate is open when none is left."""
        self._closed.pop(why, None)

    def pass_gate(self) -> Incarnation:
        """Return the incarnation in which the gate is open. Waits for phases that another thread is running.

        Phases that were left for later run first.

        Raises:
            RousalFailed: a callback failed, and nobody has mended it.
            GateClosed: closed for another reason.
        """
        with self.lock:
            self.tell_untold()
            whys = [*self._closed, *(["the phases of a rousal are running"] if self._teller.get().telling else [])]
            if whys:
                raise GateClosed(
                    f"the gate is closed: {', '.join(whys)}", hint="wait until it is open, then decide again"
                )
            return incarnation()

    def _tell_all(self) -> None:
        teller = self._teller.get()
        if teller.telling:
            return
        teller.telling = True
        try:
            while teller.untold:
                for registration in sorted(self._registrations, key=lambda each: each.phase):  # stable: as registered
                    if registration in self._registrations and registration.wants(teller.untold[0]):
                        self._call(registration, teller.untold[0])
                del teller.untold[0]
        finally:
            teller.telling = False

    def _call(self, registration: Registration[Any], rousal: Rousal) -> None:
        self.calling = f"callback {registration.name} in {registration.phase.name}"
        try:
            registration.callback(rousal)
        except BaseException as error:
            self._failure = RousalFailed(
                f"callback {registration.name} failed in {registration.phase.name} after a rousal "
                f"({rousal.kind}, {rousal.away_seconds:.3f} s away): {error!r}",
                hint="stop this process and start a new one, or mend the cause and call rouse.mend(): "
                "callbacks after this one did not run",
            )
            if is_ctrl_c(error):
                raise
            raise self._failure from error
        finally:
            self.calling = ""


def refuse_unfit(function: object, whose: str, what: str) -> None:
    """Raise TypeError for a function that cannot be called, or whose call would only make a coroutine."""
    if not callable(function):
        msg = f"{function!r} cannot be called: {whose} are {what}"
        raise TypeError(msg)
    if inspect.iscoroutinefunction(function):
        msg = f"{function!r} is a coroutine function: {whose} are plain functions"
        raise TypeError(msg)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether an error is a person's, who gets it in the main thread alone. All else is of whoever was called."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


process_registry = Registry()
"""The one that every watcher tells unless it is given another."""
on_rousal = process_registry.on_rousal
mend = process_registry.mend
pass_gate = process_registry.pass_gate
