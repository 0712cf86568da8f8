"""The hot path on PostgreSQL: claim, append, leave, one statement each.

Three things make these statements right, each found by a failure:

*Agreement lies on the run's row.* A statement keeps its old view of every row but the one it waited for. So what two
parties must agree on (`inbox`, `seen`, `state`, cancel) is read and written on the row that both lock (G7).

*A claim believes its view only where the locked row confirms it.* Between a claim's view and its lock another worker
may have claimed the run, gone on and left it: the row would be new and the journal in view old, and an effect would
start twice (G4). So the row in view must have the locked row's epoch and head, or it is left for the next claim; and
`inbox` is reported as the view had it, so that a signal that came in between wakes the run again.

*Locks are taken in order*: runs by number, then leases by number, through MATERIALIZED and FOR UPDATE; the comparison
with `count(*)` makes the second wait for the first. Entries are matched to the runs that passed by a hashed IN: as a
join it would be a loop in a loop. What entries consume is taken in the same statement, because a woken run waits for
its answer. A lone append has nothing to put in order and is a statement of its own, a tenth faster: it is what a run
that steps by itself waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.journal import Kind, Stored
from torpor.core.lease import Lease
from torpor.core.run import LASTING, Flag, State
from torpor.core.wait import Signal, WaitKind
from torpor.store import texts
from torpor.store.batches import once_each
from torpor.store.postgres.arrays import ByteaArray, TextArray, longs
from torpor.store.rows import Claimed, RunRow, StateRow, WaitRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torpor.store.rows import Append, Claim, Leave

RUN_COLUMNS = (
    "id, created_at, due_at, parent, tenant, program, epoch, head, inbox, seen, branch, "
    "state, prio, takeovers, stalls, flags"
)
ENTRY_COLUMNS = "seq, at, epoch, kind, key, body"
MOMENT = "moment AS MATERIALIZED (SELECT coalesce(nullif(%(now)s::bigint, 0), torpor_now()) AS now)"

_TENANT = """SELECT min(t.tenant) FROM unnest(%(programs)s::int[]) AS p(program),
    LATERAL (SELECT tenant FROM runs WHERE state = 1 AND program = p.program AND tenant > {after}
    ORDER BY tenant LIMIT 1) t"""
# Nobody else's ready runs are walked past (G20). More are looked at than are taken, because others may have locked some.
# The moment is asked for before anything is locked.
CLAIM = f"""WITH {MOMENT},
next AS MATERIALIZED (SELECT coalesce(({_TENANT.format(after="%(after)s")}), ({_TENANT.format(after="0")})) AS tenant),
found AS MATERIALIZED (SELECT r.* FROM unnest(%(programs)s::int[]) AS p(program),
    LATERAL (SELECT id, prio, due_at FROM runs WHERE state = 1 AND program = p.program
    AND tenant = (SELECT tenant FROM next) ORDER BY prio, due_at, id LIMIT %(n)s::int * 4 + 16) r),
own AS MATERIALIZED (SELECT r.id, r.epoch, r.head FROM found f JOIN runs r ON r.id = f.id AND r.state = 1
    WHERE (SELECT now FROM moment) > 0 ORDER BY f.prio, f.due_at, f.id LIMIT %(n)s FOR UPDATE OF r SKIP LOCKED),
sure AS MATERIALIZED (
    SELECT c.id, was.inbox FROM own c,
    LATERAL (SELECT inbox FROM runs r WHERE r.id = c.id AND r.epoch = c.epoch AND r.head = c.head OFFSET 0) was),
taken AS (UPDATE runs r SET state = 3, epoch = r.epoch + 1 FROM sure WHERE r.id = sure.id
    RETURNING r.*, sure.inbox AS in_view),
leased AS (INSERT INTO leases (run_id, expires_at, token, epoch, head, worker, flags)
    SELECT id, now + %(lease)s, %(token)s, epoch, head, %(worker)s, flags FROM taken, moment),
held AS MATERIALIZED (SELECT t.id, t.epoch, t.head, t.in_view, s.* FROM taken t,
    LATERAL (SELECT seq, at, turn, body FROM states s WHERE s.run_id = t.id OFFSET 0) s)
