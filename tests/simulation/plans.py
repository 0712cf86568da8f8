"""What a seed draws: the runs and their scripts, who sends what and when, who decides, and the faults. A plan is plain values.

Shrinking takes things out of a plan; whatever is left happens as before as far as it can, because each thing draws its chance
for itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.simulation import faults
from tests.simulation.programs import Act, Script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.faults import Fault

CLOSED = {
    "look": 4,
    "count": 3,
    "say": 2,
    "keyed": 4,
    "once": 6,
    "verify": 4,
    "transactional": 3,
    "drawn": 2,
    "sleep": 3,
    "approve": 2,
    "ask": 1,
    "rate": 1,
    "undo": 2,
    "fragile": 1,
}
"""Acts that need nobody who speaks to this very run: it may be forked or rewound."""
OPEN = {**CLOSED, "receive": 4, "race": 3, "event": 2, "callback": 2, "letter": 2, "money": 3, "children": 3, "both": 3}
_ALONE = frozenset({"children", "both", "undo", "say", "money"})
"""Acts that are not done inside others."""


@dataclass(frozen=True)
class Operation:
    """Something a person does to a run at a time: cancel, interrupt, rewind, fork."""

    kind: str
    run: int
    at: float


@dataclass(frozen=True)
class Wanted:
    """A run that is to be started."""

    script: Script
    at: float
    senders: int
    tenant: str = "default"
    priority: int = 0
    line: str = ""
    deadline: float = 0.0
    budget: bool = False

    def acts(self) -> Iterator[Act]:
        """Every act of it, those inside others too."""
        for turn in self.script.turns:
            for act in turn:
                yield act
                yield from act.inner


@dataclass(frozen=True)
class Plan:
    """A world."""

    seed: int
    workers: int
    wakers: int
    wanted: tuple[Wanted, ...]
    operations: tuple[Operation, ...]
    faults: tuple[Fault, ...]
    lease_seconds: float
    server: bool
    hints_lost: float
    contended: bool
    away: int
    """How long a message takes to the database or back, in microseconds, on average."""
    slow: float
    hosts: int
    places: int
    """How many runs a worker has at once: with few, tenants and priorities wait for each other."""

    @property
    def without_faults(self) -> Plan:
        """The same with nothing going wrong."""
        return replace(self, faults=(), hints_lost=0.0)


def draw(seed: int, *, small: bool = False) -> Plan:
    """Draw a world; a small one for a store that takes its time."""
    chance = random.Random(f"plan {seed}")  # noqa: S311 - a simulation's chance
    many = chance.choice((2, 3, 4, 5, 6) if small else (3, 4, 6, 8, 10, 14))
    seconds = 4 + many * 0.8
    crowd = random.Random(f"crowd {seed}")  # noqa: S311 - the same
    places, spread = crowd.choice((500, 500, 3, 1)), crowd.choice((1, 1, 1, 0.05))
    operations: list[Operation] = []
    wanted = []
    for number in range(many):
        closed, at = chance.random() < 0.35, chance.random() * seconds * spread
        soon = at + chance.random() * chance.choice((0.5, 3, 10))
        if closed and chance.random() < 0.6:
            operations.append(Operation(chance.choice(("rewind", "fork", "interrupt")), number, soon))
        elif chance.random() < 0.25:
            operations.append(Operation("cancel", number, soon))
        wanted.append(_wanted(chance, number, at, closed=closed))
    if crowd.random() < 0.3:
        at = crowd.random() * seconds
        wanted.append(Wanted(Script(f"r{many}", [[_family(crowd, f"r{many}f")]]), at, senders=1))
        if crowd.random() < 0.8:
            operations.append(Operation("cancel", many, at + crowd.random() * 8))
    budget, last = chance.choice((0, 1, 2, 3, 4, 5, 6, 8)), random.Random(f"last {seed}")  # noqa: S311 - the same
    return Plan(
        seed=seed,
        workers=chance.choice((1, 2, 2, 3, 4)),
        wakers=chance.choice((1, 1, 2)),
        wanted=tuple(wanted),
        operations=tuple(operations),
        faults=(*faults.draw(chance, budget), *faults.draw_last(last)),
        lease_seconds=chance.choice((6.0, 9.0, 15.0)),
        server=chance.random() < 0.5,
        hints_lost=chance.choice((0.0, 0.05, 0.3, 1.0)),
        away=chance.choice((200, 2_000, 30_000, 120_000)),
        contended=chance.random() < 0.2,
        slow=chance.choice((0.001, 0.2, 1.5)),
        hosts=chance.choice((1, 1, 2)),
        places=places,
    )


def _wanted(chance: random.Random, number: int, at: float, *, closed: bool) -> Wanted:
    label = f"r{number}"
    turns = []
    for turn in range(chance.choice((1, 1, 2, 3))):
        acts = [
            _act(chance, f"{label}t{turn}a{place}", CLOSED if closed else OPEN)
            for place in range(chance.choice((1, 2, 2, 3)))
        ]
        turns.append(acts)
    return Wanted(
        Script(label, turns),
        at,
        senders=chance.choice((1, 2, 3)),
        tenant=chance.choice(("default", "globex", "acme")),
        priority=chance.choice((0, 0, 5)),
        line=chance.choice(("", "", "", "", "only")),
        deadline=0.0 if closed or chance.random() < 0.93 else 3.0 + chance.random() * 20,
        budget=chance.random() < 0.5,
    )


def _family(chance: random.Random, tag: str, *, deep: int = 2) -> Act:
    """Draw children that live for a while, some with children of their own."""
    inner = []
    for number in range(chance.choice((1, 2, 3, 4))):
        own = f"{tag}{number}"
        if deep and chance.random() < 0.3:
            inner.append(_family(chance, own, deep=deep - 1))
        else:
            inner.append(Act(chance.choice(("transactional", "transactional", "keyed", "once", "verify")), own, 1))
    return Act("family", tag, chance.choice((2, 5, 8, 12)), inner)


def _act(chance: random.Random, tag: str, kinds: dict[str, int], *, inside: bool = False) -> Act:
    allowed = {kind: weight for kind, weight in kinds.items() if not inside or kind not in _ALONE}
    (kind,) = chance.choices(list(allowed), list(allowed.values()))
    n = chance.choice((1, 2, 3, 5))
    inner: list[Act] = []
    if kind in {"children", "both"}:
        among = CLOSED if kind == "children" else OPEN
        inner = [_act(chance, f"{tag}i{place}", among, inside=True) for place in range(chance.choice((1, 2, 3)))]
    return Act(kind, tag, n, inner)
