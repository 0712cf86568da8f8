"""Checkpoints that can be returned to: what their entries say, which ones are kept, and what a branch inherits.

The entry of a checkpoint carries the whole state in its body and a mark in its key: the turn that follows, the program
(name and version) the state belongs to, and the branch it stands on. Entry 0 is the run's input. A checkpoint is *whole*
while its body is there; the present one always is, because its state lies in `states`.

Returning to one never takes anything back: a rewind writes a new checkpoint on top, on the next branch, so heads and turn
numbers never go down and every key of what follows is a new one (G5, G19).
"""

from __future__ import annotations

from typing import NamedTuple

from torpor.core.replay import CallKind

KEEP_CHECKPOINTS = 10
"""So many checkpoints before the present one are kept whole, unless the flow says otherwise."""
MOST_CHECKPOINTS = 1_000
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


def empties(turn: int, keep: int) -> bool:
    """Whether the checkpoint that begins `turn` also empties what is older than `keep` others.

    One statement in `keep` checkpoints, so that none of them pays for it: at most twice as many are whole.
    """
    return keep > 0 and turn % keep == 0