SELECT 0 AS tag, id, ARRAY[created_at, due_at, parent, tenant, program, epoch, head, in_view, seen, branch, 3, prio,
    takeovers, stalls, flags, now]::bigint[] AS numbers, NULL::text AS word, NULL::text AS other, NULL::bytea AS body
    FROM taken, moment
UNION ALL SELECT 1, id, ARRAY[seq, at, turn]::bigint[], NULL, NULL, body FROM held
UNION ALL SELECT 2, h.id, ARRAY[j.seq, j.at, j.epoch, j.kind]::bigint[], j.key, NULL, j.body FROM held h,
    LATERAL (SELECT * FROM journal j WHERE j.run_id = h.id AND j.seq > h.seq AND h.head > h.seq ORDER BY j.seq OFFSET 0) j
UNION ALL SELECT 3, h.id, ARRAY[w.slot, w.seq, w.kind, w.due_at, w.answered_at, w.need]::bigint[], w.title,
    encode(w.members, 'hex'), w.answer FROM held h,
    LATERAL (SELECT * FROM waits w WHERE w.run_id = h.id AND w.over = 0 AND h.epoch > 1
    ORDER BY w.seq, w.slot OFFSET 0) w
UNION ALL SELECT 4, h.id, ARRAY[i.seq, i.at]::bigint[], i.name, i.sender, i.body FROM held h,
    LATERAL (SELECT * FROM inbox i WHERE i.run_id = h.id AND i.body IS NOT NULL AND h.in_view > 0
    ORDER BY i.seq OFFSET 0) i"""

_FENCED = """l.run_id = a.run_id AND l.token = a.token AND l.epoch = a.epoch AND l.head = a.head AND l.flags & a.forbids = 0"""
_ENTRIES = """INSERT INTO journal (run_id, at, seq, epoch, kind, key, body)
    SELECT e.run_id, now, e.seq, e.epoch, e.kind, e.key, e.body FROM moment, unnest(%(entry_runs)s::bigint[],
    %(seqs)s::int[], %(entry_epochs)s::int[], %(kinds)s::smallint[], %(keys)s::text[], %(bodies)s::bytea[])
    AS e(run_id, seq, epoch, kind, key, body) WHERE (e.run_id IN (SELECT run_id FROM passed)) IS TRUE"""
_APPENDED = f"""WITH {MOMENT},
asked AS (SELECT * FROM unnest(%(runs)s::bigint[], %(tokens)s::bigint[], %(epochs)s::int[], %(heads)s::int[],
    %(forbids)s::smallint[], %(counts)s::int[]) AS a(run_id, token, epoch, head, forbids, n)),
locked AS MATERIALIZED (SELECT l.run_id, a.n FROM asked a JOIN leases l ON {_FENCED} ORDER BY l.run_id FOR UPDATE OF l),
passed AS (UPDATE leases l SET head = l.head + locked.n, expires_at = now + %(lease)s FROM locked, moment
    WHERE l.run_id = locked.run_id RETURNING l.run_id, l.flags),
added AS ({_ENTRIES})"""
_PASSED = "SELECT run_id, flags, now FROM passed, moment"
_APPENDED_ONE = f"""WITH {MOMENT},
passed AS (UPDATE leases SET head = head + %(n)s::int, expires_at = (SELECT now FROM moment) + %(lease)s
    WHERE run_id = %(run)s AND token = %(token)s AND epoch = %(epoch)s AND head = %(head)s
    AND flags & %(forbids)s::smallint = 0 RETURNING run_id, flags),
added AS (INSERT INTO journal (run_id, at, seq, epoch, kind, key, body)
    SELECT p.run_id, (SELECT now FROM moment), e.seq, %(epoch)s, e.kind, e.key, e.body
    FROM passed p, unnest(%(seqs)s::int[], %(kinds)s::smallint[], %(keys)s::text[], %(bodies)s::bytea[])
    AS e(seq, kind, key, body))"""
_PASSED_ONE = "SELECT run_id, flags, (SELECT now FROM moment) FROM passed"
_TAKES = """emptied AS (UPDATE inbox i SET body = NULL FROM taken t
    WHERE i.run_id = t.run_id AND i.seq = t.seq AND i.key IS NOT NULL),
