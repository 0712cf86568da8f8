"""No verb of the hot path, of a sweep or of a list walks a whole table: asked of the databases' own planners.

The tables are large by decree on the server, and for SQLite the statements are looked at as they run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.world import LEASE, TOKEN, add, away, populate
from tests.stores import raw
from torpor.core.commit import NewReply
from torpor.core.event import NewEvent
from torpor.core.run import State
from torpor.store.history_rows import Emptying
from torpor.store.rows import Claim, FollowUp, NewSignal, RunFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.stores import Place
    from torpor.store.protocol import Tx

SMALL = {"leases", "workers", "programs", "meta", "outbox", "follow_ups"}
"""Tables that hold what is running, or less: walking one of them is what a sweep of leases does."""


def _calls_about_events(runs: list[int]) -> list[Callable[[Tx], object]]:
    return [
        lambda tx: tx.runs_waiting_for([1, 2], after=0, limit=5),
        lambda tx: tx.add_event(NewEvent("paid", b"", [1], 2**60, "k")),
        lambda tx: tx.going_events(limit=5),
        lambda tx: tx.get_event(1),
        lambda tx: tx.early_events(1, runs[0], after=0, limit=5),
        lambda tx: tx.mark_waits([(runs[0], 0, 1)]),
        lambda tx: tx.expire_events(limit=5),
        lambda tx: tx.drop_events(before=1, limit=5),
        lambda tx: tx.known_keys(runs[0], ["k"]),
        lambda tx: tx.put_replies([(runs[0], NewReply("k", b""))]),
        lambda tx: tx.get_reply("k"),
        lambda tx: tx.drop_replies(before=1, limit=5),
        lambda tx: tx.too_late(runs[0], limit=5),
    ]


def _calls(runs: list[int], program: int) -> list[Callable[[Tx], object]]:
    wanted = Claim(1, [program], 2, TOKEN, LEASE)
    return [
        lambda tx: tx.claim(wanted),
        lambda tx: tx.claim(wanted._replace(after_tenant=1)),
        lambda tx: tx.due_runs(before=2**60, limit=5),
        lambda tx: tx.next_due(),
        lambda tx: tx.people_waits(limit=5),
        lambda tx: tx.count_runs(list(State), most=5),
        lambda tx: tx.list_runs(RunFilter()),
        lambda tx: tx.list_runs(RunFilter(states=[State.FAILED, State.WAITING], programs=[program])),
        lambda tx: tx.get_runs(runs),
        lambda tx: tx.waits(runs),
        lambda tx: tx.unread(runs),
        lambda tx: tx.states(runs),
        lambda tx: tx.open_intents(runs),
        lambda tx: tx.journal(runs[0]),
        lambda tx: tx.entries([(runs[0], 1)]),
        lambda tx: tx.add_signals([NewSignal(runs[0], "go", b"", "k"), NewSignal(runs[1], "go", b"")]),
        lambda tx: tx.add_signals([NewSignal(runs[0], "go", b"", program="audit")]),
        lambda tx: tx.sweep_blobs(before=1, limit=5),
        lambda tx: tx.get_rows(runs[0], "f", after=0, limit=1),
        lambda tx: tx.outbox(limit=5),
        lambda tx: tx.whole_checkpoints(runs[0], limit=5),
        lambda tx: tx.empty_checkpoints([Emptying(runs[0], 3)]),
        lambda tx: tx.empty_checkpoints([Emptying(runs[0], 3, outcomes=True), Emptying(runs[1], 1, outcomes=True)]),
        lambda tx: tx.empty_old(runs[0], before=1, below=5),
        lambda tx: tx.forks(runs),
        lambda tx: tx.forks_of(runs[0], limit=5),
        lambda tx: tx.first_cut(runs[0], 0),
        lambda tx: tx.ended_runs(program, before=1, after=(0, 0), limit=5),
        lambda tx: tx.held_back(runs),
        lambda tx: tx.prunes(runs),
        lambda tx: tx.stream_prunes(runs),
        lambda tx: tx.old_parts(runs[0], before=1, below=5, limit=5),
        lambda tx: tx.oldest_parts(after=0, limit=5),
        lambda tx: tx.old_slots(1, before=1, limit=5),
        lambda tx: tx.drop_slots(1, [1]),
        lambda tx: tx.old_entries(runs[0], before=1, below=5, limit=5),
        *_calls_about_events(runs),
        lambda tx: tx.follow_ups(limit=5),
        lambda tx: tx.due_deadlines(before=2**60, limit=5),
        lambda tx: tx.next_deadline(),
        lambda tx: tx.stirred_lines(limit=5),
        lambda tx: tx.queue(1, limit=5),
        lambda tx: tx.lock_line(tx.open_lines({"a": 1})["a"].id),
        lambda tx: tx.leave_lines(runs),
        lambda tx: tx.compensations(runs[0]),
        lambda tx: tx.live_children([FollowUp(run, 0) for run in runs], limit=5),
        lambda tx: tx.children(runs[0], limit=5),
        lambda tx: tx.count_children(runs[0], most=5),
        lambda tx: tx.due_schedules(before=2**60, limit=5),
        lambda tx: tx.next_slot_due(),
        lambda tx: tx.list_schedules(after="a", limit=5),
        lambda tx: tx.get_schedules(["a", "b"], lock=True),
        lambda tx: tx.newest_slots([1, 2], limit=5),
        lambda tx: tx.spent(runs[0], ["k"]),
        lambda tx: tx.undelivered(),
        lambda tx: tx.streams(runs, lock=True),
        lambda tx: tx.parts(runs[0], after=5, limit=5),
        lambda tx: tx.views(runs),
        lambda tx: tx.budgets([1, 2], lock=True),
        lambda tx: tx.budgets_of(runs),
        lambda tx: tx.named_budgets(["tenant:1"]),
        lambda tx: tx.stirred_budgets(limit=5),
        lambda tx: tx.holds(runs),
        lambda tx: tx.shorts(1, limit=5),
        lambda tx: tx.drop_shorts([(runs[0], "")]),
        lambda tx: tx.find_bucket("mail"),
    ]


def test_sqlite_walks_no_large_table(make_place: Callable[[str], Place]) -> None:
    """EXPLAIN QUERY PLAN of every statement that these verbs run names an index or a key, or a table that is small."""
    store = make_place("sqlite").sqlite()
    world = populate(store, 20)
    leases = [claimed.lease for claimed in world.claim(10)]
    statements: set[str] = set()

    def watched(tx: Tx, call: Callable[[Tx], object]) -> None:
        raw(tx).set_trace_callback(statements.add)
        call(tx)
        raw(tx).set_trace_callback(None)

    for call in _calls(world.runs, world.program):
        store.transact_now(watched, call)
    store.transact_now(
        watched, lambda tx: (tx.append([add(leases[0])], lease_micros=LEASE), tx.leave([away(leases[1])]))
    )
    asked = sorted(s for s in statements if s.split()[0] in {"SELECT", "UPDATE", "INSERT", "DELETE", "WITH"})

    def plan(tx: Tx) -> list[tuple[str, str]]:
        database = raw(tx)
        return [(s, str(row[3])) for s in asked for row in database.execute(f"EXPLAIN QUERY PLAN {s}")]

    assert len(asked) > 20
    plans = store.transact_now(plan)
    tables = {
        "runs",
        "states",
        "journal",
        "waits",
        "inbox",
        "rows",
        "blobs",
        "blob_runs",
        "run_keys",
        "schedules",
        "slots",
        *("streams", "parts", "views", "budgets", "holds", "shorts", "buckets"),
        "events",
        "event_matches",
        "replies",
        "too_late",
    }
    walks = [
        (statement, step)
        for statement, step in plans
        if step.startswith("SCAN") and "INDEX" not in step and step.split()[1] in tables
    ]
    assert walks == []
    next_runs = [
        step for s, step in plans if ("ORDER BY" in s and "state = 1" in s) or ("due_at" in s and "state = 2" in s)
    ]
    assert [step for step in next_runs if "runs_ready" in step]
    assert [step for step in next_runs if "runs_timer" in step]
    assert not [step for step in next_runs if "runs_state" in step], "that index has every run in it"


def test_postgres_walks_no_large_table(on_server: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """EXPLAIN of every statement that these verbs send, with generic plans, has a Seq Scan of small tables only."""
    from torpor.store.postgres.exchange import Exchange

    store = on_server.postgres()
    world = populate(store, 20)
    leases = [claimed.lease for claimed in world.claim(10)]
    calls = _calls(world.runs, world.program)
    calls.append(lambda tx: tx.append([add(leases[0]), add(leases[2])], lease_micros=LEASE))
    calls.append(lambda tx: tx.append([add(leases[3])], lease_micros=LEASE))
    calls.append(lambda tx: tx.append([add(leases[4])._replace(taken=[1])], lease_micros=LEASE))
    calls.append(lambda tx: tx.append([add(lease)._replace(taken=[1]) for lease in leases[5:7]], lease_micros=LEASE))
    calls.append(lambda tx: tx.leave([away(leases[1])]))
    calls.append(lambda tx: tx.open_runs([world.program], after=0, limit=5))
    calls.append(lambda tx: tx.whole_checkpoints(world.runs[0], limit=5))
    plans: list[tuple[str, str]] = []
    ask = Exchange.ask

    def explained(self: Exchange, statement: str, params: dict[str, object]) -> list[tuple[object, ...]]:
        if not statement.startswith("SELECT torpor_now"):
            plans.extend((statement, str(row[0])) for row in ask(self, f"EXPLAIN {statement}", params))
        return ask(self, statement, params)

    monkeypatch.setattr(Exchange, "ask", explained)
    for call in calls:
        store.transact_now(call)
    assert len(plans) > 100
    walks = [line for _, line in plans if "Seq Scan on" in line or "Bitmap" in line]
    assert [line for line in walks if line.split(" on ")[1].split()[0] not in SMALL] == []
    assert not [line for _, line in plans if "Hash Join" in line or "Merge Join" in line]
    claims = [line for statement, line in plans if "in_view" in statement and "Scan" in line and " on runs" in line]
    assert claims
    assert not [line for line in claims if "runs_state" in line], "a claim reads no index that sleepers are in"
