"""Decisions of people about waits: found by public id, checked against what was shown, and the first one named (G10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.ids import code, parse_run, parse_wait, run_name, wait_name
from torpor.core.journal import RESOLVES, Kind
from torpor.core.money import dollars
from torpor.core.wait import SAYS_RESULT, TooLate, WaitKind
from torpor.engine import answers, budgets, waits
from torpor.engine.large import read_whole
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torpor.core.journal import Stored
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow, WaitRow

_LIST_INBOX = "torpor inbox lists what is open"
_APART = 2


def find_run(tx: Tx, text: str) -> tuple[RunRow, str]:
    """Return a run and its public id, from that id or its letters alone. Raises UsageError, NotFound."""
    program, number = parse_run(text)
    run = tx.get_runs([number]).get(number)
    if run is None:
        raise NotFound(f"there is no run {text}", hint="torpor ps lists them; torpor ps --all also those that ended")
    known = next((row.name for row in tx.programs() if row.id == run.program), "")
    name = run_name(known, number)
    if program and program != known:
        raise NotFound(f"there is no run {text}; the one with these letters is {name}", hint=f"torpor show {name}")
    return run, name


def refuse_pruned(tx: Tx, run: RunRow, name: str) -> None:
    """Raise Conflict if a run that ended is being pruned: a part of what is read or copied may be gone already.

    Runs go in several transactions (`engine.retention`), the first of which writes down that this one is going.
    """
    pruned = tx.prunes([run.id]).get(run.id) if run.state.final else None
    if pruned is not None and pruned.upto >= run.head:
        raise Conflict(f"{name} is being pruned", hint="torpor ps lists what is there")


def find_wait(tx: Tx, text: str) -> tuple[int, int]:
    """Return the run and the entry of a wait's public id.

    `w-7q3d` is enough while the run has one open wait for a person. Raises UsageError, NotFound.
    """
    parts = text.strip().split("-")
    if len(parts) != _APART or parts[0].lower() != "w":
        return parse_wait(text)
    run, name = find_run(tx, parts[1])
    open_waits = [w for w in tx.waits([run.id]) if w.kind.for_person and w.answered_at is None]
    if not open_waits:
        raise NotFound(f"{name} has no open wait for a person", hint=_LIST_INBOX)
    if len(open_waits) > 1:
        found = ", ".join(wait_name(w.run_id, w.seq) for w in open_waits)
        raise UsageError(f"{text} names {len(open_waits)} waits: {found}", hint="name one of them")
    return run.id, open_waits[0].seq


class Decision:
    """What a person decided: which wait, and the body for it."""

    def __init__(
        self,
        wait: str,
        content: dict[str, Any],
        kind: WaitKind,
        *,
        digest: str | None = None,
        edits: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare a decision. With `digest` it holds only for what had that digest; `edits` change what was shown, by path.

        Raises UnstorableValue.
        """
        self.wait = wait
        self.kind = kind
        self.digest = digest
        self.content = content
        self.edits = edits
        self.body = values.encode({**content, SAYS_RESULT: True} if "happened" in content else content, path="answer")


def decide(tx: Tx, decision: Decision) -> WaitRow | Conflict:
    """Make a decision durable, unless somebody was first: then the attempt is kept for the record, and the error returned.

    That says who was first and what they decided. Raises NotFound, UsageError for a wait of another kind or for what is no
    answer to it, Conflict if what was shown has changed.
    """
    run_id, seq = find_wait(tx, decision.wait)
    name = wait_name(run_id, seq)
    entry = tx.entries([(run_id, seq)]).get((run_id, seq))
    if entry is None or entry.kind is not Kind.WAIT:
        raise NotFound(f"there is no wait {name}", hint=_LIST_INBOX)
    if "happened" in decision.content and entry.key is None:
        raise UsageError(f"{name} is about the whole run: nothing in it could have happened", hint="--again, or --fail")
    if decision.digest is not None:
        _check_digest(tx, name, entry, decision.digest)
    try:
        body = _checked(tx, name, waits.open_wait(tx, run_id, seq), entry, decision)
        answered = waits.answer(tx, run_id, seq, body, kinds=frozenset({decision.kind})).wait
    except (Conflict, NotFound) as refused:
        first = who_was_first(tx, run_id, entry, refused)
        if isinstance(first, NotFound):
            raise first from None
        tx.add_too_late(TooLate(run_id, seq, f"{verdict(decision.content)}{_quoted(decision.content)}"))
        return first
    if decision.kind is WaitKind.BUDGET and "raise" in decision.content:
        about = values.plain(read_whole(tx, entry.body or b"null"))
        budgets.raise_limit(tx, int(about["budget"]), int(decision.content["raise"]))
    return answered


