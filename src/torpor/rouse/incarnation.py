"""Whose memory is this: the incarnation, one uninterrupted life of a memory image.

A process can be copied (fork, a raw clone), stopped for an hour and continued, or put to disk and brought back. Afterwards
its memory is as it was: same objects, same locks, same tokens, same random state. Nothing in it says that anything happened.
`incarnation()` is the value that does: it is equal in two calls only if, as far as this room can see, this memory image was
the uninterrupted one in between.

**Why a check at use and not a callback.** A callback runs some time after the wake, in one thread; all others have gone on
since, and a copy made past the at-fork hooks runs no callback at all. So whatever must not outlive its life (a connection, a
token, a lease, a random generator) keeps the incarnation it was born in and compares *when it is used*. A comparison on the
way to the use cannot be missed, a callback can. Callbacks are for cleaning up, never for safety.

**What ends a life.**
- The process was copied. Each life owns a `Mark`: a page that the kernel hands to a copy as zeros (MADV_WIPEONFORK), and the
  number of the process. Both are looked at in *every* call, so a raw clone is found by the first call made in the copy. The
  page alone also finds a copy that sees the number of its parent (another pid namespace, a number used again); the number
  alone still finds an ordinary copy where the kernel cannot wipe. The at-fork hook is one more way, never the only one.
- A detector found something, and `Watcher.check()` called `end()`: it wipes the mark by hand, so every thread's next call
  sees it, exactly as in a copy.

**What each party may believe.**
- *Who calls `incarnation()`*: equal values mean no copy of the process lies in between, and nothing that was *found* until
  now. Time is not asked here: a freeze or a sleep is found by the next `Watcher.check()`. The gate before an effect
  therefore calls `check()` first and compares then.
- The answer was true when it was given. A copy made one instruction later carries it along: the last word is the store's (a
  conditional write on token, epoch and head), this is what makes the loser notice before it gets there.
- *Two threads of one process* get the same new value, whoever notices first.
- *Two copies of one process* get different values. Values of two machines say nothing about each other: copies of a whole
  machine, woken from one image, hold equal values until something is found, and may even draw equal new ones.
- **Not seen here**: a copy of a whole machine that changes no clock and no process. From the inside it looks like nothing.
  Only somebody outside, whom both copies must ask, tells resumed from copied from rolled back.

**No lock.** A lock that another thread held while the process was copied stays locked in the copy for ever. Lives are
therefore a chain: a life that ended has at most one successor per process, agreed on by `dict.setdefault`, which is atomic.
Whoever finds the life in its hand ended walks on until it stands on one whose mark is intact. The mark is made *before* the
value: if a signal handler copies the process in between, the copy's mark is not intact and the walk goes on; the other way
round both would live under one name.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from typing import TYPE_CHECKING, Generic, NamedTuple, NewType, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Incarnation = NewType("Incarnation", str)
"""One uninterrupted life of a memory image. Compare it by `==` only; its text is for people and logs."""

T = TypeVar("T")

_INTACT = 1
_MADV_WIPEONFORK = 18  # Linux >= 4.14; <asm-generic/mman-common.h>, not named by the mmap module
_MOST_BYTES = 4096
"""More than that file has: some fifty numbers and a name of 64 bytes at most."""
_STAT_START_TIME = 19  # field 22 of proc_pid_stat(5), counted after the command's closing parenthesis


class Process(NamedTuple):
    """What the kernel says of this process. `start` and `namespace` are None where the kernel does not say."""

    pid: int
    start: int | None
    """When it began, in clock ticks since the machine's boot: tells two processes with one number apart."""
    namespace: str | None
    """In which pid namespace, for example `pid:[4026531836]`: the number means something only there."""

    @classmethod
    def current(cls) -> Process:
        """Ask the kernel: three system calls and a short file, some ten microseconds. Never from memory."""
        return cls(os.getpid(), _start_ticks(), _pid_namespace())

    def differs_from(self, other: Process) -> bool:
        """Whether these are two processes. What one of them does not know says nothing."""
        return any(mine != theirs for mine, theirs in zip(self, other, strict=True) if None not in (mine, theirs))


