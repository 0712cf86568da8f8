"""Starting children: a message in the parent's commit, delivered under the parent's lock.

The parent's commit touches one run: it writes a message. Whoever delivers it (the parent's worker right after its commit,
or any waker) does everything else in one transaction: asks whether the parent may still have a child, starts it, tells
the parent its id, and takes the message away. So it happens once, however often it is tried, and a cancel, which needs
the same lock, comes before the child and prevents it, or after it and finds it (G12).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.commit import MessageKind
from torpor.core.family import started_name
from torpor.core.ids import run_name
from torpor.core.run import Flag
from torpor.engine.large import name_by
from torpor.engine.runs import newest
from torpor.store import values
from torpor.store.rows import NewRun, NewSignal, RunChange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import MessageRow, ProgramRow, RunRow


class _Birth(NamedTuple):
    """A child that is to be started."""

    message: MessageRow
    parent: RunRow
    program: ProgramRow


def start_children(tx: Tx, messages: Sequence[MessageRow], locked: Mapping[int, RunRow]) -> None:
    """Start the children that messages ask for; their parents are locked.

    One whose parent ended or is being cancelled is left out in silence. An unknown program is told to the parent.
    """
    known = newest(tx.programs())
    births: list[_Birth] = []
    signals: list[NewSignal] = []
    for message in messages:
        parent = locked.get(message.run_id)
        if parent is None or not _may_start(parent, message.kind):
            continue
        program = known.get(message.name)
        if program is None:
            signals.append(_news(message, {"unknown": message.name, "known": sorted(known)}))
        else:
            births.append(_Birth(message, parent, program))
    if births:
        signals += _start(tx, births)
    if signals:
        tx.add_signals(sorted(signals, key=lambda signal: signal.run_id))
        for run_id in {signal.run_id for signal in signals}:
            tx.hint(f"run:{run_id}")
        tx.hint("ready")


def _may_start(parent: RunRow, kind: MessageKind) -> bool:
    """Whether a parent may still get a child: one that is independent was promised by a commit before any cancel."""
    if kind is MessageKind.SPAWN_INDEPENDENT:
        return True
    return not parent.state.final and Flag.CANCEL not in parent.flags


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
    name_by(tx, [(birth.message.body, child) for birth, child in fresh])
    names = [run_name(birth.program.name, child) for birth, child in zip(births, ids, strict=True)]
    return [_news(birth.message, {"run": name}) for birth, name in zip(births, names, strict=True)]


def _flags(kind: MessageKind) -> Flag:
    return Flag.CHILD if kind is MessageKind.SPAWN else Flag.CHILD | Flag.INDEPENDENT


def _digest(birth: _Birth) -> bytes:
    """Return what makes a child one: its parent and branch, and the key the parent gave it, or else the call itself."""
    message = birth.message
    own = f"key\0{message.name}\0{message.detail}" if message.detail else f"call\0{message.key}"
    text = f"{birth.parent.id}\0{birth.parent.branch}\0{own}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16, person=b"torpor.child").digest()


def _news(message: MessageRow, said: dict[str, object]) -> NewSignal:
    name = started_name(message.key)
    return NewSignal(message.run_id, name, values.encode(said), name)
