"""Starting children: a message in the parent's commit, delivered under the parent's lock.

The parent's commit touches one run: it writes a message. Whoever delivers it (the parent's worker right after its commit,
or any waker) does everything else in one transaction: asks whether the parent may still have a child, starts it, tells
the parent its id, and takes the message away. So it happens once, however often it is tried, and a cancel, which needs
the same lock, comes before the child and prevents it, or after it and finds it (G12).
"""

from __future__ import annotations

from enum import Enum, auto
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.commit import MessageKind
from torpor.core.family import done_name, started_name, wishes_of
from torpor.core.ids import run_name
from torpor.core.run import Flag
from torpor.engine import budgets
from torpor.engine.large import name_by
from torpor.engine.runs import newest
from torpor.errors import UsageError
from torpor.store import values
from torpor.store.rows import NewRun, NewSignal, RunChange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import MessageRow, ProgramRow, RunRow


class Joinable(Enum):
    """Whether a run may wait for another's end."""

    YES = auto()
    NO = auto()
    """It is not a child of this run, or there is no such run."""
    BEFORE = auto()
    """Its end was given out already."""


def asked_for(tx: Tx, run_id: int, children: Sequence[int]) -> dict[int, Joinable]:
    """Say of runs whether they are a run's children, and whether it has consumed their end."""
    rows = tx.get_runs(sorted(children))
    spent = tx.spent(run_id, [done_name(child) for child in children])
    found = {}
    for child in children:
        row = rows.get(child)
        if row is None or row.parent != run_id:
            found[child] = Joinable.NO
        else:
            found[child] = Joinable.BEFORE if done_name(child) in spent else Joinable.YES
    return found


class _Birth(NamedTuple):
    """A child that is to be started."""

    message: MessageRow
    parent: RunRow
    program: ProgramRow
    most: int | None
    """Its own budget, in micro-units."""
    above: int
    """The budget that this one stands below."""


def start_children(tx: Tx, messages: Sequence[MessageRow], locked: Mapping[int, RunRow]) -> None:
    """Start the children that messages ask for; their parents are locked.

    One whose parent ended or is being cancelled, or falls with one that did, is left out in silence. An unknown program,
    and a budget that does not fit, are told to the parent.
    """
    known = newest(tx.programs())
    doomed = falling(tx, [locked[m.run_id] for m in messages if m.run_id in locked])
    births: list[_Birth] = []
    told: dict[int, NewSignal] = {}  # by message: a parent hears of its children in the order in which it asked
    for message in messages:
        parent = locked.get(message.run_id)
        if parent is None or (parent.id in doomed and message.kind is not MessageKind.SPAWN_INDEPENDENT):
            continue
        program = known.get(message.name)
        if program is None:
            told[message.id] = _news(message, {"unknown": message.name, "known": sorted(known)})
            continue
        most = wishes_of(message.detail).most
        try:
            above = 0 if most is None else budgets.room_below(tx, parent, most)
        except UsageError as refused:
            told[message.id] = _news(message, {"refused": refused.message, "hint": refused.hint})
            continue
        births.append(_Birth(message, parent, program, most, above))
    if births:
        told.update(zip((birth.message.id for birth in births), _start(tx, births), strict=True))
    if told:
        signals = [told[number] for number in sorted(told)]
        tx.add_signals(sorted(signals, key=lambda signal: signal.run_id))
        for run_id in {signal.run_id for signal in signals}:
            tx.hint(f"run:{run_id}")
        tx.hint("ready")


def falling(tx: Tx, runs: Sequence[RunRow]) -> set[int]:
    """Return the runs that may start nothing any more: they, or whoever they end with, ended or are being cancelled.

    Of those that this transaction has locked the answer holds. Those above them are looked at as they are, so that
    nothing starts also while a cascade is still on its way down; what begins at the same moment is found by it (G12).
    """
    above = {run.id: run for run in runs}  # by the run it is about: who is looked at now
    found: set[int] = set()
    while above:
        found.update(one for one, run in above.items() if run.state.final or Flag.CANCEL in run.flags)
        climbing = {
            one: run.parent
            for one, run in above.items()
            if one not in found and run.parent is not None and Flag.INDEPENDENT not in run.flags
        }
        rows = tx.get_runs(sorted(set(climbing.values()))) if climbing else {}
        above = {one: rows[parent] for one, parent in climbing.items() if parent in rows}
    return found


def _start(tx: Tx, births: Sequence[_Birth]) -> list[NewSignal]:
    """Insert children, bind their keys, and return what their parents are told."""
    rows = [
        NewRun(birth.program.id, birth.parent.tenant, birth.message.body, birth.parent.priority, birth.parent.id)
        for birth in births
    ]
    made = tx.insert_runs(rows)
    digests = [_digest(birth) for birth in births]
    owners = tx.claim_keys(list(zip(digests, made, strict=True)))
    ids = [owners[digest] for digest in digests]
    losers = [child for child, owner in zip(made, ids, strict=True) if child != owner]
    if losers:
        tx.drop_runs(losers)
    fresh = [(birth, child) for birth, child, owner in zip(births, made, ids, strict=True) if child == owner]
    changes = [RunChange(child, flags=_flags(birth.message.kind)) for birth, child in fresh]
    parents = {birth.parent.id: birth.parent for birth, _ in fresh if birth.message.kind is MessageKind.SPAWN}
    changes += [RunChange(parent.id, flags=parent.flags | Flag.FAMILY) for parent in parents.values()]
    if changes:
        tx.change_runs(changes)
    for birth, child in fresh:
        if birth.most is not None:
            budgets.put_below(tx, child, birth.above, birth.most)
    traces = [(child, wishes_of(birth.message.detail).trace) for birth, child in fresh]
    if any(trace for _, trace in traces):
        tx.put_traces([(child, trace) for child, trace in traces if trace])
    name_by(tx, [(birth.message.body, child) for birth, child in fresh])
    names = [run_name(birth.program.name, child) for birth, child in zip(births, ids, strict=True)]
    return [_news(birth.message, {"run": name}) for birth, name in zip(births, names, strict=True)]


def _flags(kind: MessageKind) -> Flag:
    return Flag.CHILD if kind is MessageKind.SPAWN else Flag.CHILD | Flag.INDEPENDENT


def _digest(birth: _Birth) -> bytes:
    """Return what makes a child one: its parent and branch, and the key the parent gave it, or else the call itself."""
    message = birth.message
    key = wishes_of(message.detail).key
    own = f"key\0{message.name}\0{key}" if key else f"call\0{message.key}"
    text = f"{birth.parent.id}\0{birth.parent.branch}\0{own}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16, person=b"torpor.child").digest()


def _news(message: MessageRow, said: dict[str, object]) -> NewSignal:
    name = started_name(message.key)
    return NewSignal(message.run_id, name, values.encode(said), name)
