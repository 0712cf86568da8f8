"""Faults: what goes wrong in a world, and when. Each is spent once; what is left over is said.

A fault of a moment strikes when the `nth` transaction of that moment comes along (of the workers and wakers together); one of
a time strikes then. Which moment a transaction is, is read off what it does (`moment_of`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.journal import Kind
from torpor.core.run import State
from torpor.engine import commit as commits
from torpor.engine import effects, leases, waits

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

MOMENTS = {
    "intent": 5,
    "outcome": 5,
    "consumed": 4,
    "question": 2,
    "suspend": 5,
    "checkpoint": 4,
    "finish": 3,
    "transactional": 3,
    "inside": 2,
    "claim": 5,
    "gate": 4,
    "find out": 2,
    "news": 1,
    "deliver": 2,
    "sweep": 2,
    "reap": 2,
    "settle late": 1,
    "acting": 12,
    "signal": 5,
    "start": 2,
    "decide": 2,
}
"""Moments that a fault may strike at, and how often one is drawn."""
AT_MOMENTS = {
    "kill before": 4,
    "kill inside": 2,
    "kill after": 5,
    "lost": 4,
    "not sent": 3,
    "lands late": 2,
    "slow answer": 4,
    "freeze": 4,
    "copy": 4,
    "bad commit": 2,
    "disk full": 2,
}
"""Kinds that strike at a transaction."""
AT_TIMES = {
    "kill": 3,
    "freeze long": 2,
    "suspend": 2,
    "clock step": 4,
    "host step": 2,
    "restart": 3,
    "cut": 3,
    "drain": 2,
    "deaf": 2,
}
"""Kinds that strike at a time."""
DRAWN_LAST = {"callback": 1}
"""Kinds that strike at a time, and are drawn for themselves, so that older seeds draw what they drew before."""
KINDS = (*AT_MOMENTS, *AT_TIMES, *DRAWN_LAST)
_SHARE_LAST = 0.2
INSIDE = frozenset({"transactional", "inside"})
"""Where a kill inside the transaction is something else than one before it."""
ACTING = frozenset({"kill before", "kill after", "freeze", "copy"})
"""What strikes while an effect acts: before it happened, or after."""
OF_CLIENTS = frozenset({"signal", "start", "decide"})
"""Moments of those who are no workers: nobody kills them, but answers get lost."""
ASTRAY = frozenset({"lost", "not sent", "lands late", "slow answer"})
COMMITS = frozenset(
    {"intent", "outcome", "consumed", "question", "suspend", "checkpoint", "finish", "note", "transactional", "inside"}
)


class Fault(NamedTuple):
    """One fault. `amount` is what its kind makes of it: seconds, or who is struck; `who` the worker, of a copy."""

    kind: str
    moment: str
    nth: int
    amount: float
    who: int = 0

    def __str__(self) -> str:
        """Say it in a few words."""
        when = f"at {self.nth / 10:.1f} s" if self.kind not in AT_MOMENTS else f"at {self.moment} {self.nth}"
        return f"{self.kind} {when} ({self.amount:.1f}, {self.who})"


def draw(chance: random.Random, budget: int) -> list[Fault]:
    """Draw so many faults."""
    found = []
    kinds = {**AT_MOMENTS, **AT_TIMES}
    for _ in range(budget):
        (kind,) = chance.choices(list(kinds), list(kinds.values()))
        amount = chance.choice((0.2, 1.0, 4.0, 12.0)) * (0.5 + chance.random())
        who = chance.randrange(3)
        if kind in AT_TIMES:
            found.append(Fault(kind, "time", chance.randrange(1, 250), amount, who))
            continue
        allowed = {name: weight for name, weight in MOMENTS.items() if _may(kind, name)}
        (moment,) = chance.choices(list(allowed), list(allowed.values()))
        found.append(Fault(kind, moment, 1 + int(chance.expovariate(0.25)), amount, who))
    return found


def draw_last(chance: random.Random) -> list[Fault]:
    """Draw one of the kinds that came later, in some worlds."""
    if chance.random() > _SHARE_LAST:
        return []
    amount = chance.choice((0.2, 1.0, 4.0, 12.0)) * (0.5 + chance.random())
    return [Fault(chance.choice(list(DRAWN_LAST)), "time", chance.randrange(1, 150), amount, chance.randrange(3))]


def _may(kind: str, moment: str) -> bool:
    if kind == "kill inside":
        return moment in INSIDE
    if moment in OF_CLIENTS:
        return kind in ASTRAY
    if moment == "acting":
        return kind in ACTING
    if kind == "bad commit":
        return moment in COMMITS - INSIDE
    return True


def moment_of(op: Callable[..., Any], args: Sequence[Any]) -> str:
    """Return which moment a transaction is."""
    if op is commits.commit:
        return _of_commit(args[0])
    known = _KNOWN.get(op)
    if known is not None:
        return known
    return "sweep" if op.__name__ == "_swept" else op.__name__.strip("_<>")


_KNOWN: dict[Any, str] = {
    effects.commit_with: "transactional",
    effects.commit_inside: "inside",
    effects.look: "gate",
    effects.settle_late: "settle late",
    leases.claim: "claim",
    leases.news: "news",
    leases.renew: "renew",
    leases.reap: "reap",
    commits.find_out: "find out",
    waits.deliver: "deliver",
}


def _of_commit(proposals: Sequence[Any]) -> str:
    """Return the most telling thing that a batch does."""
    found = set()
    for proposal in proposals:
        kinds = {entry.kind for entry in proposal.entries}
        if proposal.after.final:
            found.add("finish")
        elif proposal.after is State.WAITING:
            found.add("suspend")
        elif Kind.CHECKPOINT in kinds:
            found.add("checkpoint")
        elif Kind.INTENT in kinds:
            found.add("intent")
        elif Kind.CONSUMED in kinds:
            found.add("consumed")
        elif Kind.WAIT in kinds:
            found.add("question")
        elif kinds & {Kind.OUTCOME, Kind.FAILURE}:
            found.add("outcome")
    return next((moment for moment in MOMENTS if moment in found), "note")


class Budget:
    """The faults that are left, and what became of the others."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        """Begin with all of them."""
        self._left: dict[str, list[Fault]] = {}
        for fault in faults:
            if fault.kind in AT_MOMENTS:
                self._left.setdefault(fault.moment, []).append(fault)
        self.timed = [fault for fault in faults if fault.kind not in AT_MOMENTS]
        self._seen: Counter[tuple[str, int]] = Counter()
        self.struck: list[tuple[Fault, str]] = []
        """What struck, and at which moment."""

    def at(self, moment: str, who: int) -> Fault | None:
        """Return what strikes this transaction of worker `who`."""
        left = self._left.get(moment)
        self._seen[moment, -1] += 1
        self._seen[moment, who] += 1
        if not left:
            return None
        for fault in left:
            copied = fault.kind == "copy"
            if fault.nth <= self._seen[moment, fault.who if copied else -1] and (not copied or fault.who == who):
                left.remove(fault)
                return fault
        return None

    def spent(self, fault: Fault, moment: str) -> None:
        """Take note that a fault struck."""
        self.struck.append((fault, moment))

    def end(self) -> None:
        """Forget what is left."""
        self._left.clear()
