"""Before a snapshot and after a restore, by the convention of AWS Lambda SnapStart (`snapshot-restore-py`).

`register_before_snapshot` runs in reverse order of registration, `register_after_restore` in order. Whoever takes snapshots
calls `before_snapshot()` and, in every copy that goes on, `after_restore()`. Where nobody calls the second, a watcher that
notices runs the registered functions as well: they stand in the phase AUTHORITY, for whatever is or may be a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .errors import RouseError
from .event import Finding, Kind
from .phases import Phase
from .registry import is_ctrl_c, process_registry, refuse_unfit
from .watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from .event import Rousal
    from .registry import Registry

Function = TypeVar("Function", bound="Callable[..., object]")
Call = tuple["Callable[..., object]", tuple[Any, ...], dict[str, Any]]

SNAPSHOT = "a snapshot is being taken"
_NOT_A_PAUSE = frozenset(Kind) - {Kind.SLEPT, Kind.FROZEN, Kind.CLOCK_STEP}
_ALL_OF_A_MACHINE = (
    "host socket", "host file", "vmclock", "kmsg", "moved", "suspended", "frozen", "stepped", "timerfd", "logind"
)  # fmt: skip


class SnapshotHooks:
    """Functions around a snapshot. One for the process; a test makes its own."""

    def __init__(self, registry: Registry | None = None) -> None:
        """On the process's registry unless given another."""
        self._registry = process_registry if registry is None else registry
        self._before: list[Call] = []
        self._after: list[Call] = []
        self._watcher: Watcher | None = None
        self._told = False

    def register_before_snapshot(self, func: Function, *args: Any, **kwargs: Any) -> Function:
        """Call `func(*args, **kwargs)` before a snapshot, before those registered earlier. Gives `func` back.

        Raises TypeError if it cannot be called, or is a coroutine function: nobody would wait for it.
        """
        refuse_unfit(func, "hooks of a snapshot", "functions, their arguments after them")
        self._before.append((func, args, kwargs))
        return func

    def register_after_restore(self, func: Function, *args: Any, **kwargs: Any) -> Function:
        """Call `func(*args, **kwargs)` after a restore, after those registered earlier. Gives `func` back.

        Raises TypeError if it cannot be called, or is a coroutine function: nobody would wait for it.
        """
        refuse_unfit(func, "hooks of a snapshot", "functions, their arguments after them")
        if not self._told:
            self._told = True
            self._registry.on_rousal(self._run_after_restore, phase=Phase.AUTHORITY, kinds=_NOT_A_PAUSE)
        self._after.append((func, args, kwargs))
        return func

    def take_back(self, func: Callable[..., object]) -> None:
        """Call what was registered as `func` no more. Does nothing if there is no such function."""
        self._before = [call for call in self._before if call[0] != func]
        self._after = [call for call in self._after if call[0] != func]

    def before_snapshot(self) -> None:
        """Close the gate and run what was registered, the last first. The snapshot is taken after this returns.

        A function may wait for another thread: it runs without the registry's lock, and others may look meanwhile.

        An error of a function goes through and those before it do not run: take no snapshot then, and call
        `no_snapshot()`, which opens the gate. What is no `Exception`, such as `sys.exit` raises, comes as a RouseError.
        """
        self._registry.close_gate(SNAPSHOT)
        for func, args, kwargs in reversed(self._before):
            try:
                func(*args, **kwargs)
            except BaseException as error:
                if isinstance(error, Exception) or is_ctrl_c(error):
                    raise
                raise RouseError(
                    f"{func!r} failed before a snapshot: {error!r}", hint="take no snapshot now"
                ) from error
        with self._registry.lock:
            self._registry.heard.settle()  # an event of a moment ago is not the restore that comes
        self._watcher = Watcher(registry=self._registry)  # made last: the time that they took is no time away

    def no_snapshot(self) -> None:
        """Open the gate again: no snapshot was taken after all, so nothing happened, and nobody is told anything."""
        with self._registry.lock:
            self._watcher = None
            self._registry.open_gate(SNAPSHOT)

    def after_restore(
        self, *, kind: Kind = Kind.COPIED, away_seconds: float = 0.0, certain: bool = False
    ) -> Rousal | None:
        """End the life, run all phases, open the gate. The rousal; None if a watcher had noticed and told it already.

        Raises:
            RousalFailed: a function or callback failed; the gate stays closed until the registry is mended.
        """
        with self._registry.lock:
            watcher = self._watcher or Watcher(registry=self._registry)
            self._watcher = None
            try:
                return watcher.hear(
                    Finding(
                        kind,
                        "after_restore() was called",
                        away_seconds,
                        certain=certain,
                        by="after_restore",
                        confirms=_ALL_OF_A_MACHINE,
                    )
                )
            finally:
                self._registry.open_gate(SNAPSHOT)

    def _run_after_restore(self, _rousal: Rousal) -> None:
        for func, args, kwargs in self._after:
            func(*args, **kwargs)


process_hooks = SnapshotHooks()
register_before_snapshot = process_hooks.register_before_snapshot
register_after_restore = process_hooks.register_after_restore
before_snapshot = process_hooks.before_snapshot
no_snapshot = process_hooks.no_snapshot
after_restore = process_hooks.after_restore
