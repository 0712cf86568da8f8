"""The inbox: every open wait for a person, with everything that is needed to decide it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.core.ids import code, run_name, wait_name
from torpor.core.journal import Kind
from torpor.core.wait import WaitKind
from torpor.engine.answers import edited
from torpor.engine.decisions import find_run, find_wait, who_was_first
from torpor.engine.large import legible, named_blobs, read_whole
from torpor.engine.queries.fleet import MOST, asked, first_line
from torpor.errors import NotFound, UsageError
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.journal import Stored
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow, WaitRow


@dataclass(frozen=True, slots=True)
class InboxItem:
    """An open wait for a person. `asks` is settle, approve, answer, budget or trouble; callback if it was asked for by id.

    `digest` binds an approval or an answer to `content` (G10).
    """

    wait: str
    asks: str
    what: str
    run: str
    opened_at: int
    expires_at: int | None
    digest: str
    content: Any
    """The whole content of the entry that opened it, as people see it."""
    proposed: Any = None
    """What an approval shows, if it may be edited: ints with every digit."""
    parent: str | None = None
    """The run that the asking one is a child of."""


@dataclass(frozen=True, slots=True)
class Inbox:
    """What needs a person, oldest first. `more`: the list was cut."""

    at: int
    items: list[InboxItem]
    more: bool


def inbox(tx: Tx, *, limit: int = 100) -> Inbox:
    """Return every open wait for a person, a bounded number."""
    limit = min(limit, MOST)
    rows = tx.people_waits(limit=limit + 1)
    items = sorted(_items(tx, rows[:limit]), key=lambda item: item.opened_at)
    return Inbox(tx.now(), items, len(rows) > limit)


def item(tx: Tx, wait: str) -> InboxItem:
    """Return one open wait for a person, or a callback, by its id.

    Raises NotFound; Conflict, with who decided it, if it is over; UsageError if it waits for what no answer ends.
    """
    run_id, seq = find_wait(tx, wait)
    row = next((w for w in tx.waits([run_id]) if w.seq == seq), None)
    if row is not None and row.answered_at is None and not (row.kind.for_person or row.kind is WaitKind.CALLBACK):
        name, shown = wait_name(run_id, seq), find_run(tx, code(run_id))[1]
        what = asked(row, tx.entries([(run_id, seq)]).get((run_id, seq)))
        raise UsageError(f"{name} waits for {what}, which no answer ends", hint=f"torpor show {shown}")
    if row is None or row.answered_at is not None:
        entry = tx.entries([(run_id, seq)]).get((run_id, seq))
        missing = NotFound(f"there is no wait {wait_name(run_id, seq)}", hint="torpor inbox lists what is open")
        raise missing if entry is None or entry.kind is not Kind.WAIT else who_was_first(tx, run_id, entry, missing)
    return _items(tx, [row])[0]


def as_edited(tx: Tx, wait: str, edits: Mapping[str, Any]) -> Any:
    """Return what an approval would show with a person's edits, JSON values by path; nothing is decided.

    Raises as `item`; UsageError with the path of what cannot be, or if its program allowed no edit.
    """
    opened = item(tx, wait)
    place = find_wait(tx, opened.wait)
    return values.exact(edited(opened.wait, read_whole(tx, tx.entries([place])[place].body or b"{}"), edits))


def _items(tx: Tx, rows: Sequence[WaitRow]) -> list[InboxItem]:
    if not rows:
        return []
    entries = tx.entries([(row.run_id, row.seq) for row in rows])
    runs = tx.get_runs(sorted({row.run_id for row in rows}))
    above = sorted({run.parent for run in runs.values() if run.parent is not None})
    known = {**runs, **(tx.get_runs(above) if above else {})}
    programs = {row.id: row.name for row in tx.programs()}
    named = named_blobs(entry.body for entry in entries.values())
    packed = tx.get_blobs(named) if named else {}
    found = []
    for row in rows:
        entry = entries.get((row.run_id, row.seq))
        content = values.plain(legible(entry.body, packed)) if entry is not None and entry.body else {}
        run = runs.get(row.run_id)
        found.append(
            InboxItem(
                wait_name(row.run_id, row.seq),
                _asks(row, entry),
                _what(row, entry, content),
                _name(row.run_id, known, programs),
                entry.at if entry is not None else 0,
                row.due_at,
                str(content.get("digest", "")),
                content,
                _proposed(content, entry, packed),
                None if run is None or run.parent is None else _name(run.parent, known, programs),
            )
        )
    return found


def _name(run_id: int, known: Mapping[int, RunRow], programs: Mapping[int, str]) -> str:
    run = known.get(run_id)
    return run_name(programs.get(run.program, "?") if run is not None else "?", run_id)


def _proposed(content: Any, entry: Stored | None, packed: Mapping[bytes, bytes]) -> Any:
    if not (isinstance(content, dict) and content.get("editable")) or entry is None or entry.body is None:
        return None
    return values.exact(legible(entry.body, packed)).get("show")


def _asks(row: WaitRow, entry: Stored | None) -> str:
    if row.kind is WaitKind.APPROVAL:
        return "approve"
    if row.kind in {WaitKind.BUDGET, WaitKind.CALLBACK}:
        return row.kind.word
    if row.kind is WaitKind.QUESTION:
        return "answer"
    return "settle" if entry is not None and entry.key is not None else "trouble"


def _what(row: WaitRow, entry: Stored | None, content: dict[str, Any]) -> str:
    if row.kind in {WaitKind.APPROVAL, WaitKind.QUESTION, WaitKind.BUDGET, WaitKind.CALLBACK}:
        return first_line(row.title)
    if entry is None or entry.key is None:
        return first_line(row.title)
    return f"{asked(row, entry).removeprefix('settle ')} {arguments(content)}".rstrip()


def parent_of(item: InboxItem) -> str:
    """Return whose child asks, to be put behind what is asked: ` (for support-3k2f)`; or nothing."""
    return f" (for {item.parent})" if item.parent is not None else ""


def why_of(item: InboxItem) -> str:
    """Return why an effect is unknown, to be put behind what is asked: ` (it raised ValueError: bad 1)`; or nothing."""
    why = first_line(str(item.content.get("why") or "")) if isinstance(item.content, dict) else ""
    return f" ({why})" if item.asks == "settle" and why else ""


def arguments(content: dict[str, Any]) -> str:
    """Return a call's arguments in one line: `88121 usd=40.0`."""
    from orjson import dumps

    words = [dumps(value).decode() for value in content.get("args", ())]
    words += [f"{name}={dumps(value).decode()}" for name, value in (content.get("more") or {}).items()]
    return " ".join(words)
