"""Starting runs, cancelling them, and which programs a store knows."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.ids import run_name
from torpor.core.names import AGENT
from torpor.core.run import Flag, State
from torpor.engine import budgets, lines
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store import values
from torpor.store.rows import FollowUp, NewRun, RunChange
from torpor.store.values.reading import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.commit import Blob
    from torpor.store.protocol import Tx
    from torpor.store.rows import ProgramRow, RunRow

_KEY_LETTERS = 500
_TAG_LETTERS = 100
_PRIORITIES = 1 << 15
COUNTED = 1000
"""At most so many descendants are counted for whoever cancels."""


class Start(NamedTuple):
    """What somebody wants started. `body` is the encoded first state; with `key` the same key finds the same run.

    `budget` is a limit of its own for what it and its children spend, in micro-units.
    """

    program: str
    body: bytes
    key: str | None = None
    tenant: str = "default"
    priority: int = 0
    due_at: int | None = None
    blob: Blob | None = None
    tag: str = ""
    """Only workers with this tag take it; empty: all that serve its program."""
    line: str = ""
    line_limit: int = 1
    """At most so many runs of a line hold a place at once (`engine.lines`)."""
    deadline_at: int | None = None
    deadline_micros: int | None = None
    """Cancelled then, unless it ended: a moment, or so long after its start."""
    budget: int | None = None
    trace: str = ""
    """The traceparent of what starts it: its stretches belong to that trace."""


class Started(NamedTuple):
    """A started run. `created` is False when the key had been used: this is the run it started then."""

    run_id: int
    name: str
    created: bool


def start(tx: Tx, wanted: Sequence[Start]) -> list[Started]:
    """Start runs, each with its own key or none. Raises UsageError for an unknown program; then nothing is started."""
    if not wanted:
        return []
    known = newest(tx.programs())
    tenants = sorted({one.tenant for one in wanted})
    numbers = dict(zip(tenants, tx.intern_tenants(tenants), strict=True))
    for one in wanted:
        _check(one, known)
    programs = _tagged(tx, wanted, known)
    rows = [
        NewRun(programs[one.program, one.tag], numbers[one.tenant], one.body, one.priority, None, one.due_at)
        for one in wanted
    ]
    ids = tx.insert_runs(rows)
    blobs = [(run_id, one.blob) for run_id, one in zip(ids, wanted, strict=True) if one.blob is not None]
    if blobs:
        tx.put_blobs(blobs)
    bound = _bind_keys(tx, wanted, ids)
    new = [
        (run_id, one) for n, (run_id, one) in enumerate(zip(ids, wanted, strict=True)) if bound.get(n, run_id) == run_id
    ]
    _arrange(tx, new)
    limits = [(run_id, one.budget) for run_id, one in new if one.budget is not None]
    if limits:
        budgets.give(tx, limits)
    tx.hint("ready")
    return [
        Started(bound.get(n, run_id), run_name(one.program, bound.get(n, run_id)), bound.get(n, run_id) == run_id)
        for n, (run_id, one) in enumerate(zip(ids, wanted, strict=True))
    ]


def start_asked(tx: Tx, wanted: Start) -> Started:
    """Start a run as somebody asks for it: of an agent, only with a prompt. Raises UsageError; then nothing is started."""
    if wanted.blob is None:
        check_prompt(newest(tx.programs()).get(wanted.program), wanted.body)
    return start(tx, [wanted])[0]


def pick_up(tx: Tx, wanted: Start, *, afresh: bool = False) -> Started:
    """Go on with the run that a key names unless it has ended; else start one, which the key names from then on.

    With `afresh` one is started in any case. If two do so at once they get the same new run. Raises UsageError as `start`.
    """
    found = start_asked(tx, wanted)
    if found.created or wanted.key is None:
        return found
    before = tx.get_runs([found.run_id], lock=True).get(found.run_id)
    if before is not None and not before.state.final and not afresh:
        return found
    tx.free_keys([(_key_digest(wanted.program, wanted.key), found.run_id)])
    return start(tx, [wanted])[0]


def _tagged(tx: Tx, wanted: Sequence[Start], known: Mapping[str, ProgramRow]) -> dict[tuple[str, str], int]:
    """Return the number of each (program, tag): that of the newest version, written if the tag is new."""
    numbers = {(one.program, ""): known[one.program].id for one in wanted}
    for name, tag in sorted({(one.program, one.tag) for one in wanted if one.tag}):
        row = known[name]
        numbers[name, tag] = tx.intern_programs([(name, row.version, row.source)], tag=tag)[0]
    return numbers


def _arrange(tx: Tx, new: Sequence[tuple[int, Start]]) -> None:
    """Write what only some runs have: a place in a line, a deadline, a trace."""
    entering = [
        lines.Entering(run_id, one.priority, one.line, one.line_limit, one.due_at is not None)
        for run_id, one in new
        if one.line
    ]
    lines.enter(tx, entering)
    late = [(run_id, _deadline(tx, one)) for run_id, one in new]
    deadlines = [(run_id, due_at) for run_id, due_at in late if due_at is not None]
    if deadlines:
        tx.put_deadlines(deadlines)
        tx.hint("deadlines")
    traces = [(run_id, one.trace) for run_id, one in new if one.trace]
    if traces:
        tx.put_traces(traces)


_LAST_AT = 253_402_300_799_999_999
"""The last microsecond of the year 9999: no later moment can be shown."""


def _deadline(tx: Tx, one: Start) -> int | None:
    after = None if one.deadline_micros is None else max(tx.now(), one.due_at or 0) + one.deadline_micros
    deadline = one.deadline_at if one.deadline_at is not None else after
    if deadline is not None and deadline > _LAST_AT:
        message = "the deadline is after the year 9999, the last that there is"
        raise UsageError(message, hint="nothing was started; give an earlier deadline, or none")
    if deadline is not None and deadline <= max(tx.now(), (one.due_at or 0)):
        message = "the deadline is not after the run's start"
        raise UsageError(message, hint="nothing was started; give a later deadline, or none")
    return deadline


def _check(one: Start, known: dict[str, ProgramRow]) -> None:
    if one.program not in known:
        has = ", ".join(sorted(known)) or "none yet"
        message = f'no program named "{one.program}" (the store has: {has})'
        raise UsageError(message, hint="torpor dev APP.py makes its programs known; or start with --app APP.py")
    if one.line:
        lines.check(one.line, one.line_limit)
    if len(one.tag) > _TAG_LETTERS or "\0" in one.tag:
        message = f"a tag has up to {_TAG_LETTERS} letters without U+0000, not {one.tag!r}"
        raise UsageError(message)
    if not -_PRIORITIES <= one.priority < _PRIORITIES:
        message = f"priority {one.priority} is not between -{_PRIORITIES:,} and {_PRIORITIES - 1:,}"
        raise UsageError(message, hint="a lower number goes first; 0 is usual")
    if one.key is not None and not 0 < len(one.key) <= _KEY_LETTERS:
        message = f"a run key has 1 to {_KEY_LETTERS} letters, this one has {len(one.key)}"
        raise UsageError(message)


def check_prompt(program: ProgramRow | None, body: bytes) -> None:
    """Raise UsageError for what can be no agent's prompt: a run of it would fail, and nothing could mend that."""
    if program is None or not program.source.endswith(AGENT):
        return
    given = values.plain(body)
    if not isinstance(given, str) and not _contents(parse(body)):
        said = "no input" if given is None else f"{given!r:.60}"
        message = f"{program.name} is an agent, and {said} is no prompt"
        raise UsageError(message, hint=f"""a text: torpor start {program.name} '"please look into it"'; or a list""")