gone AS (DELETE FROM inbox i USING taken t WHERE i.run_id = t.run_id AND i.seq = t.seq AND i.key IS NULL)"""
APPEND = f"{_APPENDED} {_PASSED}"
APPEND_TAKING = f"""{_APPENDED},
taken AS MATERIALIZED (SELECT i.run_id, i.seq FROM unnest(%(taken_runs)s::bigint[], %(taken)s::int[]) AS t(run_id, seq)
    JOIN inbox i ON i.run_id = t.run_id AND i.seq = t.seq WHERE (t.run_id IN (SELECT run_id FROM passed)) IS TRUE
    ORDER BY i.run_id, i.seq FOR UPDATE OF i),
{_TAKES} {_PASSED}"""
APPEND_ONE = f"{_APPENDED_ONE} {_PASSED_ONE}"
APPEND_ONE_TAKING = f"""{_APPENDED_ONE},
taken AS MATERIALIZED (SELECT p.run_id, t.seq FROM passed p, unnest(%(taken)s::int[]) AS t(seq)),
{_TAKES} {_PASSED_ONE}"""
LEAVE = f"""WITH {MOMENT},
asked AS (SELECT * FROM unnest(%(runs)s::bigint[], %(tokens)s::bigint[], %(epochs)s::int[], %(heads)s::int[],
    %(forbids)s::smallint[], %(counts)s::int[], %(afters)s::smallint[], %(seens)s::int[], %(dues)s::bigint[],
    %(flags)s::smallint[]) AS a(run_id, token, epoch, head, forbids, n, after, seen, due_at, flags)),
runs_locked AS MATERIALIZED (SELECT r.id FROM runs r JOIN asked a ON r.id = a.run_id ORDER BY r.id FOR UPDATE OF r),
locked AS MATERIALIZED (SELECT a.* FROM asked a JOIN leases l ON {_FENCED}
    WHERE (SELECT count(*) FROM runs_locked) >= 0 ORDER BY l.run_id FOR UPDATE OF l),
passed AS (DELETE FROM leases l USING locked WHERE l.run_id = locked.run_id RETURNING locked.*),
added AS ({_ENTRIES}),
put_away AS (UPDATE runs r SET head = p.head + p.n, seen = p.seen, stalls = 0, flags = (r.flags & {int(LASTING)}) | p.flags,
    state = CASE WHEN p.after <> 2 THEN p.after WHEN r.inbox > p.seen OR r.flags & 1 > (p.flags & 128) THEN 1 ELSE 2 END,
    due_at = CASE WHEN p.after <> 2 OR r.inbox > p.seen OR r.flags & 1 > (p.flags & 128) THEN now ELSE p.due_at END
    FROM passed p, moment WHERE r.id = p.run_id RETURNING r.id, r.state, r.flags)
SELECT id, state, flags, now FROM put_away, moment"""
FENCE_ORDER = """WITH runs_locked AS MATERIALIZED (
    SELECT id FROM runs WHERE id = ANY(%(leaving)s::bigint[]) ORDER BY id FOR UPDATE),
locked AS MATERIALIZED (SELECT run_id FROM leases WHERE run_id = ANY(%(going)s::bigint[])
    AND (SELECT count(*) FROM runs_locked) >= 0 ORDER BY run_id FOR UPDATE)
