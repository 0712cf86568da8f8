"""A driver that wants to have seen everything: it prefers what has not occurred yet, and ends when nothing is missing."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.differential.coverage import act, options
from tests.simulation.differential.draws import Seeded
from tests.simulation.differential.operations import OPERATIONS, About, targets
from tests.simulation.differential.scenes import Scene
from tests.simulation.differential.world import World

if TYPE_CHECKING:
    from tests.simulation.differential.coverage import Coverage
    from tests.simulation.differential.stores import Stores

LENGTH = 150
"""So many operations make a history."""
MOST_RUNS = 14
_MOVES = (
    "claim",
    "claim",
    "start",
    "deliver",
    "follow",
    "fire_timers",
    "wait",
    "admit",
    "cancel",
    "reap",
    "wake_short",
    "prune",
    "publish",
)
_ENDS = ("complete", "fail", "end_cancelled", "follow", "wait_long", "prune")
_ANSWERS = ("decide", "signal", "callback", "consume", "outcome", "settle_late", "publish", "fan_out", "withdraw")
_PARKS = (
    "sleep",
    "listen",
    "question",
    "trouble",
    "hook",
    "expect",
    "join",
    "spawn",
    "undo",
    "reserve",
    "intent",
    "turn",
)
_MAKE_RUNS = frozenset({"start", "fork", "spawn"})
_SHARES = ((0.45, _MOVES), (0.30, _PARKS), (0.13, _ANSWERS), (0.08, _ENDS), (0.04, tuple(OPERATIONS)))
_NEW = 0.5
"""How often the driver does what is new; else it moves runs on, puts them away, answers them, ends them."""


def history(stores: Stores, coverage: Coverage, seed: int, length: int = LENGTH) -> World:
    """Do one history. It follows from the seed and from what was covered before."""
    random = Random(seed)  # noqa: S311 - a history, no secret
    world, draws = World(stores), Seeded(random)
    for _ in range(length):
        chosen = _choose(world, coverage, random)
        if chosen is not None:
            act(world, coverage, *chosen, draws)
    return world


def _choose(world: World, coverage: Coverage, random: Random) -> tuple[str, Any] | None:
    lot = random.random()
    if lot < _NEW:
        wanted = options(world, coverage)
        about_runs = [one for one in wanted if one[1] is not None]
        if about_runs and lot > _NEW / 8:
            return random.choice(about_runs)
        if wanted and lot < _NEW / 4:
            return random.choice(wanted)
    many = len(world.model.runs) >= MOST_RUNS
    kinds = random.choices([kinds for _, kinds in _SHARES], [share for share, _ in _SHARES])[0]
    name = random.choice([one for one in kinds if not (many and one in _MAKE_RUNS)])
    possible = targets(name, world)
    if OPERATIONS[name].about is About.LEASE:
        possible = [one for one in possible if one[1] == 0] or possible
        if name in _ENDS:  # of children others are told
            possible = [one for one in possible if world.model.runs.get(one[0], {}).get("parent")] or possible
    return (name, random.choice(possible)) if possible else None


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
