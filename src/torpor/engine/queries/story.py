"""The story of one run: what happened, a line per call, and the ledger of its effects, read from the newest entries.

A call's entries carry its key, and keys repeat from turn to turn, so a call is known by its key between two checkpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.checkpoint import mark_of
from torpor.core.effect import Safety, effect_key
from torpor.core.journal import RESOLVES, Kind
from torpor.core.replay import CallKind, kind_of, name_of, shown
from torpor.engine.decisions import verdict
from torpor.engine.large import legible
from torpor.engine.queries.fleet import failure, first_line
from torpor.engine.queries.life import life_of
from torpor.engine.queries.people import arguments
from torpor.engine.queries.spoken import duration, each_once, wait_words
from torpor.engine.queries.told import EffectLine, Heard, Story, StoryLine
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.journal import Stored
    from torpor.store.rows import RunRow

GIVEN_BACK = ("drained", "yielded")
"""How a note begins with which a worker gave a run back of its own will."""
_TOLD = ("approve ", "settle ", "answer ", "callback ", "event ", "budget ")
_SLEEPS = "sleeps "
_ASKED = {
    CallKind.APPROVAL: "approve ",
    CallKind.ASK: "answer ",
    CallKind.CALLBACK: "callback ",
    CallKind.EVENT: "event ",
    CallKind.REQUEST: "",
}
"""Calls whose wait an entry of their own opens, and how people read it."""


def tell(
    run: RunRow,
    entries: Sequence[Stored],
    packed: Mapping[bytes, bytes],
    *,
    turn: int,
    settled: Mapping[int, Any],
    now: int,
) -> Story:
    """Tell a run's story from consecutive entries up to its head.

    `turn` is the present turn; `settled` are the answers to the waits that entries opened; `now` is the store's time.
    """
    first = turn - sum(entry.kind is Kind.CHECKPOINT for entry in entries)
    teller = _Teller(run, packed, settled, first, _first_branch(run, entries))
    for entry in entries:
        teller.hear(entry)
    if run.state.final and entries:
        teller.close(entries[-1].at)
    teller.story.life = life_of(run, entries, teller.slept, now)
    return teller.story


def _first_branch(run: RunRow, entries: Sequence[Stored]) -> int:
    """Return the branch that the first of these entries stands on: a rewind's note comes right before its checkpoint."""
    for place, entry in enumerate(entries):
        mark = mark_of(entry.key) if entry.kind is Kind.CHECKPOINT else None
        if mark is not None:
            before = entries[place - 1] if place else None
            return mark.branch - (before is not None and _rewinds(before))
    return run.branch


def _rewinds(entry: Stored) -> bool:
    body = values.plain(entry.body) if entry.kind is Kind.NOTE and entry.key is None and entry.body else None
    return isinstance(body, dict) and "checkpoint" in body


