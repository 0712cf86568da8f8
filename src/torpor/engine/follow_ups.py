"""Follow-ups: what others must learn of a run's end or its cancellation, after the commit that made it so.

The commit touches one run and leaves a note (`add_follow_ups`) in its own transaction; this sweep does the rest, a
bounded number of runs at a time, and takes the note away when nothing is left. A crash anywhere leaves the note, and
everything here may be done twice: a cancelled run stays cancelled, an end has a key in its parent's inbox (G7, G12).

* A run that ended or is being cancelled takes its dependent children with it, each of which leaves a note of its own if
  it has children: the cascade goes down one generation at a time. No new child can appear meanwhile, because a child is
  started under its parent's lock, and refused once cancel was asked or the parent ended (`engine.family`).
* A child that ended is told to its parent.
* The place in a line that it held, or waited for, is free for others.

A note is written and removed only under its run's lock: otherwise an end that is noted while the note of an earlier
cancel is being worked off would be lost with it. All runs of one transaction are locked at once, in order of number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.family import done_name, members_of
from torpor.core.run import Flag, State
from torpor.core.wait import WaitKind
from torpor.engine import lines, runs
from torpor.engine.family import Joinable, asked_for
from torpor.engine.large import name_by
from torpor.engine.sweeps import Swept
from torpor.store.rows import FollowUp, Kept, NewSignal, RunChange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

SWEEP = 100
"""At most so many follow-ups, and so many children of them, in one transaction."""


def settle(tx: Tx, *, limit: int = SWEEP) -> Swept:
    """Work off follow-ups: tell parents, cancel children; a bounded number of each."""
    notes = tx.follow_ups(limit=limit)
    if not notes:
        return Swept()
    known = tx.get_runs([note.run_id for note in notes])
    families = [note for note in notes if note.run_id in known and Flag.FAMILY in known[note.run_id].flags]
    children = tx.live_children(families, limit=limit) if families else []
    parents = [run.parent for run in known.values() if run.parent is not None and Flag.CHILD in run.flags]
    touched = {*(note.run_id for note in notes), *parents, *(child for _, child in children)}
    locked = tx.get_runs(sorted(touched), lock=True)
    tell(tx, [locked[n.run_id] for n in notes if n.run_id in locked], locked)
    noted = [locked[n.run_id] for n in notes if n.run_id in locked]
    lines.leave(tx, [run for run in noted if run.state.final and Flag.LINE in run.flags])
    cancelled = runs.cancel_locked(tx, [locked[child] for _, child in children if _falls(child, locked)])
    moved, over = _places(notes, children, full=len(children) >= limit)
    tx.move_follow_ups(moved)
    tx.drop_follow_ups(over)
    return Swept(len(notes), more=bool(moved) or len(notes) >= limit or cancelled)


def _falls(child: int, locked: Mapping[int, RunRow]) -> bool:
    """Whether a child must end with its parent: asked again under both locks."""
    run = locked.get(child)
    if run is None or run.state.final or Flag.INDEPENDENT in run.flags or run.parent is None:
        return False
    parent = locked[run.parent]
    return parent.state.final or Flag.CANCEL in parent.flags


def _places(
    notes: Sequence[FollowUp], children: Sequence[tuple[int, int]], *, full: bool
) -> tuple[list[FollowUp], list[int]]:
    """Return which notes stay, with the last child that was seen to, and which have nothing left.

    The children came by parent: if there were as many as were asked for, the last parent may have more, and those of
    the parents behind it were not looked at.
    """
    if not full:
        return [], [note.run_id for note in notes]
    last_parent, last_child = children[-1]
    moved = [FollowUp(last_parent, last_child)]
    moved += [note for note in notes if note.run_id > last_parent]
    return moved, [note.run_id for note in notes if note.run_id < last_parent]


def tell(tx: Tx, ended: Sequence[RunRow], locked: Mapping[int, RunRow]) -> None:
    """Tell parents of the ends of their children, and wake those that need no more. All of them are locked."""
    told = [run for run in ended if run.state.final and Flag.CHILD in run.flags and run.parent in locked]
    if not told:
        return
    last = tx.entries([(run.id, run.head) for run in told])
    signals = []
    for run in told:
        entry = last.get((run.id, run.head))
        body = entry.body if entry is not None and entry.body is not None else b"null"
        name = done_name(run.id)
        signals.append(NewSignal(run.parent or 0, name, body, name, run.state.word))
    kept = tx.add_signals(signals, wake=False)
    name_by(tx, [(signal.body, signal.run_id) for signal, one in zip(signals, kept, strict=True) if one is Kept.NEW])
    new = [run for run, one in zip(told, kept, strict=True) if one is Kept.NEW]
    _wake(tx, new, locked)


def tell_again(tx: Tx, parent: RunRow, children: Sequence[int]) -> None:
    """Let a run, which is locked, join children again: it is told of their ends as they are now, and later of the others'.

    A child that ends at this moment is told of by its own follow-up, which needs the parent's lock.
    """
    tx.forget_spent(parent.id, [done_name(child) for child in children])
    known = tx.get_runs(sorted(children)).values()
    tell(tx, [child for child in known if child.parent == parent.id], {parent.id: parent})


def joinable(tx: Tx, run_id: int, children: Sequence[int]) -> dict[int, Joinable]:
    """Say which runs a run may wait for: its children whose end it has not consumed yet.

    On a branch that began with a rewind one whose end was consumed is told of again: the code that joined it may lie
    behind what the rewind left, and nobody else could send that news anew. It repeats nothing: a child's end is a fact
    that this branch may learn like the one before (G19).
    """
    found = asked_for(tx, run_id, children)
    again = [child for child, answer in found.items() if answer is Joinable.BEFORE]
    if not again:
        return found
    run = tx.get_runs([run_id], lock=True).get(run_id)
    if run is None or not run.branch:
        return found
    tell_again(tx, run, again)
    return found | dict.fromkeys(again, Joinable.YES)


def _wake(tx: Tx, ended: Sequence[RunRow], locked: Mapping[int, RunRow]) -> None:
    """Count down what parents need, and make ready those that wait for nothing more (G20)."""
    by_parent: dict[int, set[int]] = {}
    for run in ended:
        by_parent.setdefault(run.parent or 0, set()).add(run.id)
    asleep = [parent for parent in by_parent if locked[parent].state is State.WAITING]
    fewer: list[tuple[int, int, int]] = []
    woken: set[int] = set()
    for wait in tx.waits(asleep) if asleep else []:
        if wait.kind in _COUNTED and (count := len(members_of(wait.members) & by_parent[wait.run_id])):
            fewer.append((wait.run_id, wait.slot, count))
            if wait.need <= count:
                woken.add(wait.run_id)
    if fewer:
        tx.count_down(fewer)
    if woken:
        tx.change_runs([RunChange(parent, State.READY, tx.now()) for parent in sorted(woken)])
        tx.hint("ready")
    for parent in by_parent:
        if locked[parent].state is State.RUNNING:
            tx.hint(f"run:{parent}")


_COUNTED = frozenset({WaitKind.CHILD, WaitKind.CHILDREN})