SELECT count(*) FROM locked"""


KINDS = {int(kind): kind for kind in Kind}


def run_row(row: Sequence[Any]) -> RunRow:
    """Return a run from its columns."""
    return RunRow._make((*row[:11], State(row[11]), *row[12:15], Flag(row[15])))


def entry_row(row: Sequence[Any]) -> Stored:
    """Return an entry from its columns."""
    seq, at, epoch, kind, key, body = row
    return Stored(seq, at, epoch, KINDS[kind], key, body)


def claim_params(wanted: Claim, now: int) -> dict[str, Any]:
    """Return what CLAIM asks for."""
    return {
        "now": now,
        "after": wanted.after_tenant,
        "programs": longs(wanted.programs),
        "n": wanted.limit,
        "lease": wanted.lease_micros,
        "token": wanted.token,
        "worker": wanted.worker,
    }


def claimed(rows: Iterable[Sequence[Any]], wanted: Claim) -> tuple[list[Claimed], int]:
    """Put the flat rows of a claim together again; return them and the moment of the claim (0: nothing was ready)."""
    found: dict[int, Claimed] = {}
    now = 0
    for tag, run_id, numbers, word, other, body in rows:
        if tag == 0:
            now = numbers[-1]
            run = run_row((run_id, *numbers[:-1]))
            lease = Lease(
                run.id, wanted.token, run.epoch, run.head, wanted.worker, now + wanted.lease_micros, run.flags
            )
            found[run_id] = Claimed(run, lease, StateRow(run_id, 0, 0, 0, b""))
        elif tag == 1:
            found[run_id].state = StateRow._make((run_id, *numbers, body))
        elif tag == 2:  # noqa: PLR2004 - the numbers of the statement's parts
            found[run_id].entries.append(entry_row((*numbers, word, body)))
        elif tag == 3:  # noqa: PLR2004
            slot, seq, kind, due_at, answered_at, need = numbers
            wait = WaitRow(run_id, slot, seq, WaitKind(kind), due_at, answered_at, word, body, need=need)
            if other is not None:
                wait = wait._replace(members=bytes.fromhex(other))
            found[run_id].waits.append(wait)
        else:
            found[run_id].unread.append(Signal._make((*numbers, word, body, other)))
    in_order = sorted(found.values(), key=lambda c: (c.run.priority, c.run.due_at or 0, c.run.id))
    return in_order, now


def append_one_params(row: Append, now: int) -> dict[str, Any]:
    """Return a lone fenced append."""
    run_id, token, epoch, head, forbids_cancel, added, taken = row
    keys = [entry.key for entry in added]
    texts.check(keys, "an entry's key")
    return {
        "now": now,
        "n": len(added),
        "run": run_id,
        "token": token,
        "epoch": epoch,
        "head": head,
        "forbids": int(forbids_cancel),
        "seqs": longs(range(head + 1, head + 1 + len(added))),
        "kinds": longs([entry.kind for entry in added]),
        "keys": TextArray(keys),
        "bodies": ByteaArray([entry.body for entry in added]),
        "taken": longs(taken),
    }


def append_params(rows: Sequence[Append], now: int) -> dict[str, Any]:
    """Return a batch of fenced appends as arrays: one set for the runs, one for their entries."""
    once_each([row.run_id for row in rows])
    runs: list[int] = []
    seqs: list[int] = []
    epochs: list[int] = []
    kinds: list[int] = []
    keys: list[str | None] = []
    bodies: list[bytes | None] = []
    for run_id, _, epoch, head, _, added, _ in rows:
        for seq, (kind, key, body) in enumerate(added, start=head + 1):
            runs.append(run_id)
            seqs.append(seq)
            epochs.append(epoch)
            kinds.append(kind)
            keys.append(key)
            bodies.append(body)
    texts.check(keys, "an entry's key")
    return {
        "now": now,
        "runs": longs([row.run_id for row in rows]),
        "tokens": longs([row.token for row in rows]),
        "epochs": longs([row.epoch for row in rows]),
        "heads": longs([row.head for row in rows]),
        "forbids": longs([row.forbids_cancel for row in rows]),
        "counts": longs([len(row.entries) for row in rows]),
        "taken_runs": longs([row.run_id for row in rows for _ in row.taken]),
        "taken": longs([seq for row in rows for seq in row.taken]),
        "entry_runs": longs(runs),
        "seqs": longs(seqs),
        "entry_epochs": longs(epochs),
        "kinds": longs(kinds),
        "keys": TextArray(keys),
        "bodies": ByteaArray(bodies),
    }


def leave_params(rows: Sequence[Leave], now: int) -> dict[str, Any]:
    """Return a batch of fenced appends that end the stretch, as arrays."""
    return append_params([row.append for row in rows], now) | {
        "afters": longs([row.after for row in rows]),
        "seens": longs([row.seen for row in rows]),
        "dues": longs([row.due_at for row in rows]),
        "flags": longs([row.flags for row in rows]),
    }