def _checked(tx: Tx, name: str, wait: WaitRow, entry: Stored, decision: Decision) -> bytes:
    """Return the body of a decision. Raises UsageError if it is no answer to what was asked, while it could still be one."""
    if wait.kind is not decision.kind or wait.answered_at is not None or wait.over:
        return decision.body  # refused anyway, with a better reason
    if decision.kind is WaitKind.QUESTION:
        answers.check_answer(name, read_whole(tx, entry.body or b"{}"), decision.content.get("value"))
    elif decision.edits is not None:
        shown = answers.edited(name, read_whole(tx, entry.body or b"{}"), decision.edits)
        return values.joined(decision.body, edited=shown)
    return decision.body


def _check_digest(tx: Tx, name: str, entry: Stored, digest: str) -> None:
    shown = values.plain(read_whole(tx, entry.body or b"null"))
    present = str(shown.get("digest", "")) if isinstance(shown, dict) else ""
    if not digest or not present.startswith(digest.lower()):
        raise Conflict(
            f"{name} changed since you looked: its digest is {present or 'none'}, not {digest}",
            hint=f"torpor inbox {name}   shows what it is about now",
        )


def who_was_first(tx: Tx, run_id: int, entry: Stored, refused: Conflict | NotFound) -> Conflict | NotFound:
    """Say who was first, when, and what they decided, as far as the store still knows it."""
    name = wait_name(run_id, entry.seq)
    row = next((w for w in tx.waits([run_id], over=True) if w.seq == entry.seq), None)
    run, run_shown = find_run(tx, code(run_id))
    hint = f"nothing was changed. torpor show {run_shown}"
    said: dict[str, Any] | None = None
    at = 0
    if row is not None and row.answered_at is not None and row.answer is not None:
        said, at = values.plain(row.answer), row.answered_at
    elif entry.key is not None:
        later = (e for e in tx.journal(run_id, after=entry.seq) if e.key == entry.key and e.kind in RESOLVES)
        end = next(later, None)
        if end is not None and end.kind is Kind.CONSUMED and end.body is not None:
            said, at = values.plain(read_whole(tx, end.body)), end.at
    if isinstance(said, dict) and said.get("expired"):
        return Conflict(f"{name} expired {ago(tx.now() - at)}", hint=hint)
    if isinstance(said, dict):
        return Conflict(f"{verdict(said)} {name} {ago(tx.now() - at)}{_quoted(said)}", hint=hint)
    if isinstance(refused, NotFound):
        return Conflict(f"{name} is over: the run went on", hint=hint)
    if run.state.final:
        return Conflict(f"{name} is over: the run is {run.state.word}", hint=hint)
    return Conflict(f"{name}: {refused.message}", hint=hint)


def verdict(said: dict[str, Any]) -> str:
    """Return who decided what, `Ben denied`."""
    by = str(said.get("by") or "somebody")
    if "approved" in said:
        return f"{by} {'approved' if said['approved'] else 'denied'}"
    if "raise" in said:
        return f"{by} raised the limit by {dollars(int(said['raise']))} for"
    if said.get("once"):
        return f"{by} allowed it once, for"
    if "value" in said:
        return f"{by} answered"
    if "happened" in said:
        return f'{by} said "it happened" of'
    return f'{by} said "{"do it again" if said.get("again") else "it failed"}" of'


def _quoted(said: dict[str, Any]) -> str:
    note = said.get("note") or said.get("fail")
    return f': "{note}"' if note else ""


def ago(micros: int) -> str:
    """Return how long ago, in words: `4 seconds ago`."""
    seconds = max(0, round(micros / 1_000_000))
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size or (size > 60 and seconds >= size):  # noqa: PLR2004 - up to 119 seconds are said in seconds
            count = seconds // size
            return f"{count} {word}{'s' if count != 1 else ''} ago"
    return f"{seconds} second{'s' if seconds != 1 else ''} ago"
