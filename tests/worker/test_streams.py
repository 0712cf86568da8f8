"""What runs emit and show: live, cheap, and in the end exactly what was kept, wherever a worker dies (G11)."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from tests.worker.speaking import (
    GATES,
    app,
    both,
    check_numbers,
    fresh_gates,
    gives_up,
    kept,
    late,
    one,
    parts,
    refuses,
    secret,
    shows,
    tells,
    work,
)
from torpor.client import Client
from torpor.core.ids import parse_run
from torpor.testing import Lab, Place

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store


@pytest.fixture(autouse=True)
def _gates() -> None:
    fresh_gates()


@pytest.mark.slow
def test_the_kept_text_is_the_result(store: Store, moment: Moment) -> None:
    """Wherever a worker dies: flow, steps, effects and threads are heard once, in order; what was dropped is taken back."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(tells, "", before=COUNTER.clear):
            assert await lab.result(crash.run) == await Client(lab.store).text(str(crash.run)), crash
            await check_numbers(lab, crash.run)

    on(store, moment, app, check)


@pytest.mark.slow
def test_voices_that_speak_at_once(store: Store, moment: Moment) -> None:
    """Each keeps or drops its own parts, wherever a worker dies."""

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(both, places=(Place.AFTER, Place.ACTED)):
            text = await Client(lab.store).text(str(crash.run))
            assert "".join(sorted(text)) == await lab.result(crash.run), crash
            await check_numbers(lab, crash.run)

    on(store, moment, app, check)


def test_a_step_is_heard_while_it_runs(store: Store, moment: Moment) -> None:
    """Its text is readable before it ends, with no commit in between, and the reader ends with the run."""

    async def check(lab: Lab) -> None:
        run = await lab.start(one, state=False)
        going = await work(lab)
        await GATES["said"].wait()
        stream = Client(lab.store).stream(str(run))
        async with aclosing(stream):
            assert (await anext(stream))[:3] == (1, "text", "attempt 1")
            assert [line.kind for line in await lab.journal(run)] == []
            GATES["said on"].set()
            assert [part async for part in stream] == []
        await going

    on(store, moment, app, check)


def test_a_failed_attempt_is_taken_back(store: Store, moment: Moment) -> None:
    """The retraction names exactly its parts and comes before the next attempt's; so does a lost worker's."""

    async def check(lab: Lab, *, fails: bool) -> None:
        run = await lab.start(one, fails)
        going = await work(lab)
        await GATES["said"].wait()
        while not await parts(lab, run):
            await lab.change()
        if not fails:
            await lab.kill()
        GATES["said on"].set()
        await going
        said = await lab.result(run)
        found = [part[1:3] for part in await parts(lab, run)]
        assert found == [("text", "attempt 1"), ("retract", [[1, 1]]), ("text", said)]
        await check_numbers(lab, run)

    on(store, moment, app, lambda lab: check(lab, fails=True))
    fresh_gates()
    on(store, moment, app, lambda lab: check(lab, fails=False))


def test_what_the_code_gave_up_is_taken_back(store: Store, moment: Moment) -> None:
    """A step that was cancelled has no outcome: its text goes while the run lives on."""

    async def check(lab: Lab) -> None:
        run = await lab.start(gives_up)
        going = await work(lab)
        await GATES["said"].wait()
        while not await parts(lab, run):
            await lab.change()
        await lab.signal(run, "stop")
        await going
        await lab.settle()
        assert await lab.state(run) == "waiting"
        assert await Client(lab.store).text(str(run)) == "stopped"
        await check_numbers(lab, run)

    on(store, moment, app, check)


def test_nobody_is_heard_after_the_end(store: Store, moment: Moment) -> None:
    """A thread that outlives its attempt speaks to nobody."""

    async def check(lab: Lab) -> None:
        run = await lab.start(late)
        assert await lab.result(run) == await Client(lab.store).text(str(run)) == "in time"

    on(store, moment, app, check)


def test_what_cannot_be_emitted(store: Store, moment: Moment) -> None:
    """The author is told at the call; nothing of it is in the stream."""

    async def check(lab: Lab) -> None:
        run = await lab.start(refuses)
        assert await lab.result(run) == ["UnstorableValue", "UsageError", "UnstorableValue"]
        assert await parts(lab, run) == []
        assert await Client(lab.store).view(str(run)) is None

    on(store, moment, app, check)


def test_no_secret_is_emitted_or_shown(store: Store, moment: Moment) -> None:
    """G15: what torpor resolved is struck out of texts, values and views."""

    async def check(lab: Lab) -> None:
        run = await lab.start(secret)
        await lab.result(run)
        found = await parts(lab, run)
        said = "it is [secret door], and [secret door]"
        assert kept(found) == said
        assert [part.body for part in found if part.kind == "value"] == [["[secret door]"]]
        assert await Client(lab.store).view(str(run)) == {"door": "[secret door]"}

    on(store, moment, app, check, secrets={"door": "hunter2-hunter2"})


def test_a_view_is_the_last_one_shown(store: Store, moment: Moment) -> None:
    """It travels with the commit that puts the run away, is written without a commit too, and survives its worker."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run = await lab.start(shows)
        await lab.settle()
        assert await client.view(str(run)) == {"at": "waiting"}
        await lab.signal(run, "go")
        going = await work(lab)
        await GATES["said"].wait()
        number = parse_run(str(run))[1]
        lease = (await lab.store.transact(lambda tx: tx.leases([number])))[number]
        while await client.view(str(run)) != {"at": "holding"}:
            assert not going.done()
        assert (await lab.store.transact(lambda tx: tx.leases([number])))[number].head == lease.head
        GATES["said on"].set()
        await going
        assert await lab.result(run) == "shown"
        assert await client.view(str(run)) == {"at": "end"}
        assert (await client.show(str(run))).view == {"at": "end"}

    on(store, moment, app, check)
