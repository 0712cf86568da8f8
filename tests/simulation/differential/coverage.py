"""What has occurred: which operation met a run in which situation, which succeeded, which was refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.simulation.differential.operations import CHANGES, NOBODY, OPERATIONS, About, pairs, targets
from tests.simulation.differential.stores import Differs

if TYPE_CHECKING:
    from tests.simulation.differential.draws import Draws
    from tests.simulation.differential.world import World


class Coverage:
    """Counts over any number of histories."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.met: Counter[tuple[str, str]] = Counter()
        self.succeeded: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.table = pairs()

    def missing(self) -> list[tuple[str, str]]:
        """The pairs that can occur and have not."""
        return [pair for pair, why in self.table.items() if not why and not self.met[pair]]

    def unsuccessful(self) -> list[str]:
        """The operations that have not succeeded yet."""
        return [name for name in OPERATIONS if not self.succeeded[name]]

    def unrefused(self) -> list[str]:
        """The operations that can be refused, or find nothing to do, and never did."""
        return [name for name, operation in OPERATIONS.items() if operation.refusable and not self.refused[name]]

    @property
    def whole(self) -> bool:
        """Whether every operation has succeeded and every pair that can occur has occurred."""
        return not (self.missing() or self.unsuccessful() or self.unrefused())

    def meet(self, name: str, situation: str) -> None:
        """Count a pair. Raises Differs if it was declared impossible."""
        if why := self.table[name, situation]:
            raise Differs(f'{name} met a run that is {situation}, which cannot be: "{why}"')
        self.met[name, situation] += 1


def act(world: World, coverage: Coverage, name: str, target: Any, draws: Draws) -> bool:
    """Do one operation, compare everything, and count. Raises Differs, with all that was done before."""
    operation = OPERATIONS[name]
    world.done.append(f"{name}({'' if target is None else target})")
    try:
        before = {n: (world.situation(n), _print(run)) for n, run in world.model.runs.items()}
        if operation.about is About.RUN:
            coverage.meet(name, world.situation(target))
        elif operation.about is About.LEASE:
            coverage.meet(name, world.held_situation(target))
        done = operation.act(world, draws) if target is None else operation.act(world, draws, target)
        for n, (where, was) in before.items() if name in CHANGES else ():
            if was != _print(world.model.runs.get(n)):
                coverage.meet(name, where)
        world.check()
    except AssertionError as error:
        raise Differs(f"{error}\nafter: {' '.join(world.done)}") from error
    (coverage.succeeded if done else coverage.refused)[name] += 1
    return done


def _print(run: dict[str, Any] | None) -> object:
    if run is None:
        return None
    lease = run["lease"]
    flat = ("state", "due", "epoch", "head", "inbox", "flags", "takeovers")
    return [run[name] for name in flat], None if lease is None else lease["token"], len(run["signals"])


def options(world: World, coverage: Coverage) -> list[tuple[str, Any]]:
    """Return what can be done now that has not been done: an operation, on a run that stands where it met none.

    A sweep is wanted too while it never found anything to do.
    """
    found: list[tuple[str, Any]] = []
    for name, operation in OPERATIONS.items():
        never = not coverage.succeeded[name] or (operation.refusable and not coverage.refused[name])
        if operation.about in {About.RUN, About.LEASE}:
            where = world.situation if operation.about is About.RUN else world.held_situation
            found += [(name, one) for one in targets(name, world) if not coverage.met[name, where(one)]]
        elif never or any(not coverage.met[name, one] for one in CHANGES.get(name, NOBODY)[0] & world.stands()):
            found.append((name, None))
    return found
