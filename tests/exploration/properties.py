"""What must be true of every world, and of every move. Each is named by the guarantee it belongs to.

What only the moment of an act can tell (a second start, an early timer, two who believe) is said by the act itself, in
`executor.py` and `actions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.run import State, may_follow

if TYPE_CHECKING:
    from tests.exploration.world import Configuration, World


def broken_by(before: World, after: World, configuration: Configuration) -> list[str]:
    """Return what a move broke. A database that lost its last commits is outside these promises."""
    broken: list[str] = []
    old, new = before.run, after.run
    if old is new or configuration.faults.failover:
        return broken
    if old.state is not new.state and not may_follow(old.state, new.state):
        broken.append("G1 a finished run comes back to life" if old.state.final else "G1 no such change of state")
    if old.journal is not new.journal and new.journal[: len(old.journal)] != old.journal:
        broken.append("G3 the journal is rewritten")
    if new.state is State.RUNNING and old.state is not State.RUNNING and new.epoch <= old.epoch:
        broken.append("G1 a claim does not raise the epoch")
    return broken


def broken_in(world: World, configuration: Configuration) -> list[str]:
    """Return what is wrong in a world."""
    run, held = world.run, world.held
    broken: list[str] = []
    if (held is not None) != (run.state is State.RUNNING):
        broken.append("G1 `running` and the lease disagree")
    if held is not None and held.epoch != run.epoch:
        broken.append("G1 a lease of an old epoch")
    if run.charged > 1:
        broken.append("G3 one commit is charged twice")
    if not configuration.faults.failover:
        sent = configuration.faults.signal - world.left.signal
        consumed = sum(code == "signal" for _, code in run.journal)
        if sent != len(run.unread) + consumed:
            broken.append("G7 a signal is lost or consumed twice")
    if run.state is State.WAITING:
        broken += _broken_while_waiting(world)
    return broken


def _broken_while_waiting(world: World) -> list[str]:
    run = world.run
    broken: list[str] = []
    race = run.journal and not run.answer
    if race and run.unread:
        broken.append("G7 waits although its signal is stored")
    if run.answer not in {"", "open"}:
        broken.append("G7 waits although a person decided")
    if run.cancel:
        broken.append("G12 a cancelled run is left waiting")
    if not run.answer and run.due_at is None:
        broken.append("G13 waits and nothing will wake it")
    return broken
