"""Ahead: a guest is given the outcome of its last repeatable call before that is durable, and one commit is saved.

When the last tool of an agent's turn has ended, the turn ends: what the tool gave back and the checkpoint that follows a
third of a millisecond later can travel in one commit. For that the guest must go on without waiting. So if nothing else of
the turn is open, and nothing is being committed, the outcome is handed over at once, decoded from the body that will be
stored (G14), and its commit waits until the guest has ended its turn, or asks for something, or has taken `MOST_SECONDS`.

What this does not touch:

* Only what a guest asked for with `ahead` comes so early: a step, which may be run again, as it would be if its worker died
  a moment sooner. An effect's outcome never does, nor what a model said, which was paid for.
* **Nothing begins before it is durable.** What the guest asks for meanwhile is taken, and started only once the commit that
  carries the outcome has been acknowledged (`Progress.start_pending`); what is recorded meanwhile travels with it or after
  it (G3).
* What a guest does between its calls may be done again in any case (`sdk.guest`).
* Loop time stands still until the commit: it moves with the journal alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.journal import Kind

if TYPE_CHECKING:
    from torpor.worker.roles import Executor, Turn

MOST_SECONDS = 0.005
"""So long a commit waits at most for a guest that does something else than ending its turn."""


def holds(executor: Executor, turn: Turn) -> bool:
    """Whether what was gathered waits for a guest that goes on with it; hands it over if it may be."""
    if turn.ahead is not None:
        return turn.guests is not None and turn.guests.busy and executor.worker.loop.time() < turn.ahead.when()
    if not _may(executor, turn):
        return False
    turn.ahead = executor.worker.loop.call_later(MOST_SECONDS, _waited, executor, turn)
    executor.arrived.extend((entry, turn.loop.now) for entry in executor.commits.draft.entries)
    executor.go_on()
    return True


def _may(executor: Executor, turn: Turn) -> bool:
    """Whether what was gathered is outcomes of steps that may come early, and nothing else is open or on its way."""
    entries, progress = executor.commits.draft.entries, executor.progress
    if executor.commits.pending or progress.busy or progress.waits or len(turn.open) != len(entries):
        return False
    for entry in entries:
        request = turn.open.get(entry.key or "")
        if request is None or not request.ahead or entry.kind is not Kind.OUTCOME:
            return False
    return True


def given(turn: Turn | None) -> bool:
    """Whether a guest was given what is not durable yet."""
    return turn is not None and turn.ahead is not None


def over(turn: Turn | None) -> None:
    """Take note that it is durable."""
    if turn is not None and turn.ahead is not None:
        turn.ahead.cancel()
        turn.ahead = None


def _waited(executor: Executor, turn: Turn) -> None:
    """The guest does something else: its turn does not end at once."""
    if executor.turn is turn and executor.commits.draft.entries:
        executor.commits.submit()
