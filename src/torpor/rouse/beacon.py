"""The beacon: somebody outside whom every copy must ask. Only that tells resumed from copied from rolled back.

A beacon keeps one `Mark` for each machine (a name that all copies of one memory share) and changes it only by
compare-and-set. A memory carries the mark that it last set (`Place`):

- *lineage* names one stretch of a memory's life, from a rousal to the next; *counter* counts the marks set within it.
- Going on (`beat`), the memory sets (lineage, counter + 1). After a rousal (`ask`) it sets a new lineage, whose parent is
  the mark it carried. Either way the beacon must still hold exactly the mark carried, so of two copies one gets through.

The other finds another mark there, and its trail of parents says why. It leaves *our* lineage at a counter: at ours,
somebody else woke from the state that we woke from (**copied**); beyond ours, that lineage lived on after our state was
saved (**rolled back**). A trail that does not lead to us is taken for copied, the gravest.

**What each party may believe.** Who got through is the one memory that may go on, until somebody else gets through. It may
still have been copied a moment ago, so it reseeds and reconnects like the others. A beacon that does not answer is no "yes":
`ask` raises, and as a callback in AUTHORITY it keeps the gate closed. An answer lost on the way back looks like a copy: the
one who asked stops, though nobody else goes on; that needs a person or a new place (`take_over`).

Names of lineages are made by the one who asks, which in a copy may repeat (the random bytes are the same there). That is
safe: a name counts only together with the compare-and-set that brought it in, and carries the beacon's own count.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import quote

from .errors import NotCurrent
from .event import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .event import Rousal

TRAIL = 64
"""Parents that a mark remembers."""
_LONGEST_NAME = 250
"""Bytes. With `.json` it is the 255 that file systems take."""


class Step(NamedTuple):
    """A lineage began where its parent stood at `counter`."""

    lineage: str
    parent: str
    counter: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What a beacon keeps for a machine."""

    lineage: str
    counter: int = 0
    began: int = 1
    """How many lineages the machine has had."""
    trail: tuple[Step, ...] = ()
    """How it came to this lineage, the latest first."""

    def is_at(self, other: Mark | None) -> bool:
        """Whether both are the same point of the same lineage."""
        return other is not None and (self.lineage, self.counter) == (other.lineage, other.counter)

    def beaten(self) -> Mark:
        """The next point of this lineage."""
        return Mark(self.lineage, self.counter + 1, self.began, self.trail)

    def child(self, name: str) -> Mark:
        """The first point of a new lineage that begins here."""
        lineage = f"{self.began + 1}-{name}"
        trail = (Step(lineage, self.lineage, self.counter), *self.trail)[:TRAIL]
        return Mark(lineage, 0, self.began + 1, trail)

    def as_json(self) -> str:
        """Write it down."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Mark:
        """Read what `as_json` wrote.

        Raises:
            ValueError: it is something else.
        """
        try:
            words = json.loads(text)
            trail = tuple(Step(str(one), str(parent), int(at)) for one, parent, at in words["trail"])
            return cls(str(words["lineage"]), int(words["counter"]), int(words["began"]), trail)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"no mark: {text[:200]!r}") from error


class Beacon(Protocol):
    """Whoever keeps the marks. It must be outside of everything that may be copied or rolled back with the memory."""

    def read(self, machine: str) -> Mark | None:
        """The machine's mark, None if it has none.

        Raises:
            OSError: the beacon does not answer.
            ValueError: what it keeps for the machine is no mark, or `machine` is a name that it cannot keep.
        """

    def compare_and_set(self, machine: str, expected: Mark | None, new: Mark) -> bool:
        """Set `new` if the mark is still at `expected` (lineage and counter); whether it was. Once true, it is durable.

        Raises:
            OSError: the beacon does not answer. It may have been set.
            ValueError: as `read`. Nothing was set.
        """


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the beacon says of this memory after a rousal."""

    current: bool
    """Whether this memory is the one that may go on."""
    kind: Kind | None
    """None: resumed, nobody else went on. Else `copied` or `rolled_back`."""
    evidence: str


