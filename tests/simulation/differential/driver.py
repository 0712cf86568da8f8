"""A driver that wants to have seen everything: it prefers what has not occurred yet, and ends when nothing is missing.

A history of operations drawn at random does little: most find nothing to do. So the driver looks where the runs stand. It
keeps some of them alive, lets workers do things with what they hold, lets sweeps come when they have something to do, and
now and then does anything at all.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.differential.coverage import act, options
from tests.simulation.differential.draws import Seeded
from tests.simulation.differential.operations import OPERATIONS, About, targets
from tests.simulation.differential.scenes import Scene
from tests.simulation.differential.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.differential.coverage import Coverage
    from tests.simulation.differential.stores import Stores

    Choice = tuple[str, Any] | None

LENGTH = 150
"""So many operations make a history."""
ALIVE, MOST_RUNS = 6, 16
"""A history keeps so many runs alive, until there were so many in all."""
_OF_RUNS = [name for name, operation in OPERATIONS.items() if operation.about is About.RUN]
_OF_LEASES = [name for name, operation in OPERATIONS.items() if operation.about is About.LEASE]
_FAMILY = ["spawn", "spawn", "join", "intent", "intent", "question", "reserve", "complete", "fail", "turn"]
"""What leads furthest, and is done more often."""
_WAITED_FOR = {
    "decide": frozenset({"approval", "attention", "question", "budget"}),
    "settle_late": frozenset({"attention"}),
    "callback": frozenset({"callback"}),
    "signal": frozenset({"message"}),
}
"""Which waits somebody would want to end who does this."""
_MAKES_RUNS = frozenset({"start", "fork", "spawn"})


def history(stores: Stores, coverage: Coverage, seed: int, length: int = LENGTH) -> World:
    """Do one history. It follows from the seed and from what was covered before."""
    random = Random(seed)  # noqa: S311 - a history, no secret
    world, draws = World(stores), Seeded(random)
    for _ in range(length):
        kind = random.choices([kind for kind, _ in _KINDS], [share for _, share in _KINDS])[0]
        chosen = kind(world, coverage, random)
        if chosen is not None and not (chosen[0] in _MAKES_RUNS and len(world.model.runs) >= MOST_RUNS):
            act(world, coverage, *chosen, draws)
    return world


def _missing(world: World, coverage: Coverage, random: Random) -> Choice:
    """Choose what has not occurred yet."""
    wanted = options(world, coverage)
    about_runs = [one for one in wanted if one[1] is not None]
    if about_runs and random.random() < 0.9:
        return random.choice(about_runs)
    return random.choice(wanted) if wanted else None


def _worker(world: World, coverage: Coverage, random: Random) -> Choice:
    """Choose something that a worker does with what it holds, or believes to hold."""
    del coverage
    held = world.held()
    now = [one for one in held if one[1] == 0 and world.model.runs.get(one[0], {}).get("lease")]
    possible = now if now and random.random() < 0.9 else held
    if not possible:
        return None
    chosen = random.choice(possible)
    parent = world.model.runs.get(chosen[0], {}).get("parent")
    if parent is not None and random.random() < 0.3:
        return random.choice(["complete", "fail"]), chosen
    return random.choice([*_OF_LEASES, *_FAMILY]), chosen


def _sweep(world: World, coverage: Coverage, random: Random) -> Choice:
    """Choose a sweep that has something to do, or a claim."""
    del coverage
    model = world.model
    runs = model.runs.values()
    has = {
        "claim": any(run["state"] == "ready" for run in runs),
        "deliver": bool(model.outbox),
        "follow": bool(model.follow_ups),
        "admit": any(line["stirred"] for line in model.lines.values()),
        "fire_timers": any(run["state"] == "waiting" and run["due"] and run["due"] <= world.now for run in runs),
        "cancel_late": any(at <= world.now for at in model.deadlines.values()),
        "wake_short": any(budget["short"] == "stirred" for budget in model.budgets.values()),
        "fan_out": any(event["reached"] is not None for event in world.snapshot["events"]),
        "reap": any(run["lease"] for run in runs) and random.random() < 0.5,
    }
    possible = [name for name, yes in has.items() if yes]
    return (random.choice(possible), None) if possible else None


def _person(world: World, coverage: Coverage, random: Random) -> Choice:
    """Choose something that people do to a run, mostly to one that waits for it."""
    del coverage
    name = random.choice([*_OF_RUNS, "decide", "decide", "decide", "signal"])
    kinds = _WAITED_FOR.get(name, frozenset())
    waiting = [n for n in world.model.runs if any(wait["kind"] in kinds for _, wait in world.waits(n))]
    if name == "retry":
        waiting = [n for n, run in world.model.runs.items() if run["state"] == "failed"]
    if random.random() < 0.8:
        possible = waiting if kinds or name == "retry" else world.numbers()
        return (name, random.choice(possible)) if possible else None
    return name, random.choice(world.numbers())


def _more(world: World, coverage: Coverage, random: Random) -> Choice:
    """Choose to start a run, if few are alive, or to let time pass."""
    del coverage
    alive = sum(run["state"] in {"ready", "waiting", "running"} for run in world.model.runs.values())
    few = alive < ALIVE and random.random() < 0.7
    return (random.choice(["wait", "wait", "wait", "publish"]) if not few else "start"), None


def _anything(world: World, coverage: Coverage, random: Random) -> Choice:
    """Choose anything."""
    del coverage
    name = random.choice([*OPERATIONS])
    possible = targets(name, world)
    return (name, random.choice(possible)) if possible else None


_KINDS: list[tuple[Callable[[World, Coverage, Random], Choice], float]] = [
    *((_missing, 0.20), (_worker, 0.32), (_sweep, 0.18), (_person, 0.13), (_more, 0.13), (_anything, 0.04)),
]
"""Who acts next, and how often."""


def cover(stores: Stores, coverage: Coverage, *, seed: int, histories: int) -> None:
    """Do some histories that want what is missing, then a scene for each pair that is missing still."""
    for n in range(histories):
        history(stores, coverage, seed + n)
    for name, where in coverage.missing():
        Scene(stores, coverage).meet(name, where)
    for name in coverage.unsuccessful():
        Scene(stores, coverage).succeed(name)
    for name in coverage.unrefused():
        Scene(stores, coverage).refuse(name)
