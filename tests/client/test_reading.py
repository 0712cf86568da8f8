"""What people read, on every store: lists, one run, the doctor. Nothing is stuck in silence (G13)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.client.programs import GATE, Order, app
from torpor.cli.developing import standing_of
from torpor.client import Client, without_password
from torpor.core.run import State
from torpor.engine.queries.doctor import diagnose
from torpor.engine.queries.facts import facts
from torpor.engine.queries.spoken import duration, size
from torpor.errors import UsageError
from torpor.testing import Lab, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.stores import Moment
    from torpor.engine.queries.doctor import Diagnosis
    from torpor.store.protocol import Store

    Check = Callable[[Lab, Client], Coroutine[None, None, None]]


@pytest.fixture
def on(store: Store, moment: Moment) -> Callable[[Check], None]:
    """Return what runs a check with a lab and a client on a fresh store of each kind."""

    def run(check: Check) -> None:
        async def main() -> None:
            GATE.close()
            async with Lab(app, store=store, clock=moment, name="w1") as lab:
                await check(lab, Client(lab.store))

        asyncio.run(main())

    return run


def lines_of(found: Diagnosis, subject: str) -> list[tuple[str, str]]:
    """Return the level and text of the doctor's lines about a subject."""
    return [(line.level, line.text) for line in found.lines if line.subject == subject]


def test_a_list_says_why(on: Callable[[Check], None]) -> None:
    """People's first, then what sleeps by its moment, then what ended; each with its reason."""

    async def check(lab: Lab, client: Client) -> None:
        late, soon = await client.start("naps", 7200.0), await client.start("naps", 60.0)
        hears = await client.start("order", Order(1, "fine"))
        asks = await client.start("order", Order(2, "torn"))
        failed, done = await client.start("double", 13), await client.start("double", 1)
        await lab.settle()
        fleet = await client.fleet()
        found = {line.run: (line.shown, line.reason, line.next_is) for line in fleet.runs}
        assert found == {
            late.run_id: ("asleep", "timer", "wakes"),
            soon.run_id: ("asleep", "timer", "wakes"),
            hears.run_id: ("asleep", "message go", ""),
            asks.run_id: ("needs you", "settle refund#1", ""),
            failed.run_id: ("failed", found[failed.run_id][1], ""),
            done.run_id: ("completed", "", ""),
        }
        assert found[failed.run_id][1].startswith("StepFailed: scan failed: ValueError: unlucky (programs.py:")
        order = [line.run for line in fleet.runs]
        assert order[0] == asks.run_id
        assert order[1:3] == [soon.run_id, late.run_id]
        assert fleet.counts == {"ready": 0, "running": 0, "waiting": 4, "completed": 1, "failed": 1, "cancelled": 0}
        assert fleet.asleep_more == 0

    on(check)


def test_a_list_is_bounded(on: Callable[[Check], None]) -> None:
    """Sleepers are counted, not listed; a filter and `before` reach the others."""

    async def check(lab: Lab, client: Client) -> None:
        started = [await client.start("naps", 3600.0 + n) for n in range(12)]
        await lab.settle()
        fleet = await client.fleet()
        assert len(fleet.runs) + fleet.asleep_more == 12
        assert fleet.asleep_more > 0
        newest = await client.list(states=[State.WAITING], program="naps", limit=5)
        assert [line.run for line in newest] == [one.run_id for one in reversed(started[-5:])]
        older = await client.list(limit=5, before=newest[-1].run)
        assert [line.run for line in older] == [one.run_id for one in reversed(started[2:7])]
        assert await client.list(states=[State.FAILED]) == []
        with pytest.raises(UsageError, match="no program named"):
            await client.list(program="nope")

    on(check)


def test_a_ready_run_says_why_nobody_takes_it(on: Callable[[Check], None]) -> None:
    """Without a worker it says so; with one that lives it says nothing."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("double", 1)
        assert (await client.get(started.run_id)).reason == "no worker is connected"
        found = await client.doctor()
        assert lines_of(found, "queue") == [("warn", "1 run ready, oldest 0ms; 0 workers connected")]
        await lab.settle()
        assert lines_of(await client.doctor(), "queue") == [("ok", "nothing is ready and waits for a worker")]

    on(check)


def test_a_cancelled_run_says_so_before_its_end(on: Callable[[Check], None]) -> None:
    """Cancel is acknowledged at once, and shown until somebody writes the end."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("naps", 60.0)
        await client.cancel(started.run_id)
        assert (await client.get(started.run_id)).cancelling
        await lab.settle()
        line = await client.get(started.run_id)
        assert (line.shown, line.cancelling) == ("cancelled", False)

    on(check)


