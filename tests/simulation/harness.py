"""Worlds by the number: one seed on a store, many seeds with their record, the smallest story of one that failed."""

from __future__ import annotations

import gc
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation import faults, plans
from tests.simulation.process import START_AT
from tests.simulation.world import World
from tests.stores import Moment, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.plans import Plan
    from tests.simulation.world import Outcome

SHRINK_WORLDS = 400
"""So many smaller worlds are tried at most."""


class Stores:
    """Where worlds find their database: in memory, or each in a schema of its own on one server."""

    def __init__(self, kind: str, server_url: str = "") -> None:
        """`kind` is sqlite or postgres; the latter asks for a server."""
        self.kind = kind
        self._server_url = server_url

    def live(self, plan: Plan, *, keep_lines: bool = False) -> Outcome:
        """Let a world live on a fresh database."""
        with ExitStack() as around:
            world = World(plan) if self.kind == "sqlite" else self._on_server(plan, around)
            world.history.keep_lines = keep_lines
            outcome = world.live()
        del world
        gc.collect()
        return outcome

    def _on_server(self, plan: Plan, around: ExitStack) -> World:
        moment = Moment()
        moment.at = START_AT
        folder = Path(around.enter_context(tempfile.TemporaryDirectory()))
        place = Place("postgres", folder, moment, self._server_url)
        around.callback(place.close)

        def moved(at: int) -> None:
            if at != moment.at:
                moment.advance((at - moment.at) / 1_000_000)

        return World(plan, place.open(), moved)

    def draw(self, seed: int) -> Plan:
        """Draw the plan of a seed: smaller worlds on a server."""
        return plans.draw(seed, small=self.kind == "postgres")

    def seed(self, seed: int, *, keep_lines: bool = False) -> Outcome:
        """Run a seed."""
        return self.live(self.draw(seed), keep_lines=keep_lines)


def repeat(seed: int, kind: str) -> str:
    """Return the one line that repeats a seed."""
    return f"make sim SEED={seed} STORE={kind}"


@dataclass
class Record:
    """What many seeds came to."""

    seeds: int = 0
    seconds: float = 0.0
    events: int = 0
    copies: int = 0
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Count one."""
        self.seeds += 1
        self.seconds += outcome.seconds
        self.events += outcome.events
        self.copies += outcome.copies
        self.struck.update(outcome.struck)
        self.runs.update(outcome.runs)
        if outcome.broken:
            self.failed[outcome.seed] = outcome.broken

    def merge(self, other: Record) -> None:
        """Count what another one counted."""
        self.seeds += other.seeds
        self.seconds += other.seconds
        self.events += other.events
        self.copies += other.copies
        self.struck += other.struck
        self.runs += other.runs
        self.failed.update(other.failed)

    def by_kind(self) -> dict[str, int]:
        """Return how often each kind of fault struck."""
        return {kind: sum(n for (found, _), n in self.struck.items() if found == kind) for kind in faults.KINDS}

    def table(self) -> Iterator[str]:
        """Yield the table: kinds of faults, moments, how often."""
        for kind in faults.KINDS:
            at = sorted((moment, n) for (found, moment), n in self.struck.items() if found == kind)
            yield f"{kind:<12} {sum(n for _, n in at):>6}  " + ", ".join(f"{moment} {n}" for moment, n in at)

    def __str__(self) -> str:
        """Say it in two lines."""
        ended = ", ".join(f"{n} {state}" for state, n in sorted(self.runs.items()) if n)
        return (
            f"{self.seeds} seeds, {self.seconds:.0f} s of processor time ({self.seconds / max(self.seeds, 1):.2f} s a seed), "
            f"{self.events} events, {sum(self.struck.values())} faults, {len(self.failed)} seeds failed\nruns: {ended}"
        )


def chunk(work: tuple[int, int, str, str]) -> tuple[int, Record]:
    """Run some seeds in a process of their own."""
    first, count, kind, url = work
    record, stores = Record(), Stores(kind, url)
    for seed in range(first, first + count):
        record.add(stores.seed(seed))
    return first, record


def shrink(
    stores: Stores, plan: Plan, broken: list[str], said: Callable[[str], None], *, most: int = SHRINK_WORLDS
) -> tuple[Plan, Outcome]:
    """Take out of a failing plan whatever it fails without; return what is left and how it fails."""
    number = broken[0].split(":")[0]
    best, outcome = plan, stores.live(plan, keep_lines=True)
    again, tried = True, 0
    while again and tried < most:
        again = False
        for smaller in _smaller(best):
            tried += 1
            found = stores.live(smaller, keep_lines=True)
            if any(one.split(":")[0] == number for one in found.broken):
                best, outcome, again = smaller, found, True
                said(
                    f"  {len(best.faults)} faults, {len(best.wanted)} runs, {len(best.operations)} operations: still {number}"
                )
                break
            if tried >= most:
                break
    return best, outcome


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with something taken out, the largest parts first."""
    if len(plan.faults) > 1:
        half = len(plan.faults) // 2
        yield replace(plan, faults=plan.faults[:half])
        yield replace(plan, faults=plan.faults[half:])
    if len(plan.wanted) > 1 and not plan.operations:
        half = len(plan.wanted) // 2
        yield replace(plan, wanted=plan.wanted[:half])
        yield replace(plan, wanted=plan.wanted[half:])
    for number in range(len(plan.faults)):
        yield replace(plan, faults=(*plan.faults[:number], *plan.faults[number + 1 :]))
    for number in range(len(plan.operations)):
        yield replace(plan, operations=(*plan.operations[:number], *plan.operations[number + 1 :]))
    for number in range(len(plan.wanted)):
        yield _without(plan, number)
    if plan.workers > 1:
        yield replace(plan, workers=plan.workers - 1)
    if plan.wakers > 1:
        yield replace(plan, wakers=1)
    yield from _shorter(plan)


def _shorter(plan: Plan) -> Iterator[Plan]:
    """Yield plans in which one run does one thing less."""
    for number, wanted in enumerate(plan.wanted):
        turns = wanted.script.turns
        for turn, acts in enumerate(turns):
            for place in range(len(acts) if sum(map(len, turns)) > 1 else 0):
                left = [*acts[:place], *acts[place + 1 :]]
                kept = [*turns[:turn], *([left] if left else []), *turns[turn + 1 :]]
                smaller = replace(wanted, script=replace(wanted.script, turns=kept))
                yield replace(plan, wanted=(*plan.wanted[:number], smaller, *plan.wanted[number + 1 :]))


def _without(plan: Plan, number: int) -> Plan:
    """Take out a run, and what is done to it."""
    if len(plan.wanted) == 1:
        return replace(plan, hints_lost=0.0)
    operations = tuple(
        replace(operation, run=operation.run - (operation.run > number))
        for operation in plan.operations
        if operation.run != number
    )
    return replace(plan, wanted=(*plan.wanted[:number], *plan.wanted[number + 1 :]), operations=operations)


def story(plan: Plan, outcome: Outcome) -> Iterator[str]:
    """Yield the lines of a failure: its faults, what happened, what is broken."""
    yield f"{plan.workers} workers, {plan.wakers} wakers, leases of {plan.lease_seconds:g} s"
    for wanted in plan.wanted:
        yield f"run {wanted.script.label}: " + " | ".join(
            ", ".join(f"{act.kind} {act.n}" for act in turn) for turn in wanted.script.turns
        )
    for operation in plan.operations:
        yield f"operation: {operation}"
    for fault in plan.faults:
        yield f"fault: {fault}"
    yield from outcome.lines
    yield from (f"BROKEN {one}" for one in outcome.broken)
