"""What a lab shows of a run: its journal in lines, its waits, what became of its effects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.blobs.packing import decompress
from torpor.core.checkpoint import EMPTIED, was_emptied
from torpor.core.ids import wait_name
from torpor.core.journal import BLOB_MARK, Kind
from torpor.core.replay import CallKind, kind_of, name_of, shown
from torpor.core.wait import WaitKind
from torpor.store import values

if TYPE_CHECKING:
    from datetime import datetime

    from torpor.core.journal import Stored
    from torpor.store.protocol import Tx

_LETTERS = 100


@dataclass(frozen=True, slots=True)
class Wait:
    """An open wait. `seq` is the entry that opened it; `show` what a person is shown, for waits that need one."""

    name: str
    seq: int
    kind: str
    title: str
    due_at: datetime | None
    answered: bool
    show: Any = None

    @property
    def for_person(self) -> bool:
        """Whether only a person can end it."""
        return self.kind in {kind.word for kind in WaitKind if kind.for_person}


@dataclass(frozen=True, slots=True)
class Effect:
    """What the journal knows of one effect.

    `state` is `started`, `done`, `failed` or `unknown`; `intents` says how often it began, `arguments` with what.
    """

    name: str
    state: str
    intents: int
    arguments: tuple[Any, ...] = ()
    result: Any = None


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a journal, its body decoded."""

    seq: int
    at: int
    epoch: int
    kind: str
    key: str
    value: Any

    def __str__(self) -> str:
        """Show it in one line, cut where it gets long."""
        text = json.dumps(self.value, default=repr, ensure_ascii=False) if self.value is not None else ""
        cut = text if len(text) <= _LETTERS else f"{text[:_LETTERS]}..."
        return " ".join(part for part in (f"{self.seq:>3}", f"{self.kind:<10}", self.key, cut) if part)


def whole(tx: Tx, body: bytes | None) -> bytes | None:
    """Return a body with the content of a blob in place of its name."""
    if body is None or body[:1] != BLOB_MARK:
        return body
    return decompress(tx.get_blobs([body[1:]])[body[1:]])


def lines(tx: Tx, run: int) -> list[Line]:
    """Return a run's journal."""
    found = []
    for entry in tx.journal(run):
        body = whole(tx, entry.body)
        value = EMPTIED if was_emptied(entry) else None if body is None else values.decode(body)
        key = shown(entry.key) if entry.key else ""
        found.append(Line(entry.seq, entry.at, entry.epoch, entry.kind.word, key, value))
    return found


def wait_list(tx: Tx, run: int, *, as_datetime: Any) -> list[Wait]:
    """Return a run's waits that are not over, oldest first."""
    rows = tx.waits([run])
    entries = tx.entries([(run, row.seq) for row in rows])
    found = []
    for row in rows:
        entry = entries.get((run, row.seq))
        body = whole(tx, entry.body) if entry is not None and row.kind.for_person else None
        shown_value = values.decode(body) if body is not None else None
        due = as_datetime(row.due_at) if row.due_at is not None else None
        answered = row.answered_at is not None
        found.append(Wait(wait_name(run, row.seq), row.seq, row.kind.word, row.title, due, answered, shown_value))
    return found


def effect_list(tx: Tx, run: int) -> list[Effect]:
    """Return what became of a run's effects, in the order they began."""
    known: dict[tuple[int, str], list[Stored]] = {}
    turn = 0
    for entry in tx.journal(run):
        turn += entry.kind is Kind.CHECKPOINT
        if entry.key is not None and kind_of(entry.key) is CallKind.EFFECT and entry.kind is not Kind.RETRY:
            known.setdefault((turn, entry.key), []).append(entry)
    return [_effect(tx, key, entries) for (_, key), entries in known.items()]


_STATES = {Kind.OUTCOME: "done", Kind.FAILURE: "failed", Kind.WAIT: "unknown"}


def _effect(tx: Tx, key: str, entries: list[Stored]) -> Effect:
    telling = [entry for entry in entries if entry.kind is not Kind.NOTE]
    state = _STATES.get(telling[-1].kind, "started") if telling else "started"
    result = values.decode(whole(tx, telling[-1].body) or _NOTHING) if state == "done" else None
    if state == "done" and was_emptied(telling[-1]):
        result = EMPTIED
    intents = [whole(tx, entry.body) for entry in entries if entry.kind is Kind.INTENT]
    began: Any = values.decode(intents[-1]) if intents and intents[-1] is not None else {}
    return Effect(name_of(key), state, len(intents), tuple(began.get("args", ())), result)


_NOTHING = values.encode(None)