def test_it_is_not_safe_to_stop_in_an_effect(on: Callable[[Check], None]) -> None:
    """A running run names its turn and worker; an effect between intent and outcome is named by the doctor."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("acting", 1)
        working = asyncio.create_task(lab.settle())
        await GATE.reached.wait()
        line = await client.get(started.run_id)
        assert (line.shown, line.reason, line.worker, line.next_is) == ("running", "turn 1 on w1", "w1", "lease")
        found = await client.doctor()
        assert not found.safe_to_stop
        assert found.safe_to_stop_text == f"no, slow#1 (keyed) of {started.run_id} is in flight on w1, 0ms"
        assert [worker.state for worker in found.workers] == ["answering"]
        assert standing_of(await client.fleet()) == "1 running"
        known = await lab.store.transact(facts)
        of_a_dead_worker = diagnose(known, found.place, frozenset(row.id for row in known.workers))
        assert of_a_dead_worker.safe_to_stop, "what was in flight there is cut already"
        assert of_a_dead_worker.safe_to_stop_text == (
            f"yes, no effect is in flight; slow#1 (keyed) of {started.run_id} was, on w1, which is lost"
        )
        assert (await client.show(started.run_id)).effects[0].outcome == "in flight"
        GATE.opened.set()
        await working
        found = await client.doctor()
        assert (found.safe_to_stop, found.safe_to_stop_text) == (True, "yes, no effect is in flight")

    on(check)


def test_a_lost_worker_is_named(on: Callable[[Check], None]) -> None:
    """The run of a dead worker says that it is lost, until another takes over; then the story says that."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("acting", 1)
        working = asyncio.create_task(lab.settle())
        await GATE.reached.wait()
        await lab.kill()
        line = await client.get(started.run_id)
        if line.shown == "running" and line.stretches == 1:  # the lab's waker has not looked yet
            assert line.reason == "turn 1 on w1, which is lost"
        GATE.opened.set()
        await working
        shown = await client.show(started.run_id)
        assert (shown.line.shown, shown.line.takeovers, shown.line.stretches) == ("completed", 1, 2)
        assert "another worker took over" in [told.what for told in shown.lines]
        assert [part.takeover for part in shown.life] == [False, True]

    on(check)


def test_the_ledger_of_effects(on: Callable[[Check], None]) -> None:
    """Done, unknown and settled: with safety, arguments, key and who settled it."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("order", Order(5, "torn"))
        await lab.settle()
        (effect,) = (await client.show(started.run_id)).effects
        assert (effect.effect, effect.turn, effect.safety, effect.outcome) == ("refund#1", 1, "once", "unknown")
        assert effect.args == '5 text="torn"'
        assert effect.detail == "it raised OSError: connection reset"
        assert len(effect.key) == 32
        found = await client.doctor()
        assert lines_of(found, "effects") == [("warn", f'1 unknown: {started.run_id} refund#1 5 text="torn" since 0ms')]
        assert lines_of(found, "people") == [("warn", "1 wait needs a person, oldest 0ms")]
        wait = (await client.inbox()).items[0]
        assert (wait.asks, wait.what, wait.digest) == ("settle", 'refund#1 5 text="torn"', "")
        await client.answer(wait.wait, by="ada", fail="the bank says no")
        await lab.settle()
        shown = await client.show(started.run_id)
        (effect,) = shown.effects
        assert (effect.outcome, effect.settled_by, effect.detail) == ("failed", "ada", "Settled: the bank says no")
        assert shown.line.shown == "failed"

    on(check)


def test_turns_keep_their_numbers(on: Callable[[Check], None]) -> None:
    """Keys repeat from turn to turn; the story still tells each turn's calls, and quiet entries are marked."""

    async def check(lab: Lab, client: Client) -> None:
        started = await client.start("turns", 3)
        await lab.settle()
        shown = await client.show(started.run_id)
        assert [line.what for line in shown.lines if line.outcome == "checkpoint"] == [
            f"turn {n} ended" for n in (1, 2, 3)
        ]
        assert [line.what for line in shown.lines].count("scan#1") == 4
        assert (shown.line.turn, shown.line.version, shown.result) == (4, 3, "done")
        assert (shown.head, shown.entries_before, shown.state) == (8, 0, 0)

    on(check)


