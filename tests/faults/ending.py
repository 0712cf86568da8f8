"""What is in the store at the very end of a trial, written into its history."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from torpor.core.journal import Kind, Stored
from torpor.core.replay import CallKind, kind_of
from torpor.core.run import State
from torpor.engine import budgets
from torpor.engine.decisions import find_run
from torpor.engine.large import read_whole
from torpor.store import values

if TYPE_CHECKING:
    from tests.faults.history import History
    from tests.faults.places import Place
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import RunRow

AT_ONCE = 50


def read_all(store: Store, place: Place, history: History) -> None:
    """Read every run that was started, the author's own table and the money. Nothing may write meanwhile."""
    started = history.of("started")
    keys = {line["run"]: "" for line in history.of("call")} | {line["run"]: line["key"] for line in started}
    runs = list(keys.items())
    for first in range(0, len(runs), AT_ONCE):
        for line in store.transact_now(_read_some, runs[first : first + AT_ONCE]):
            history.add(**line)
    for where, times in place.booked().items():
        history.add("booked", place=where, times=times)
    if started:
        history.add("money", **store.transact_now(_money, started[0]["run"]))


def _read_some(tx: Tx, runs: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [line for run, key in runs for line in _read(tx, key, run)]


def _read(tx: Tx, key: str, name: str) -> list[dict[str, Any]]:
    run, _ = find_run(tx, name)
    entries = tx.journal(run.id)
    found = [{"what": "ended", "key": key, "run": name, "state": run.state.word, "result": _result(tx, run, entries)}]
    epochs = [entry.epoch for entry in entries]
    found.append(
        {
            "what": "journal",
            "run": name,
            "gaps": [entry.seq for n, entry in enumerate(entries, start=1) if entry.seq != n],
            "epochs_fall": [b for a, b in pairwise(epochs) if b < a],
        }
    )
    for entry in entries:
        if entry.kind is Kind.INTENT and entry.body is not None:
            intent: Any = values.decode(entry.body)
            found.append({"what": "intent", "run": name, "place": intent["args"][0], "seq": entry.seq})
    found += [{"what": "timer", "run": name, "stored_at": entry.at} for entry in _timers(entries)]
    return found


def _timers(entries: list[Stored]) -> list[Stored]:
    """Return the entries that consumed a timer, in order: a turn has one at most, so the order is the plan's."""
    return [
        entry
        for entry in entries
        if entry.kind is Kind.CONSUMED and entry.key is not None and kind_of(entry.key) is CallKind.TIMER
    ]


def _result(tx: Tx, run: RunRow, entries: list[Stored]) -> Any:
    if run.state is not State.COMPLETED or not entries:
        return None
    body = entries[-1].body
    return values.plain(read_whole(tx, body)) if body else None


def _money(tx: Tx, name: str) -> dict[str, int]:
    """Return what the budget above all runs has spent and holds."""
    rows = budgets.budget_of(tx, find_run(tx, name)[0])
    top = next(row for row in rows if row.name is not None).standing  # a run that spends has a budget of its own too
    return {"spent": top.spent, "reserved": top.held}