class _Teller:
    """Hears entries in order."""

    def __init__(
        self, run: RunRow, packed: Mapping[bytes, bytes], settled: Mapping[int, Any], turn: int, branch: int
    ) -> None:
        self.story = Story()
        self.slept: dict[int, str] = {}
        self._run = run
        self._packed = packed
        self._settled = {seq: str(said.get("by", "")) for seq, said in settled.items()}
        self._decided = {seq: verdict(dict(said)) for seq, said in settled.items()}
        self._turn = turn
        self._branch = branch
        self._rewound = False
        self._lines: dict[str, StoryLine] = {}
        self._effects: dict[str, EffectLine] = {}
        self._sleeping: StoryLine | None = None
        self._given_back = False
        self._epoch = 0

    def hear(self, entry: Stored) -> None:
        if self._epoch and entry.epoch != self._epoch and self._sleeping is None and not self._given_back:
            self._say(entry, "another worker took over", "resumed", ended_at=entry.at).seq = 0
        if self._sleeping is not None:
            line = self._sleeping
            line.outcome, line.ended_at = "woken", entry.at
            if line.what.startswith(_SLEEPS):
                line.what = f"slept {duration(entry.at - line.at)} {line.what.removeprefix(_SLEEPS)}"
        self._sleeping, self._given_back = None, False
        self._epoch = entry.epoch
        if entry.key is not None and entry.kind is not Kind.CHECKPOINT:
            self._hear_call(entry, entry.key)
        else:
            self._hear_run(entry)

    def close(self, at: int) -> None:
        """Take note that the run has ended: what was still asked is withdrawn."""
        for line in self.story.lines:
            if line.ended_at is None:
                line.ended_at = at
                if line.outcome in {"asked", "needs you"}:
                    said = self._decided.get(line.seq)  # they were told that it holds, and then the run ended first
                    line.outcome = f"{said}, not used" if said else "withdrawn"

    def _say(
        self, entry: Stored, what: str, outcome: str, *, ended_at: int | None = None, quiet: bool = False
    ) -> StoryLine:
        line = StoryLine(entry.seq, entry.at, what, outcome, ended_at, quiet)
        self.story.lines.append(line)
        return line

    def _body(self, entry: Stored) -> Any:
        return values.plain(legible(entry.body, self._packed)) if entry.body else None

    # entries of the run itself

    def _hear_run(self, entry: Stored) -> None:
        if entry.kind is Kind.CHECKPOINT:
            self._hear_checkpoint(entry)
        elif entry.kind is Kind.WAIT:
            self._put_away(entry)
        elif entry.kind is Kind.OUTCOME:
            self._say(entry, f"result {_brief(self._body(entry))}", "completed", ended_at=entry.at)
        elif entry.kind is Kind.FAILURE:
            what = failure(legible(entry.body, self._packed)) if entry.body else "error"
            self._say(entry, what, "failed", ended_at=entry.at)
        elif entry.kind is Kind.RETRY:
            body = self._body(entry)
            again = ", ".join(body["superseded"]) if isinstance(body, dict) else ""
            by = body["by"] if isinstance(body, dict) else "a person"
            self._say(entry, f"retried by {by}{f': {again} again' if again else ''}", "again", ended_at=entry.at)
        elif entry.kind is Kind.NOTE:
            body = self._body(entry)
            note = str(body.get("note", body)) if isinstance(body, dict) else str(body)
            self._given_back = note.startswith(GIVEN_BACK)
            self._rewound = isinstance(body, dict) and "checkpoint" in body
            if self._rewound:
                self._say(entry, f"{note} by {body['by']}", "rewound", ended_at=entry.at)
            elif note == "cancelled":
                why = f": {body['why']}" if isinstance(body, dict) and body.get("why") else ""
                self._say(entry, f"cancel was asked{why}", "cancelled", ended_at=entry.at)
            elif note == "interrupted" and isinstance(body, dict):
                ended, reason = ", ".join(map(str, body.get("calls", ()))), body.get("reason")
                who = f"interrupted by {body.get('by') or 'somebody'}{f': {reason}' if reason else ''}"
                self._say(entry, who, f"ended {ended}", ended_at=entry.at)
            else:
                self._say(entry, note, "-", ended_at=entry.at, quiet=not self._given_back)

    def _hear_checkpoint(self, entry: Stored) -> None:
        mark = mark_of(entry.key)
        if self._rewound:
            self._say(entry, "goes on from there", "checkpoint", ended_at=entry.at, quiet=True)
        elif entry.seq == 1 and entry.epoch == 0:
            self._say(entry, "began as a copy", "checkpoint", ended_at=entry.at)
        else:
            self._say(entry, f"turn {self._turn} ended", "checkpoint", ended_at=entry.at)
        self._rewound = False
        self._turn += 1
        self._branch = self._branch if mark is None else mark.branch
        self._lines, self._effects = {}, {}

    def _put_away(self, entry: Stored) -> None:
        body = self._body(entry)
        if isinstance(body, dict) and "for" in body:
            self.slept[entry.seq] = each_once(map(str, body["for"]))
            named = ["a timer" if title == "timer" else wait_words(str(title)) for title in body["for"]]
            told = all(str(title).startswith(_TOLD) for title in body["for"])  # the wait's own line says it
            self._sleeping = self._say(entry, f"{_SLEEPS}for {each_once(named)}", "asleep", quiet=told)
            return
        title = first_line(str(body.get("title", "trouble"))) if isinstance(body, dict) else "trouble"
        self.slept[entry.seq] = title
        self._sleeping = self._say(entry, title, "needs you")

    # entries of calls

    def _hear_call(self, entry: Stored, key: str) -> None:
        kind = kind_of(key)
        if entry.kind is Kind.RETRY:
            return  # the retry's own line names the calls
        if kind is CallKind.EFFECT:
            self._hear_effect(entry, key)
        elif kind in _ASKED:
            self._hear_wait(entry, key, kind)
        elif kind is CallKind.BUDGET and (entry.kind is Kind.WAIT or key in self._lines):
            self._hear_budget(entry, key)
        elif entry.kind is Kind.NOTE:
            self._hear_note(entry, key, kind)
        elif kind is CallKind.TIMER:
            self._say(entry, "timer", "due", ended_at=entry.at, quiet=True)
        elif kind is CallKind.MESSAGE:
            self._hear_message(entry, key)
        elif kind in {CallKind.SPAWN, CallKind.JOIN}:
            self._hear_child(entry, key, kind)
        elif kind is CallKind.COMPENSATION:
            drops = name_of(key) == "drop_on_cancel"
            told = "a compensation" if drops else f"{name_of(key)} if it is cancelled"
            self._say(entry, told, "taken back" if drops else "registered", ended_at=entry.at)
        elif kind in {CallKind.SEND, CallKind.REPLY}:
            sent = f"message {name_of(key)} to another run"
            what = sent if kind is CallKind.SEND else f"answer to message {name_of(key)}"
            self._say(entry, what, "sent", ended_at=entry.at)
        elif entry.kind is Kind.FAILURE:
            self._say(entry, f"{shown(key)} {self._error(entry)}", "failed", ended_at=entry.at)
        else:
            self._say(entry, shown(key), "done", ended_at=entry.at)

    def _hear_message(self, entry: Stored, key: str) -> None:
        name, body = wait_words(f"message {name_of(key)}"), self._body(entry)
        if entry.kind is Kind.FAILURE and isinstance(body, dict) and body.get("interrupt"):
            why = f": {first_line(str(body['detail']))}" if body.get("detail") else ""
            self._say(entry, f"{name}{why}", "interrupted", ended_at=entry.at)
            return
        self.story.heard.append(Heard(entry.at, name_of(key), body))
        self._say(entry, f"{name} {_brief(body)}".rstrip(), "received", ended_at=entry.at)

    def _hear_child(self, entry: Stored, key: str, kind: CallKind) -> None:
        if entry.kind is Kind.FAILURE:
            self._say(entry, f"child {name_of(key)} {self._error(entry)}", "failed", ended_at=entry.at)
        elif kind is CallKind.JOIN:
            name = name_of(key)
            what = name if name.endswith(" children") else f"child {name}"
            self._say(entry, what, "joined", ended_at=entry.at)
        elif entry.kind is Kind.CONSUMED:
            self._say(entry, f"child {self._body(entry)}", "started", ended_at=entry.at)

    def _hear_note(self, entry: Stored, key: str, kind: CallKind) -> None:
        body = self._body(entry)
        if kind is CallKind.STEP and isinstance(body, dict):
            self._say(entry, f"{shown(key)} attempt {body.get('attempt')} {_error(body)}", "again", ended_at=entry.at)
        else:
            what = f"{shown(key).partition('#')[0]} {_brief(body)}"
            self._say(entry, what, "recorded", ended_at=entry.at, quiet=True)

    def _hear_wait(self, entry: Stored, key: str, kind: CallKind) -> None:
        """A wait that an entry of its own opened: what for, and how it ended."""
        if kind is CallKind.APPROVAL:
            self._hear_approval(entry, key)
            return
        body = self._body(entry)
        fields = body if isinstance(body, dict) else {}
        if entry.kind is Kind.WAIT:
            if key in self._lines:
                before = self._lines[key]
                before.ended_at, before.outcome = entry.at, str(fields.get("refused") or "asked again")
            open_as = "asked" if kind is CallKind.ASK else "open"
            self._lines[key] = self._say(entry, f"{_ASKED[kind]}{fields.get('title', '')}", open_as)
            return
        line = self._lines.get(key) or self._say(entry, shown(key), "")
        line.ended_at = entry.at
        if entry.kind is Kind.FAILURE or fields.get("expired") is True:
            line.outcome = "expired" if fields.get("kind", "Expired") == "Expired" else _error(fields)
        elif kind is CallKind.ASK:
            line.outcome = f"{fields.get('by') or 'somebody'}: {_brief(fields.get('value'))}"
        else:
            line.outcome = "received"

    def _hear_approval(self, entry: Stored, key: str) -> None:
        body = self._body(entry)
        if entry.kind is Kind.WAIT:
            title = str(body.get("title", "")) if isinstance(body, dict) else ""
            self._lines[key] = self._say(entry, f"approve {title}", "asked")
        elif entry.kind in {Kind.CONSUMED, Kind.FAILURE} and isinstance(body, dict):
            line = self._lines.get(key) or self._say(entry, "approval", "")
            line.ended_at = entry.at
            if entry.kind is Kind.FAILURE:
                line.outcome = "interrupted" if body.get("interrupt") else _error(body)
                return
            by, note = body.get("by") or "somebody", body.get("note")
            said = "approved by" if body.get("approved") else "denied by"
            said = "edited and approved by" if body.get("edited") else said
            line.outcome = "expired" if body.get("expired") else f"{said} {by}{f': {note}' if note else ''}"

    def _hear_budget(self, entry: Stored, key: str) -> None:
        body = self._body(entry)
        content = body if isinstance(body, dict) else {}
        if entry.kind is Kind.WAIT:
            self._lines[key] = self._say(entry, f"budget {content.get('title', '')}", "asked")
            return
        line = self._lines[key]
        line.ended_at = entry.at
        if entry.kind is Kind.NOTE:
            line.outcome = verdict(content)
        elif entry.kind is Kind.FAILURE:
            line.outcome = "failed"
        elif line.outcome == "asked":
            line.outcome = "there was enough again"

    def _hear_effect(self, entry: Stored, key: str) -> None:
        effect = self._effects.get(key)
        if effect is None:
            effect = self._effects[key] = self._new_effect(entry, key)
        line = self._lines[key]
        if entry.kind is Kind.INTENT:
            effect.attempts += 1
            effect.outcome = line.outcome = "in flight"
        elif entry.kind is Kind.WAIT:
            effect.outcome = line.outcome = "unknown"
            body = self._body(entry)
            effect.detail = str(body.get("why", "")) if isinstance(body, dict) else ""
            effect.settled_by = self._settled.get(entry.seq, "")
        elif entry.kind is Kind.NOTE:
            effect.detail = self._error(entry)
            line.outcome = "again"
        elif entry.kind in RESOLVES:
            failed = entry.kind is Kind.FAILURE
            effect.outcome = "failed" if failed else "done"
            effect.ended_at = line.ended_at = entry.at
            if line.outcome == "unknown":
                effect.settled_by = effect.settled_by or "a person"
            line.outcome = effect.outcome + (f", settled by {effect.settled_by}" if effect.settled_by else "")
            if failed:
                effect.detail = self._error(entry)
                line.what = f"{line.what} {effect.detail}"

    def _new_effect(self, entry: Stored, key: str) -> EffectLine:
        body = self._body(entry) if entry.kind is Kind.INTENT else None
        content = body if isinstance(body, dict) else {}
        args = arguments(content) if content else ""
        safety = str(content.get("safety", Safety.TRANSACTIONAL))  # the only kind without an intent
        number = effect_key(self._run.id, self._branch, self._turn, key)
        effect = EffectLine(shown(key), self._turn, safety, "done", number, args, entry.at, None, 0)
        self.story.effects.append(effect)
        self._lines[key] = self._say(entry, f"{shown(key)} {args}".rstrip(), "done")
        return effect

    def _error(self, entry: Stored) -> str:
        body = self._body(entry)
        return _error(body) if isinstance(body, dict) else str(body)


def _error(body: dict[str, Any]) -> str:
    kind, detail = str(body.get("kind", "error")), first_line(str(body.get("detail", "")))
    return f"{kind}: {detail}" if detail else kind


def _brief(value: Any) -> str:
    from orjson import dumps

    return "" if value is None else dumps(value).decode()
