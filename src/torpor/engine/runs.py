"""Starting runs, cancelling them, and which programs a store knows."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from torpor.core.ids import run_name
from torpor.core.run import Flag, State
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store.rows import NewRun, RunChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.commit import Blob
    from torpor.store.protocol import Tx
    from torpor.store.rows import ProgramRow

_KEY_LETTERS = 500


class Start(NamedTuple):
    """What somebody wants started. `body` is the encoded first state; with `key` the same key finds the same run."""

    program: str
    body: bytes
    key: str | None = None
    tenant: str = "default"
    priority: int = 0
    due_at: int | None = None
    blob: Blob | None = None


class Started(NamedTuple):
    """A started run. `created` is False when the key had been used: this is the run it started then."""

    run_id: int
    name: str
    created: bool


def start(tx: Tx, wanted: Sequence[Start]) -> list[Started]:
    """Start runs, each with its own key or none. Raises UsageError for an unknown program; then nothing is started."""
    if not wanted:
        return []
    known = _newest(tx.programs())
    tenants = sorted({one.tenant for one in wanted})
    numbers = dict(zip(tenants, tx.intern_tenants(tenants), strict=True))
    for one in wanted:
        _check(one, known)
    rows = [
        NewRun(known[one.program].id, numbers[one.tenant], one.body, one.priority, None, one.due_at) for one in wanted
    ]
    ids = tx.insert_runs(rows)
    blobs = [(run_id, one.blob) for run_id, one in zip(ids, wanted, strict=True) if one.blob is not None]
    if blobs:
        tx.put_blobs(blobs)
    bound = _bind_keys(tx, wanted, ids)
    tx.hint("ready")
    return [
        Started(bound.get(n, run_id), run_name(one.program, bound.get(n, run_id)), bound.get(n, run_id) == run_id)
        for n, (run_id, one) in enumerate(zip(ids, wanted, strict=True))
    ]


def _check(one: Start, known: dict[str, ProgramRow]) -> None:
    if one.program not in known:
        has = ", ".join(sorted(known)) or "none yet"
        message = f'no program named "{one.program}" (the store has: {has})'
        raise UsageError(message, hint="torpor dev APP.py makes its programs known; or start with --app APP.py")
    if one.key is not None and not 0 < len(one.key) <= _KEY_LETTERS:
        message = f"a run key has 1 to {_KEY_LETTERS} letters, this one has {len(one.key)}"
        raise UsageError(message)


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


def _newest(programs: Sequence[ProgramRow]) -> dict[str, ProgramRow]:
    newest: dict[str, ProgramRow] = {}
    for row in programs:
        if row.name not in newest or row.version > newest[row.name].version:
            newest[row.name] = row
    return newest


def register(tx: Tx, programs: Sequence[tuple[str, int, str]], *, alive: frozenset[int] = frozenset()) -> list[int]:
    """Make (name, version, source) known and return their numbers. `alive` are the workers that live now.

    Raises Conflict if one of them serves the same name from other code: two apps, one name.
    """
    known = {(row.name, row.version): row for row in tx.programs()}
    served = {number for row in tx.workers() if row.id in alive for number in json.loads(row.programs)}
    for name, version, source in programs:
        before = known.get((name, version))
        if before is not None and before.source != source and before.id in served:
            message = f'two apps have a program named "{name}": {before.source} is being served, this one is {source}'
            raise Conflict(message, hint="rename one of them, or use a store of its own (--store)")
    return tx.intern_programs(programs)


def cancel(tx: Tx, run_id: int) -> State:
    """Ask a run to end as cancelled, and return its state now. Acknowledged means durable (G12).

    A waiting run is made ready, also one that waits for attention: its executor writes the end.
    """
    run = tx.get_runs([run_id], lock=True).get(run_id)
    if run is None:
        message = f"there is no run number {run_id}"
        raise NotFound(message, hint="torpor ps lists them")
    if run.state.final:
        return run.state
    waiting = run.state is State.WAITING
    tx.change_runs(
        [
            RunChange(
                run_id,
                state=State.READY if waiting else None,
                due_at=tx.now() if waiting else None,
                flags=run.flags | Flag.CANCEL,
                inbox=1,
            )
        ]
    )
    if run.state is State.RUNNING:
        tx.leases([run_id], lock=True)
        tx.flag_leases([run_id], Flag.CANCEL)
        tx.hint(f"run:{run_id}")
    tx.hint("ready")
    return State.READY if waiting else run.state
