"""Checkpoints that can be returned to: what their entries say, which ones are kept, and what a branch inherits.

The entry of a checkpoint carries the whole state in its body and a mark in its key: the turn that follows, the program
(name and version) the state belongs to, and the branch it stands on. Entry 0 is the run's input. A checkpoint is *whole*
while its body is there; the present one always is, because its state lies in `states`.

An agent's turns leave what models and tools gave back twice: in outcomes, and in its conversation, which are rows of its
state (`Flow.told_in_rows`). So when a checkpoint is emptied, the outcomes of the turn that led to it are, too. What was
asked, what failed and what people said stays.

Returning to one never takes anything back: a rewind writes a new checkpoint on top, on the next branch, so heads and turn
numbers never go down and every key of what follows is a new one (G5, G19).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.journal import Kind
from torpor.core.replay import CallKind

if TYPE_CHECKING:
    from torpor.core.journal import Stored

KEEP_CHECKPOINTS = 10
"""So many checkpoints before the present one are kept whole, unless the flow says otherwise."""
MOST_CHECKPOINTS = 1_000
EMPTIED_AT_ONCE = 2 * KEEP_CHECKPOINTS
"""Of a program that keeps no checkpoint: so many turns lose their outcomes at once, at most."""
EMPTIED = "(not kept here any more: it stands in the conversation)"
"""What people see in the place of an outcome that was emptied."""
INPUT = 0
"""The number of the entry that stands for the run's input."""


class Mark(NamedTuple):
    """What a checkpoint's entry says in its key: the turn that follows it, its program's number, its branch."""

    turn: int
    program: int
    branch: int

    @property
    def text(self) -> str:
        """Return the key, `z:14/2/0`."""
        return f"{CallKind.TURN}:{self.turn}/{self.program}/{self.branch}"


def mark_of(key: str | None) -> Mark | None:
    """Return what a checkpoint's key says, or None: it was written before checkpoints were kept."""
    if key is None:
        return None
    turn, program, branch = key.partition(":")[2].split("/")
    return Mark(int(turn), int(program), int(branch))


def empties(turn: int, keep: int, *, told_in_rows: bool = False) -> bool:
    """Whether the checkpoint that begins `turn` also empties what is older than `keep` others.

    One statement in `keep` checkpoints, so that none of them pays for it: at most twice as many are whole. A program that
    keeps none has nothing to be emptied, unless its outcomes stand in rows.
    """
    return (keep > 0 or told_in_rows) and turn % (keep or KEEP_CHECKPOINTS) == 0


def told_in_rows(key: str | None) -> bool:
    """Whether the outcome of a call stands in rows as well, in a run of a program that says so of its calls.

    It does of steps and effects that the program named itself (`@` and a step_id), not of those that are made inside
    another call (a step_id with `/`), which come back as part of that call's value at most.
    """
    return key is not None and key[:2] in _ACTS and "@" in key and "#" not in key and "/" not in key


_ACTS = frozenset({f"{CallKind.STEP}:", f"{CallKind.EFFECT}:"})


def was_emptied(entry: Stored) -> bool:
    """Whether an entry is an outcome whose value is not in the journal any more."""
    return entry.kind is Kind.OUTCOME and entry.body is None and told_in_rows(entry.key)
