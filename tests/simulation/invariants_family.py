"""G12 below a cancelled run: what is true of its descendants, and from when on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.journal import Kind
from torpor.core.run import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.outside import Start
    from tests.simulation.world import World

DESCENDANTS_SECONDS = 5.0
"""From the acknowledged cancel on, while a waker lives and the store answers."""


def g12_descendants(world: World) -> list[str]:
    """No effect and no child starts in the descendants of a run more than five seconds after its cancel was acknowledged.

    An effect counts from its gate: one that is past it may still start. A transactional effect starts with its commit.
    """
    return [
        f"G12: {what} below run {cancelled} {seconds:.1f} s after its cancel was acknowledged"
        for cancelled, acknowledged in _acknowledged(world)
        for below in _descendants(world, cancelled)
        for place, what in _starts(world, below)
        if (seconds := world.vigil.between(acknowledged, place)) > DESCENDANTS_SECONDS
    ]


def g12_no_child(world: World) -> list[str]:
    """No child starts in a run once its cancel was acknowledged."""
    cancelled = world.history.cancelled
    return [
        f"G12: run {parent} had child {child} after its cancel"
        for place, parent, child in world.history.births
        if place > cancelled.get(parent, place) and child in world.facts.runs
    ]


def gate_of(world: World, run: int, start: Start) -> int | None:
    """Return the place of the last gate that the process of an effect asked before it began; None: it asked none.

    A copy that asked none since was at the gate, or past it, when it was made.
    """
    gates = [one for one in world.history.gated if one.run == run and one.place < start.place]
    own = [one.place for one in gates if one.process == start.process]
    for place, original, copy in world.history.copies:
        if copy == start.process and not own:
            own = [one.place for one in gates if one.process == original and one.place <= place]
    return own[-1] if own else None


def _acknowledged(world: World) -> Iterator[tuple[int, int]]:
    """Yield runs whose cancel somebody was told of, and when; of those that had not ended before."""
    for name, place in world.people.acknowledged.items():
        run = next(ended.row.id for ended in world.facts.runs.values() if ended.name == name)
        if run in world.history.cancelled:
            yield run, place


def _descendants(world: World, run: int) -> Iterator[int]:
    """Yield those that end with a run."""
    for ended in world.facts.runs.values():
        if ended.row.parent == run and Flag.INDEPENDENT not in ended.row.flags:
            yield ended.row.id
            yield from _descendants(world, ended.row.id)


def _starts(world: World, run: int) -> Iterator[tuple[int, str]]:
    """Yield what started in a run, and the place of the last moment at which it could have been stopped."""
    name = world.facts.runs[run].name
    for start in world.outside.starts:
        if start.run == name and start.kind != "undo":
            yield gate_of(world, run, start) or start.place, f"{start.kind} {start.tag} began"
    for one in world.history.accepted:
        if one.run == run and any(entry.kind is Kind.OUTCOME and _books(entry.key) for entry in one.entries):
            yield one.place, "a row was booked"
    for place, parent, child in world.history.births:
        if parent == run and child in world.facts.runs:
            yield place, f"run {child} started"


def _books(key: str | None) -> bool:
    return (key or "").startswith("e:book#")