def _contents(node: Any) -> bool:
    """Whether a stored value is a list of what a prompt is made of: texts, and objects of a class, as files are."""
    listed = node.get("v") if isinstance(node, dict) and node.get("$") == "tuple" else node
    if not isinstance(listed, list) or not listed:
        return False
    return all(isinstance(one, str) or (isinstance(one, dict) and {"$", "c"} <= set(one)) for one in listed)


def _bind_keys(tx: Tx, wanted: Sequence[Start], ids: Sequence[int]) -> dict[int, int]:
    """Bind keys to runs; return, by place, the run that each key names, and drop what lost its key to another."""
    digests = {n: _key_digest(one.program, one.key) for n, one in enumerate(wanted) if one.key is not None}
    if not digests:
        return {}
    owners = tx.claim_keys([(digest, ids[n]) for n, digest in digests.items()])
    bound = {n: owners[digest] for n, digest in digests.items()}
    losers = [ids[n] for n, run_id in bound.items() if run_id != ids[n]]
    if losers:
        tx.drop_runs(losers)
    return bound


def _key_digest(program: str, key: str) -> bytes:
    text = f"{program}\0{key}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16, person=b"torpor.run-key").digest()


def newest(programs: Sequence[ProgramRow]) -> dict[str, ProgramRow]:
    """Return the newest version of each program, by name: the row without a tag if there is one."""
    found: dict[str, ProgramRow] = {}
    for row in programs:
        before = found.get(row.name)
        if before is None or (row.version, not row.tag) > (before.version, not before.tag):
            found[row.name] = row
    return found


