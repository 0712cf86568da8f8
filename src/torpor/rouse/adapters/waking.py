"""What an adapter is given: the rousal, whether this process is a copy, and the living objects of its library.

**Where the objects come from.** Most libraries keep no list of their clients, and patching their constructors would miss the
clients made before. An object refers to its class, so the garbage collector can say what is one of a class, whoever made it and
when. A rousal is rare, so it may cost one look over all objects (some 80 ms for a million). What was put under care by hand is
added: an object of a kind that is never taken without being asked for, or one that the collector does not see.

**Nothing else is held meanwhile.** `gc.get_objects()` would keep every object of the process alive for as long as its list is
looked through, in a thread, beside everybody's work: a cursor that was let go would leave its statement open, so that SQLite
refused the COMMIT of somebody who did nothing wrong. `gc.get_referrers` looks in one call that nobody gets between.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from ..incarnation import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Rousal
    from ..incarnation import Incarnation

LEFT_ALONE = "rouse_leaves_alone"
"""A class that says so, with a true value, looks after its objects itself: no adapter touches them."""

_under_care: list[Callable[[], Any]] = []
buried: list[Any] = []
"""Kept for ever, so that nobody's `__del__` closes them politely. Only in copies, and only what cannot be made deaf."""


class _Here:
    """Whose sockets these are: ours alone, or also another process's, until all of them were dropped."""

    def __init__(self) -> None:
        self.mark = Mark()
        self.shared_in: Incarnation | None = None
        self.dropped = True

    def shares(self, life: Incarnation) -> bool:
        """Whether sockets may be shared in the rousal that began `life`: the same answer in all its phases."""
        if not self.mark.is_intact():
            self.mark, self.shared_in, self.dropped = Mark(), life, False
        elif self.dropped and self.shared_in != life:
            self.shared_in = None
        return self.shared_in is not None


_here = _Here()


def loaded(name: str, *attributes: str) -> tuple[Any, ...]:
    """The named attributes of a library that somebody imported. None of them if nobody did: an adapter never imports."""
    module = sys.modules.get(name)
    return tuple(found for each in attributes if (found := getattr(module, each, None)) is not None)


def take_care(each: object) -> None:
    """Keep `each` in mind without keeping it alive."""
    try:
        known: Callable[[], Any] = weakref.ref(each)
    except TypeError:  # it has no room for a weak reference, so we keep it
        known = lambda: each  # noqa: E731 - the counterpart of the line above
    _under_care[:] = [*(old for old in _under_care if old() not in (None, each)), known]


class Waking:
    """One rousal as the adapters see it."""

    def __init__(self, rousal: Rousal) -> None:
        """`process_copied` is whether other processes may hold our sockets: then nothing may be done *to* a socket."""
        self.rousal = rousal
        self.process_copied = _here.shares(rousal.after)
        self._looked_for: set[type] = set()
        self._found: list[Any] = []

    def under_care(self, classes: tuple[type, ...]) -> list[Any]:
        """What was put under care by hand and is one of these."""
        return [each for known in _under_care if isinstance(each := known(), classes)]

    def living(self, classes: tuple[type, ...]) -> list[Any]:
        """Every object of the process that is one of these. Looks once for a class: ask for many together first.

        Instances of a static type of C are not found: they do not refer to it. No library here has such a client.
        """
        kinds = _with_subclasses(classes)
        if new := {kind for kind in kinds - self._looked_for if not getattr(kind, LEFT_ALONE, False)}:
            self._found += _instances(new)
        self._looked_for |= kinds
        found = {id(each): each for each in self._found if type(each) in kinds}
        return list((found | {id(each): each for each in self.under_care(classes)}).values())

    def all_dropped(self) -> None:
        """What is opened from here on is this process's own."""
        _here.dropped = True

    def seed(self, size: int = 64) -> bytes:
        """Random bytes that differ from a copy's even where the kernel was not told of the copy and repeats itself.

        Then the name of the new life, what the host called the event, the process and the clocks must do. Two machines that
        wake from one image in the same nanosecond with everything else equal remain equal: only the host can part them, by a
        name for each.
        """
        told = self.rousal.evidence
        parts = (os.urandom(64), self.rousal.after, told, os.getpid(), time.time_ns(), time.perf_counter_ns())
        return hashlib.shake_256(repr(parts).encode()).digest(size)


def _with_subclasses(classes: tuple[type, ...]) -> set[type]:
    kinds: set[type] = set()
    left = list(classes)
    while left:
        kind = left.pop()
        if kind not in kinds:
            kinds.add(kind)
            left += type.__subclasses__(kind)
    return kinds


def _instances(kinds: set[type]) -> list[Any]:
    frozen = gc.get_freeze_count()
    if frozen:  # a server that forks its workers: what it froze, the collector does not look at
        gc.unfreeze()
    try:
        referring = gc.get_referrers(*kinds)
    finally:
        if frozen:
            gc.freeze()
    return [each for each in referring if type(each) in kinds]  # never isinstance(): a proxy would answer for another


def unlock(*owners: Any) -> None:
    """In a copy: renew the locks of these objects. Whoever held one is a thread that the copy does not have."""
    for owner in owners:
        for value in tuple(getattr(owner, "__dict__", {}).values()):
            if hasattr(value, "_at_fork_reinit"):
                value._at_fork_reinit()  # noqa: SLF001 - what `threading` itself calls in a forked child
            elif type(value).__module__ == "queue" or type(value).__name__ == "ThreadLock":
                unlock(value)
