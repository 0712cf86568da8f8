"""Streams: parts appended under the fence, retracted when an attempt is dropped, read from any number (`core.stream`).

Locks are taken in order: runs, leases, streams. Whoever writes holds the lease's row, so numbers of one run are given
out one after another and become visible in that order (G11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.clock import as_datetime
from torpor.core.lease import LostAnswer
from torpor.core.stream import PartRow, StreamRow, StreamWrite, accepts, advance, loose_of
from torpor.engine.decisions import find_run, refuse_pruned
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torpor.core.commit import Proposal
    from torpor.core.lease import Lease
    from torpor.core.run import State
    from torpor.store.history_rows import PruneRow
    from torpor.store.protocol import Tx

TOPIC = "stream:"
"""How the topic of a hint begins that a stream has grown: for who reads one, not for who works on runs."""
PAGE = 1_000
"""At most so many parts are read at once."""


class Said(NamedTuple):
    """What a leaseholder wants to be readable now, between two commits: parts, a view, or both."""

    run_id: int
    token: int
    epoch: int
    write: StreamWrite | None
    view: bytes | None = None


def append(tx: Tx, said: Sequence[Said]) -> list[int | None]:
    """Write for several runs in one transaction; return each stream's counter, None for those that were refused (G1, G2)."""
    ids = sorted(one.run_id for one in said)
    leases = tx.leases(ids, lock=True)
    rows = tx.streams(ids, lock=True)
    standing = [one for one in said if _mine(leases.get(one.run_id), one) and _fits(rows.get(one.run_id), one)]
    counters = write(tx, ((one.run_id, one.epoch, one.write, one.view) for one in standing), rows)
    kept = {one.run_id for one in standing}
    return [counters.get(one.run_id, 0) if one.run_id in kept else None for one in said]


def _mine(lease: Lease | None, one: Said) -> bool:
    return lease is not None and (lease.token, lease.epoch) == (one.token, one.epoch)


def _fits(row: StreamRow | None, one: Said) -> bool:
    return one.write is None or accepts(row, epoch=one.epoch, from_n=one.write.from_n)


def behind(tx: Tx, proposals: Sequence[Proposal]) -> tuple[dict[int, StreamRow], set[int]]:
    """Return the streams that commits will write to, locked, and the runs where somebody else wrote meanwhile (G2).

    The leases are locked already.
    """
    rows = tx.streams(sorted(p.run_id for p in proposals), lock=True)
    late = {
        p.run_id
        for p in proposals
        if p.stream is not None and not accepts(rows.get(p.run_id), epoch=p.epoch, from_n=p.stream.from_n)
    }
    return rows, late


def write(
    tx: Tx,
    wanted: Iterable[tuple[int, int, StreamWrite | None, bytes | None]],
    rows: Mapping[int, StreamRow],
) -> dict[int, int]:
    """Write (run, epoch, parts, view) of writers that passed the fence; return the counters of the streams written."""
    moved: list[StreamRow] = []
    parts: list[tuple[int, PartRow]] = []
    views: list[tuple[int, bytes]] = []
    for run_id, epoch, said, view in wanted:
        if said is not None:
            row, added = advance(rows.get(run_id), said, run_id=run_id, epoch=epoch)
            moved.append(row)
            parts += [(run_id, part) for part in added]
        if view is not None:
            views.append((run_id, view))
    if moved:
        tx.put_streams(moved)
    if parts:
        tx.add_parts(parts)
        for run_id in dict.fromkeys(run_id for run_id, _ in parts):
            tx.hint(topic_of(run_id))
    if views:
        tx.put_views(views)
    return {row.run_id: row.n for row in moved}


def retract(tx: Tx, ids: Sequence[int]) -> None:
    """Take back what is loose in runs whose lease this transaction ends: their attempts are dropped (G11)."""
    rows = {run_id: row for run_id, row in tx.streams(sorted(ids), lock=True).items() if row.loose}
    if rows:
        write(tx, ((row.run_id, row.epoch, StreamWrite(row.n, ends=True), None) for row in rows.values()), rows)


def find_out(tx: Tx, one: Said) -> tuple[LostAnswer, int]:
    """Find out whether a write whose answer was lost happened, and the counter (G3). As `engine.commit.find_out`."""
    lease = tx.leases([one.run_id]).get(one.run_id)
    row = tx.streams([one.run_id]).get(one.run_id)
    if not _mine(lease, one):
        return LostAnswer.LEASE_LOST, 0
    if one.write is None or _fits(row, one):
        return LostAnswer.SEND_AGAIN, 0
    if row is None or row.epoch != one.epoch:
        return LostAnswer.LEASE_LOST, 0
    count = len(one.write.parts)
    tail = tx.parts(one.run_id, after=row.n - count, limit=count) if count else []
    equal = [(part.kind, part.body) for part in tail] == [(part.kind, part.body) for part in one.write.parts]
    dropped = not any(voice in loose_of(row) for voice in one.write.drops)
    return (LostAnswer.HAPPENED, row.n) if equal and dropped else (LostAnswer.LEASE_LOST, 0)


def topic_of(run_id: int) -> str:
    """Return the hint's topic: a run's stream has grown."""
    return f"{TOPIC}{run_id}"


class Page(NamedTuple):
    """Parts in order. `ended`: the run is over and these are the last, as far as anybody can know.

    `gone`: what should come before them was pruned, up to this number.
    """

    run_id: int
    parts: list[PartRow]
    ended: bool
    state: State
    gone: PruneRow | None = None


def read(tx: Tx, run: str, *, after: int = 0, limit: int = PAGE) -> Page:
    """Return the parts of a run after a number. The state is read first: a run that is over emits nothing more.

    A reader gets all parts, or is told which are gone (G11). Raises NotFound, Conflict if the run is being pruned.
    """
    row, name = find_run(tx, run)
    refuse_pruned(tx, row, name)
    after = max(after, 0)
    found = tx.parts(row.id, after=after, limit=limit)
    gone = _gone(tx, row.id, after, found)
    return Page(row.id, found, row.state.final and len(found) < limit, row.state, gone)


def _gone(tx: Tx, run_id: int, after: int, found: Sequence[PartRow]) -> PruneRow | None:
    """Return what was pruned between `after` and the first part that was found.

    Numbers have no gaps, so a missing one was pruned. It is read after the parts: what made them go is then there.
    """
    if found and found[0].n == after + 1:
        return None
    gone = tx.stream_prunes([run_id]).get(run_id)
    if gone is None or gone.upto <= after:
        return None
    return gone._replace(upto=found[0].n - 1) if found else gone


def gone_words(first: int, last: int, at: int, why: str) -> str:
    """Return which parts of a stream are gone, since when and why, in the words of other layers that were pruned."""
    day = as_datetime(at)
    named = f"Part {first} was" if first == last else f"Parts {first}-{last} were"
    return f"{named} pruned on {day.day} {day:%b} by {why}."


def body_of(part: PartRow) -> Any:
    """Return a part's body for readers: a text, a value as people see it, or the ranges taken back."""
    return values.plain(part.body)


def view(tx: Tx, run: str) -> Any:
    """Return what a run shows of itself, None if it shows nothing. Raises NotFound."""
    row, _ = find_run(tx, run)
    shown = tx.views([row.id]).get(row.id)
    return None if shown is None else values.plain(shown.body)