def register(
    tx: Tx, programs: Sequence[tuple[str, int, str]], *, alive: frozenset[int] = frozenset(), tag: str = ""
) -> list[int]:
    """Make (name, version, source) known under a tag and return their numbers. `alive` are the workers that live now.

    Raises Conflict if one of them serves the same name from other code: two apps, one name.
    """
    known = {(row.name, row.version): row for row in tx.programs() if row.tag == tag}
    served = {number for row in tx.workers() if row.id in alive for number in json.loads(row.programs)}
    for name, version, source in programs:
        before = known.get((name, version))
        if before is not None and before.source != source and before.id in served:
            message = f'two apps have a program named "{name}": {before.source} is being served, this one is {source}'
            raise Conflict(message, hint="rename one of them, or use a store of its own (--store)")
    return tx.intern_programs(programs, tag=tag)


class Cancelled(NamedTuple):
    """A cancel that is durable now: the run's state, and how many descendants are being cancelled with it.

    `more`: the count stopped at `COUNTED`, there are certainly more.
    """

    state: State
    descendants: int = 0
    more: bool = False


def cancel(tx: Tx, run_id: int, reason: str = "") -> Cancelled:
    """Ask a run to end as cancelled, and its descendants with it. Acknowledged means durable (G12).

    The first `reason` that was given is kept and shown.

    A waiting run is made ready, also one that waits for attention: its executor writes the end. Its descendants are
    reached by follow-ups (`engine.follow_ups`), the independent ones and theirs excepted.
    """
    run = tx.get_runs([run_id], lock=True).get(run_id)
    if run is None:
        message = f"there is no run number {run_id}"
        raise NotFound(message, hint="torpor ps lists them")
    if run.state.final:
        return Cancelled(run.state)
    if reason:
        tx.put_cancels([(run_id, reason)])
    cancel_locked(tx, [run])
    descendants = _descendants(tx, run) if Flag.FAMILY in run.flags else 0
    woken = run.state is State.WAITING and Flag.CANCEL not in run.flags  # one that undoes what it did sleeps on
    state = State.READY if woken else run.state
    return Cancelled(state, min(descendants, COUNTED), descendants > COUNTED)


def cancel_locked(tx: Tx, asked: Sequence[RunRow]) -> bool:
    """Ask runs that this transaction has locked to end as cancelled; return whether any of them has children."""
    fresh = [run for run in asked if not run.state.final and Flag.CANCEL not in run.flags]
    if not fresh:
        return False
    tx.change_runs([_cancelled(tx, run) for run in fresh])
    running = [run.id for run in fresh if run.state is State.RUNNING]
    if running:
        tx.leases(running, lock=True)
        tx.flag_leases(running, Flag.CANCEL)
        for run_id in running:
            tx.hint(f"run:{run_id}")
    tx.hint("ready")
    families = [run.id for run in fresh if Flag.FAMILY in run.flags]
    if families:
        tx.add_follow_ups(families)
        tx.hint("follow-ups")
    return bool(families)


def _cancelled(tx: Tx, run: RunRow) -> RunChange:
    waiting = run.state is State.WAITING
    return RunChange(
        run.id,
        state=State.READY if waiting else None,
        due_at=tx.now() if waiting else None,
        flags=run.flags | Flag.CANCEL,
        inbox=1,
    )


def _descendants(tx: Tx, run: RunRow) -> int:
    """Count the live descendants that end with a run, generation by generation, a bounded number."""
    found, generation = 0, [run.id]
    while generation and found <= COUNTED:
        below = tx.live_children([FollowUp(one, 0) for one in generation], limit=COUNTED + 1)
        rows = tx.get_runs([child for _, child in below])
        generation = [row.id for row in rows.values() if Flag.INDEPENDENT not in row.flags]
        found += len(generation)
    return found