def _start_ticks() -> int | None:
    try:
        opened = os.open(
            "/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC
        )  # a watcher's dearest question: nothing but calls
        try:
            stat = os.read(opened, _MOST_BYTES)
        finally:
            os.close(opened)
    except OSError:
        return None
    return int(stat[stat.rindex(b")") + 2 :].split()[_STAT_START_TIME])


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - as above
    except OSError:
        return None


class Mark:
    """Something a copy of this process does not inherit."""

    __slots__ = ("page", "pid")

    def __init__(self) -> None:
        """Set the mark in this process."""
        self.pid = os.getpid()
        self.page = _page_wiped_on_fork()
        self.page[0] = _INTACT

    def is_intact(self) -> bool:
        """Whether this is the process in which the mark was set, and nobody wiped it."""
        return self.page[0] == _INTACT and self.pid == os.getpid()

    def wipe(self) -> None:
        """Do by hand what the kernel does in a copy."""
        self.page[0] = 0


def _page_wiped_on_fork() -> mmap.mmap | bytearray:
    """A page the kernel wipes in a copy, or plain memory where it cannot: there the process number alone must do."""
    if sys.platform == "linux":
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        try:
            page.madvise(_MADV_WIPEONFORK)
        except OSError:  # an older kernel, or a sandbox that forbids it
            page.close()
        else:
            return page
    return bytearray(1)


class _Link(Generic[T]):
    """One life of a value, and what came after it in each process that went on from it."""

    __slots__ = ("mark", "successors", "value")

    def __init__(self, make: Callable[[], T]) -> None:
        self.mark = Mark()  # before the value: see "No lock" above
        self.value = make()
        self.successors: dict[int, _Link[T]] = {}


class PerProcess(Generic[T]):
    """A value made anew in each copy of the process, agreed on by its threads without a lock.

    `make` may run in several threads at once; one result wins and the others are forgotten.
    """

    __slots__ = ("_last", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        """Make the first value now."""
        self._make = make
        self._last = _Link(make)

    def get(self) -> T:
        """The value of this process."""
        link = self._last
        mark = link.mark
        if (
            mark.page[0] == _INTACT and mark.pid == os.getpid()
        ):  # is_intact, without its call: this is asked for each step
            return link.value
        return self._walk_on(link).value

    def end(self, value: T) -> T:
        """Replace `value` if it is still the one that counts; the one that counts afterwards."""
        link = self._walk_on(self._last)
        if link.value == value:
            link.mark.wipe()
        return self.get()

    def _walk_on(self, link: _Link[T]) -> _Link[T]:
        while not link.mark.is_intact():
            link = link.successors.setdefault(os.getpid(), _Link(self._make))
        self._last = link  # a slower thread may set an older link here: the next call walks on from there
        return link


def _new_name() -> Incarnation:
    # The clock is in it because a copied machine may repeat its kernel's random bytes, but hardly the same microsecond too.
    start = _start_ticks() or 0
    return Incarnation(f"{os.getpid()}-{start}-{time.time_ns() // 1000:x}-{os.urandom(6).hex()}")


_lives = PerProcess(_new_name)


def incarnation() -> Incarnation:
    """The life this memory image is in now. About half a microsecond, from any thread, holds no lock.

    Raises:
        OSError: a new life must begin and the kernel refuses the memory or the random bytes for it. No answer is no "equal".
    """
    return _lives.get()


def end(which: Incarnation) -> Incarnation:
    """Say that the life `which` is over; the life that counts now. Does nothing if it was over already.

    For whoever found out about an interruption: `Watcher.check()`.
    """
    return _lives.end(which)


if hasattr(os, "register_at_fork"):
    # Where the page cannot be wiped: begin the copy's life now, before a copy of *it* can be given its parent's number again.
    os.register_at_fork(after_in_child=incarnation)
