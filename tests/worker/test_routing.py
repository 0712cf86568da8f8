"""Which worker takes which run, whose turn it is, and until when: through client and worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.labs import on
from torpor import App, Context, RunCancelled, UsageError
from torpor.client import Client
from torpor.testing.lab import run_of

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab

app = App()


@app.flow
async def plain(ctx: Context, state: Any) -> Any:
    """Wait to be told, then return what was given."""
    await ctx.receive("go")
    return ctx.again(state - 1) if state else "done"


def test_a_tag_is_served_by_those_that_have_it_and_kept_from_turn_to_turn(store: Store, moment: Moment) -> None:
    """A worker without it leaves the run alone, and people are told which is missing (G13)."""

    async def without(lab: Lab) -> None:
        client = Client(lab.store)
        tagged = (await client.start("plain", 1, key="t", tag="gpu")).run_id
        await lab.worker()
        line = await client.get(tagged)
        assert (line.state, line.stretches) == ("ready", 0)
        assert 'for workers with the tag "gpu"' in line.reason
        assert line.hint == "torpor worker APP.py --tag gpu"
        said = [one.text for one in (await client.doctor()).lines]
        assert any('the tag "gpu"' in text for text in said), said

    async def having(lab: Lab) -> None:
        client = Client(lab.store)
        tagged = await client.start("plain", 1, key="t", tag="gpu")
        for _ in range(2):
            await client.signal(tagged.run_id, "go")
        assert await lab.result(run_of(tagged.run_id)) == "done"

    on(store, moment, app, without)
    on(store, moment, app, having, tags=["gpu"], only_tags=True)


def test_a_deadline_ends_a_run_that_sleeps_and_says_why(store: Store, moment: Moment) -> None:
    """At its moment the run is cancelled, with the reason for people."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        started = await client.start("plain", 0, deadline=timedelta(hours=2))
        await lab.settle()
        assert (await client.get(started.run_id)).deadline_at == moment.now() + 7_200_000_000
        lab.advance(7200)
        with pytest.raises(RunCancelled):
            await lab.result(run_of(started.run_id))
        assert (await client.get(started.run_id)).reason == "deadline passed"
        with pytest.raises(UsageError, match="not after"):
            await client.start("plain", 0, deadline=datetime(2000, 1, 1, tzinfo=UTC))
        with pytest.raises(UsageError, match="time zone"):
            await client.start("plain", 0, deadline=datetime(2100, 1, 1))  # noqa: DTZ001 - what is refused

    on(store, moment, app, check)


def test_a_line_is_worked_off_one_after_the_other(store: Store, moment: Moment) -> None:
    """Through a worker: who has the place sleeps with it; its end lets the next one go."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        one, two = [(await client.start("plain", 0, line="ada")).run_id for _ in range(2)]
        await lab.settle()
        assert (await client.get(two)).reason == "behind 1 other for ada"
        await client.signal(two, "go")
        await lab.settle()
        assert (await client.get(two)).shown == "asleep"
        await client.signal(one, "go")
        await lab.settle()
        assert [(await client.get(run)).state for run in (one, two)] == ["completed", "completed"]

    on(store, moment, app, check)
