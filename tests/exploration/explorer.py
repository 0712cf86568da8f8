"""Every interleaving, breadth first, so that the first trace to a violation is a shortest one."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.exploration.actions import Actions
from tests.exploration.properties import broken_by, broken_in
from tests.exploration.rules import Rules

if TYPE_CHECKING:
    from tests.exploration.world import Configuration, World

STUCK = "G13 no final state can be reached"


@dataclass(slots=True)
class Explored:
    """What was found: how many worlds and moves, and for each broken property a shortest trace to it."""

    configuration: Configuration
    states: int = 0
    moves: int = 0
    broken: dict[str, list[str]] = field(default_factory=dict)

    def told(self) -> str:
        """Return the broken properties with their traces, for a person."""
        lines = []
        for name, trace in self.broken.items():
            lines += [f"{self.configuration.name}: {name}", *(f"  {n:2}. {step}" for n, step in enumerate(trace, 1))]
        return "\n".join(lines)


class _Graph:
    """The worlds seen, how each was reached first, and the moves that are no faults, backwards."""

    def __init__(self, first: World) -> None:
        self.index: dict[World, int] = {first: 0}
        self.worlds = [first]
        self.parents = array("l", [-1])
        self.labels = [""]
        self.sources = array("l")
        self.targets = array("l")

    def trace(self, at: int, last: str = "") -> list[str]:
        steps = [last] if last else []
        while at > 0:
            steps.append(self.labels[at])
            at = self.parents[at]
        return steps[::-1]

    def stuck(self) -> int | None:
        """Return the first world from which no final state can be reached without further faults."""
        count = len(self.worlds)
        into: list[array[int] | None] = [None] * count
        for source, target in zip(self.sources, self.targets, strict=True):
            found = into[target]
            if found is None:
                found = into[target] = array("l")
            found.append(source)
        good = bytearray(count)
        queue = deque(n for n, world in enumerate(self.worlds) if world.run.state.final)
        for n in queue:
            good[n] = 1
        while queue:
            for source in into[queue.pop()] or ():
                if not good[source]:
                    good[source] = 1
                    queue.append(source)
        bad = good.find(0)
        return None if bad < 0 else bad


def explore(configuration: Configuration, rules: Rules | None = None, *, until: str | None = None) -> Explored:
    """Visit every world. With `until`, stop at the first broken property whose name begins so."""
    actions = Actions(configuration, rules or Rules())
    graph = _Graph(configuration.first())
    found = Explored(configuration)
    index, worlds = graph.index, graph.worlds
    at = 0
    while at < len(worlds):
        world = worlds[at]
        for label, after, broken, fault in actions.moves(world):
            found.moves += 1
            reached = index.get(after)
            wrong = [*broken, *broken_by(world, after, configuration)]
            if reached is None:
                reached = index[after] = len(worlds)
                worlds.append(after)
                graph.parents.append(at)
                graph.labels.append(label)
                wrong += broken_in(after, configuration)
            for name in wrong:
                if name not in found.broken:
                    found.broken[name] = graph.trace(at, label)
                if until is not None and name.startswith(until):
                    found.states = len(worlds)
                    return found
            if not fault:
                graph.sources.append(at)
                graph.targets.append(reached)
        at += 1
    found.states = len(worlds)
    bad = graph.stuck()
    if bad is not None:
        found.broken[STUCK] = graph.trace(bad)
    return found
