"""A worker makes its app's schedules known, and the waker beside it fires them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import App, Context, UsageError, waker
from torpor.client import Client
from torpor.core.ids import run_name
from torpor.runtime import Process
from torpor.store.opening import open_store
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.stores import Moment
    from torpor.store.protocol import Store


def app_with(
    cron: str = "", *, greeting: object = "hello", every: float | None = None
) -> tuple[App, asyncio.Queue[str]]:
    """Return an app whose scheduled flow says what it was given."""
    app, said = App(), asyncio.Queue[str]()

    @app.schedule(cron, every=every, input=greeting)
    @app.flow
    async def greet(ctx: Context, word: str) -> None:
        del ctx
        said.put_nowait(word)

    return app, said


@asynccontextmanager
async def working(store: Store, app: App) -> AsyncIterator[None]:
    """Have a worker and a waker."""
    process = Process(store, app)
    run = asyncio.create_task(process.run())
    ready = asyncio.create_task(process.worker.ready.wait())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.wait([run, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if run.done():
            await run
        yield
        process.worker.stop()
        await run


def test_starting_again_changes_nothing(store: Store) -> None:
    """The same app: unchanged, and a paused schedule stays paused. Changed code: the schedule follows."""

    async def main() -> None:
        client = Client(store)
        async with working(store, app_with("0 3 * * *")[0]):
            first = await client.schedule("greet")
        assert (first.says, first.state) == ("daily at 03:00 UTC", "on")
        await client.pause_schedule("greet", by="ada")
        async with working(store, app_with("0 3 * * *")[0]):
            assert (await client.schedule("greet")).state == "paused"
        await client.resume_schedule("greet")
        async with working(store, app_with("0 4 * * *")[0]):
            assert (await client.schedule("greet")).says == "daily at 04:00 UTC"

    asyncio.run(main())


def test_an_input_that_does_not_fit(store: Store) -> None:
    """The worker does not start, and says which schedule."""

    async def main() -> None:
        with pytest.raises(UsageError, match=r"schedule greet: the .* does not fit"):
            async with working(store, app_with("0 3 * * *", greeting=[1])[0]):
                raise AssertionError
        assert await Client(store).schedules() == []

    asyncio.run(main())


def test_the_doctor_names_what_nobody_fires(store: Store, moment: Moment) -> None:
    """No worker, a slot long past: a line with the command that helps (G13)."""

    async def main() -> None:
        client = Client(store)
        async with working(store, app_with("0 3 * * *")[0]):
            assert [line for line in (await client.doctor()).lines if line.subject == "schedules"] == []
        moment.advance(4 * 3600)
        [line] = [line for line in (await client.doctor()).lines if line.subject == "schedules"]
        assert (line.level, line.hint) == ("warn", "torpor worker APP.py")
        assert line.text == "1 schedule past the time to fire, oldest 1h: greet"

    asyncio.run(main())


@pytest.mark.slow
def test_slots_on_the_real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second, with its input: never early, and at the moment that was foretold: nobody looks otherwise (G8)."""
    for name in ("TICK_SECONDS", "DEATH_SECONDS"):
        monkeypatch.setattr(waker, name, 3600.0)

    async def main() -> None:
        store = open_store(":memory:")
        app, said = app_with(every=1)
        async with working(store, app):
            assert [await said.get() for _ in range(3)] == ["hello"] * 3
            slots = (await Client(store).schedule("greet")).slots
            runs = await store.transact(lambda tx: tx.list_runs(RunFilter()))
        made = {run_name("greet", run.id): run.created_at for run in runs}
        late = [made[slot.run] - slot.slot_at for slot in slots if slot.run in made]
        assert len(late) >= 3
        assert min(late) >= 0
        await store.close()

    asyncio.run(main())