def test_what_nobody_moves(on: Callable[[Check], None]) -> None:
    """A timer that is long past and a lease that ended are named, with what moves them."""

    async def check(lab: Lab, client: Client) -> None:
        nap = await client.start("naps", 60.0)
        await lab.settle()
        assert lines_of(await client.doctor(), "timers") == [("ok", "the next run wakes in 1m")]
        lab.advance(timedelta(minutes=5))
        found = await client.doctor()
        assert [text for _, text in lines_of(found, "timers")] == [f"1 run past the time to wake: {nap.run_id}"]
        assert lines_of(found, "workers")[0] == ("warn", "w1 not heard of for 5m, holds 0 runs")
        await lab.settle()

    on(check)


def test_a_clock_that_ran_ahead(on: Callable[[Check], None]) -> None:
    """Stored times far ahead of the clock are a named state; on SQLite `reset_clock` leads out of it."""

    async def check(lab: Lab, client: Client) -> None:
        lab.advance(timedelta(hours=3))
        await client.start("double", 1)
        lab.advance(timedelta(hours=-3))
        found = await client.doctor()
        assert found.errors == 1
        ((level, text),) = lines_of(found, "clock")
        assert (level, text[:27]) == ("error", "stored times are 3h ahead o")
        if lab.store.kind != "sqlite":
            with pytest.raises(UsageError, match="server's own"):
                await client.reset_clock()
            return
        assert await client.reset_clock() == (1, [], 0)
        assert (await client.doctor()).errors == 0
        assert await client.reset_clock() == (0, [], 0)

    on(check)


def test_timers_that_a_clock_that_ran_ahead_has_set(on: Callable[[Check], None]) -> None:
    """Nothing fires them sooner (G8); the doctor and `reset_clock` name the runs, and no others, and what can be done."""

    async def check(lab: Lab, client: Client) -> None:
        right = await client.start("naps", 86_400.0)
        await lab.settle()
        lab.advance(timedelta(hours=3))
        wrong = await client.start("naps", 86_400.0)
        await lab.settle()
        lab.advance(timedelta(hours=-3))
        assert right.run_id != wrong.run_id
        text = f"1 run went to sleep by a clock that was ahead, and may wake 3h late: {wrong.run_id}"
        found = await client.doctor()
        assert ("warn", text) in lines_of(found, "timers")
        assert [line.hint for line in found.lines if line.text == text] == [
            f"what cannot wait so long: torpor cancel {wrong.run_id}, then start it again"
        ]
        if lab.store.kind == "sqlite":
            assert (await client.reset_clock())[1:] == ([wrong.run_id], 3 * 3600.0)

    on(check)


def test_a_kill_between_effect_and_record(on: Callable[[Check], None]) -> None:
    """A `once` effect whose worker died in it is unknown, and the run's life shows the takeover."""

    async def check(lab: Lab, client: Client) -> None:
        lab.crash(Place.ACTED)
        started = await client.start("order", Order(1, "fine"))
        await lab.settle()
        line = await client.get(started.run_id)
        assert (line.shown, line.reason, line.takeovers) == ("needs you", "settle refund#1", 1)

    on(check)


def test_words_for_people() -> None:
    """Durations in their two largest units, sizes in one, addresses without a password."""
    spoken = [
        duration(round(seconds * 1e6)) for seconds in (0, 0.0004, 0.25, 9.94, 12, 60, 7560, 86400, 388800, 2678400)
    ]
    assert spoken == ["0ms", "0ms", "0.2s", "9.9s", "12s", "1m", "2h 6m", "1d", "4d 12h", "31d"]
    sizes = [size(count) for count in (0, 999, 4096, 412_000_000, 3_200_000_000)]
    assert sizes == ["0 B", "999 B", "4.1 KB", "412 MB", "3.2 GB"]
    assert without_password("postgresql://ada:secret@db.example:5432/x") == "postgresql://ada@db.example:5432/x"
    assert without_password("sqlite:///torpor.db") == "sqlite:///torpor.db"
