"""Events: published once, kept for a while, handed to every run that waits for them (G7, G20).

* Publishing makes the event durable and hands it to the first runs in the same transaction. If there are more, the event
  says how far the fan-out `reached`, and the waker goes on from there, a bounded number at a time: a crash cuts nothing.
* Registration and fan-out of equal matches take turns (`Tx.lock_matches`, before any run is locked). So a wait is either
  there when the fan-out looks, or it is registered after the event was kept and finds it there itself.
* A run gets an event once, by the key under which it lies in the inbox, and one wait of it is marked: the next event is for
  the next wait. Events of one name are handed on one after the other, so they arrive in the order they were published.
* A wait whose time is over gets nothing; that is asked again under the run's lock, and the commit that says "it expired" is
  refused while something lies unseen in the inbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.event import KEPT_SECONDS, NewEvent, fits, matches_of, prints_of, signal_name
from torpor.core.run import Flag
from torpor.core.wait import WaitKind
from torpor.engine.large import read_whole
from torpor.engine.sweeps import Swept
from torpor.engine.waits import keep
from torpor.store import values
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.event import EventRow
    from torpor.store.protocol import Tx
    from torpor.store.rows import WaitRow

BATCH = 200
"""So many runs get an event in one transaction."""
SEEN_SECONDS = 7 * 86_400.0
"""So long an event that expired and reached nobody can be seen."""
REPLY_SECONDS = 7 * 86_400.0
"""So long the answer to a client is kept."""
_TIDIED = 500


class Published(NamedTuple):
    """An event that is durable now. `new` is False if its name and key were known; `reached` runs have it so far."""

    event: int
    new: bool
    reached: int
    going: bool


def publish(tx: Tx, name: str, body: bytes, *, key: str | None = None, kept_seconds: float = KEPT_SECONDS) -> Published:
    """Keep an event, and hand it to the first of the runs that wait for it; the waker does the rest."""
    matches = matches_of(name, _prints(body))
    tx.lock_matches(matches)
    expires_at = tx.now() + round(kept_seconds * 1_000_000)
    number, new = tx.add_event(NewEvent(name, body, matches, expires_at, key))
    if not new:
        known = tx.get_event(number)
        return Published(
            number, new=False, reached=known.taken if known else 0, going=bool(known and known.reached is not None)
        )
    before = tx.going_events(limit=1, name=name)[0]
    if before.id != number:  # an older one of this name is still on its way: it comes first
        tx.hint("events")
        return Published(number, new=True, reached=0, going=True)
    taken, going = _hand_on(tx, before, matches)
    if going:
        tx.hint("events")
    return Published(number, new=True, reached=taken, going=going)


def fan_out(tx: Tx) -> Swept:
    """Hand the oldest event that is still on its way to more runs."""
    going = tx.going_events(limit=1)
    if not going or going[0].body is None:
        return Swept()
    matches = matches_of(going[0].name, _prints(going[0].body))
    tx.lock_matches(matches)
    event = tx.get_event(going[0].id)
    taken = 0
    if event is None:
        tx.move_event(going[0].id, reached=None, taken=0)  # its time is over
    elif event.reached is not None:
        taken, _ = _hand_on(tx, event, matches)
    return Swept(taken, bool(tx.going_events(limit=1)))


def _hand_on(tx: Tx, event: EventRow, matches: Sequence[int]) -> tuple[int, bool]:
    """Hand an event to the next runs; return how many got it, and whether there may be more."""
    runs = tx.runs_waiting_for(matches, after=event.reached or 0, limit=BATCH)
    going = len(runs) == BATCH
    taken = _give(tx, event, runs) if runs else 0
    tx.move_event(event.id, reached=runs[-1] if going else None, taken=taken)
    return taken, going


def _give(tx: Tx, event: EventRow, ids: Sequence[int]) -> int:
    """Give an event to those of the runs that still wait for it, under their locks; return how many."""
    runs = tx.get_runs(ids, lock=True)
    alive = [run.id for run in runs.values() if not run.state.final and Flag.CANCEL not in run.flags]
    prints = _prints(event.body)
    now = tx.now()
    open_waits = [w for w in tx.waits(alive) if w.kind is WaitKind.EVENT and _open(w, now)] if alive else []
    entries = tx.entries([(wait.run_id, wait.seq) for wait in open_waits]) if open_waits else {}
    chosen: dict[int, WaitRow] = {}
    for wait in open_waits:
        entry = entries.get((wait.run_id, wait.seq))
        if wait.run_id not in chosen and entry is not None and _wants(tx, entry.body, event.name, prints):
            chosen[wait.run_id] = wait
    return _deliver(tx, event, list(chosen.values()))


def _open(wait: WaitRow, now: int) -> bool:
    return wait.answered_at is None and not wait.over and (wait.due_at is None or wait.due_at > now)


def _wants(tx: Tx, asked: bytes | None, name: str, prints: Mapping[str, str]) -> bool:
    """Whether the entry that opened a wait asks for this event."""
    shown = values.plain(read_whole(tx, asked or b"{}"))
    return isinstance(shown, dict) and shown.get("name") == name and fits(prints_of(shown.get("where") or {}), prints)


def _deliver(tx: Tx, event: EventRow, chosen: Sequence[WaitRow]) -> int:
    """Put an event into the inboxes of runs and mark the waits that it ends; return how many got it."""
    if not chosen or event.body is None:
        return 0
    name, key = signal_name(event.name), f"~event:{event.id}"
    kept = keep(tx, [NewSignal(wait.run_id, name, event.body, key, f"event:{event.id}") for wait in chosen])
    marked = [w for w, fate in zip(chosen, kept, strict=True) if fate is Kept.NEW]
    if marked:
        tx.mark_waits([(w.run_id, w.slot, w.seq) for w in marked])
    return len(marked)


def registered(tx: Tx, wait: WaitRow, asked: bytes | None) -> None:
    """Give a wait that this transaction registers the oldest kept event that fits it, if its run never got that one."""
    if wait.matches is None or not _open(wait, tx.now()):
        return
    after = 0
    while early := tx.early_events(wait.matches, wait.run_id, after=after, limit=BATCH):
        for event in early:
            after = event.id
            if _wants(tx, asked, event.name, _prints(event.body)) and _deliver(tx, event, [wait]):
                tx.move_event(event.id, reached=event.reached, taken=1)
                return


def _prints(body: bytes | None) -> dict[str, str]:
    shown = values.plain(body or b"null")
    return prints_of(shown) if isinstance(shown, dict) else {}


def tidy(tx: Tx) -> Swept:
    """Let go of events and answers whose time is over, a bounded number."""
    now = tx.now()
    gone = [
        tx.expire_events(limit=_TIDIED),
        tx.drop_events(before=now - round(SEEN_SECONDS * 1_000_000), limit=_TIDIED),
        tx.drop_replies(before=now - round(REPLY_SECONDS * 1_000_000), limit=_TIDIED),
    ]
    return Swept(0, max(gone) >= _TIDIED)  # nothing became ready