class Place:
    """This memory's place in its machine's history. Kept in memory, on purpose: it is copied and rolled back with it."""

    def __init__(self, beacon: Beacon, machine: str) -> None:
        """Nothing is asked yet; call `take_over()` when the process starts."""
        self._beacon = beacon
        self.machine = machine
        self.mark: Mark | None = None

    def take_over(self) -> Mark:
        """Begin here: a process that starts, and knows that whoever went before it has ended. The mark set.

        Raises:
            NotCurrent: somebody else took over at the same moment.
            OSError: the beacon does not answer.
            ValueError: its mark is damaged. Nobody can tell who goes on from it, so a person takes it away first.
        """
        there = self._beacon.read(self.machine)
        new = Mark(f"1-{_name()}") if there is None else there.child(_name())
        if not self._beacon.compare_and_set(self.machine, there, new):
            raise _not_current(Verdict(current=False, kind=Kind.COPIED, evidence="somebody else took over meanwhile"))
        self.mark = new
        return new

    def beat(self) -> Mark:
        """Go on, and leave a trace of it: now and then, and after what must not be done twice. The mark set.

        A rollback to before a beat is told from a copy by it.

        Raises:
            NotCurrent: another memory is at this place.
            OSError: the beacon does not answer. Ask again: if it was set after all, that looks like a copy.
        """
        carried = self._carried()
        new = carried.beaten()
        if not self._beacon.compare_and_set(self.machine, carried, new):
            raise _not_current(self._judged(carried))
        self.mark = new
        return new

    def ask(self) -> Verdict:
        """Ask, after a rousal, whether this memory may go on; if so it begins a new lineage.

        Raises:
            OSError: the beacon does not answer.
        """
        carried = self._carried()
        new = carried.child(_name())
        if self._beacon.compare_and_set(self.machine, carried, new):
            self.mark = new
            return Verdict(current=True, kind=None, evidence=f"nobody went on from {_point(carried)} before us")
        return self._judged(carried)

    def confirm(self, _rousal: Rousal | None = None) -> None:
        """`ask` as a callback: `rouse.on_rousal(place.confirm)` (phase AUTHORITY) keeps the gate closed unless we may go on.

        Raises:
            NotCurrent: another memory went on.
            OSError: the beacon does not answer.
        """
        verdict = self.ask()
        if not verdict.current:
            raise _not_current(verdict)

    def _carried(self) -> Mark:
        if self.mark is None:
            raise NotCurrent("this memory has no place yet", kind=Kind.COPIED, hint="call take_over() at the start")
        return self.mark

    def _judged(self, carried: Mark) -> Verdict:
        there = self._beacon.read(self.machine)
        if there is None:
            return Verdict(current=False, kind=Kind.COPIED, evidence=f"{self.machine} has no mark any more")
        left = there.counter if there.lineage == carried.lineage else None
        for step in there.trail:
            if step.parent == carried.lineage:
                left = step.counter
        at = f"the beacon is at {_point(there)}, we are at {_point(carried)}"
        if left is not None and left > carried.counter:
            evidence = f"{at}: our lineage lived on to {left}"
            return Verdict(current=False, kind=Kind.ROLLED_BACK, evidence=evidence)
        why = "it does not come from us" if left is None else "another copy woke where we did"
        return Verdict(current=False, kind=Kind.COPIED, evidence=f"{at}: {why}")


class FileBeacon:
    """Marks in a folder that is outside of the machine: shared by hosts, or of the host whose guests ask through HTTP.

    Atomic by a lock on a file beside (flock), durable by fsync of the file and of the folder. Over NFS the lock needs NFSv4.
    A file is called as the machine, percent-encoded; a name too long for that by its beginning and its SHA-256.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is not there."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, machine: str) -> Mark | None:
        """See `Beacon`."""
        path = self._path(machine)
        try:
            return Mark.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            hint = "if no memory of this machine acts, remove the file; the next take_over() begins anew"
            raise ValueError(f"{path} is damaged: {error}\nhint: {hint}") from error

    def compare_and_set(self, machine: str, expected: Mark | None, new: Mark) -> bool:
        """See `Beacon`."""
        with self._locked(machine):
            there = self.read(machine)
            if not (there is None if expected is None else expected.is_at(there)):
                return False
            written = self._path(machine).with_suffix(".new")
            with written.open("w", encoding="utf-8") as file:
                file.write(new.as_json())
                file.flush()
                os.fsync(file.fileno())
            written.replace(self._path(machine))
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            return True

    def _path(self, machine: str) -> Path:
        name = quote(machine, safe="")
        if len(name) > _LONGEST_NAME:  # "=" is in no quoted name, so no other machine is called so
            name = f"{name[:100]}={hashlib.sha256(machine.encode()).hexdigest()}"
        return self._folder / f"{name}.json"

    @contextlib.contextmanager
    def _locked(self, machine: str) -> Iterator[None]:
        with self._path(machine).with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _name() -> str:
    return os.urandom(8).hex()


def _point(mark: Mark) -> str:
    return f"{mark.lineage}:{mark.counter}"


def _not_current(verdict: Verdict) -> NotCurrent:
    hint = "stop: this memory must not act; start a new process, which takes over"
    return NotCurrent(f"this memory is not the current one: {verdict.evidence}", kind=verdict.kind or "", hint=hint)
