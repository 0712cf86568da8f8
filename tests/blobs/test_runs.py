"""Runs whose large values are kept outside the database: they go on, and what is lost is a matter for a person (G13)."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from pydantic import BaseModel

from torpor import Again, App, Context, Rows
from torpor.client import Client
from torpor.engine import waits
from torpor.engine.decisions import find_run
from torpor.engine.large import put_aside
from torpor.errors import StoreUnavailable
from torpor.store import values
from torpor.store.opening import open_store
from torpor.store.rows import NewSignal
from torpor.testing import Clock, Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from torpor.store.protocol import Tx

    Check: TypeAlias = Callable[[Lab, Client], Coroutine[Any, Any, None]]

app = App()
LARGE = 100_000


class Many(BaseModel):
    """A state with rows."""

    read: bool = False
    pages: Rows[str] = Rows()


@app.step
async def large() -> str:
    """Return something that is stored outside, each time another."""
    return secrets.token_hex(LARGE)


@app.flow
async def measure(ctx: Context, text: str) -> int:
    """Wait between what is made and what is used."""
    made = await ctx.step(large)
    sent = await ctx.receive("go")
    return len(text) + len(made) + len(sent)


@app.flow
async def pages(ctx: Context, state: Many) -> Again[Many] | int:
    """Write a large row, wait in the next turn, then read it."""
    if not state.read:
        state.pages.append(secrets.token_hex(LARGE))
        state.read = True
        return ctx.again(state)
    await ctx.receive("go")
    return sum([len(page) async for page in state.pages])


class Elsewhere:
    """The folder of blobs, from which some can be taken away."""

    def __init__(self, folder: Path) -> None:
        """Begin with everything there."""
        self._folder = folder
        self._taken: dict[Path, bytes] = {}

    @property
    def all(self) -> list[Path]:
        """The blobs that are there."""
        return [path for path in self._folder.rglob("*") if path.is_file()]

    def take(self, known: list[Path], content: bytes | None = None) -> None:
        """Take away what is not `known`, or put `content` in its place."""
        for path in set(self.all) - set(known):
            self._taken[path] = path.read_bytes()
            path.unlink() if content is None else path.write_bytes(content)

    def restore(self) -> None:
        """Bring it back, as from a backup."""
        for path, content in self._taken.items():
            path.write_bytes(content)


def on(folder: Path, check: Check) -> None:
    """Run a check in a lab whose store keeps large values in a folder."""

    async def main() -> None:
        clock = Clock()
        store = open_store(":memory:", clock=clock.now, blobs=str(folder))
        async with Lab(app, store=store, clock=clock) as lab:
            await check(lab, Client(store))
        await store.close()

    asyncio.run(main())


def send(lab: Lab, run: str, value: str) -> None:
    """Send a large signal while the loop stands still, so that nobody reads it before what follows."""
    body, blob = put_aside(values.encode(value))

    def write(tx: Tx) -> None:
        row, _ = find_run(tx, run)
        assert blob is not None
        tx.put_blobs([(row.id, blob)])
        waits.signal(tx, [NewSignal(row.id, "go", body)])

    lab.store.transact_now(write)


def test_a_run_goes_on_with_what_lies_outside(tmp_path: Path) -> None:
    """Input, outcome, signal, rows: written by one stretch, read by the next."""

    async def check(lab: Lab, client: Client) -> None:
        one = await client.start("measure", "x" * LARGE)
        two = await client.start("pages", Many())
        await lab.settle()
        await lab.kill()
        for run in (one, two):
            await client.signal(run.run_id, "go", "y" * LARGE)
        await lab.settle()
        assert await client.result(one.run_id) == 4 * LARGE
        assert await client.result(two.run_id) == 2 * LARGE

    on(tmp_path, check)
    assert len(Elsewhere(tmp_path).all) >= 4


@pytest.mark.parametrize("content", [None, b"not a blob"], ids=["lost", "damaged"])
@pytest.mark.parametrize("what", ["input", "outcome", "rows", "signal"])
def test_what_is_lost_is_asked_about(tmp_path: Path, what: str, content: bytes | None) -> None:
    """The run waits with digest and place; other runs go on; once it is restored a person lets it go on too."""
    outside = Elsewhere(tmp_path)

    async def check(lab: Lab, client: Client) -> None:
        fine = await client.start("measure", "short")
        await lab.settle()
        before = outside.all
        value = secrets.token_hex(LARGE)
        run = await client.start("pages" if what == "rows" else "measure", Many() if what == "rows" else value)
        if what == "input":
            outside.take(before, content)
        await lab.settle()
        if what in {"outcome", "rows"}:
            outside.take(before, content)
        before = outside.all
        send(lab, run.run_id, secrets.token_hex(LARGE))
        if what == "signal":
            outside.take(before, content)
        await client.signal(fine.run_id, "go", "")
        await lab.settle()
        assert await client.result(fine.run_id) == 2 * LARGE + 5
        item = (await client.inbox()).items[0]
        assert str(tmp_path) in item.what
        assert ("is missing from" if content is None else "is damaged") in item.what
        assert run.run_id == item.run
        assert (await client.show(run.run_id)).line.state == "waiting"
        assert any(line.subject == "people" for line in (await client.doctor()).lines)
        outside.restore()
        await client.answer(item.wait, again=True, by="ana")
        await lab.settle()
        assert await client.result(run.run_id) > LARGE

    on(tmp_path, check)


def test_a_place_that_is_away_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked: the run is put away for half a minute, its reason told, and tries again."""

    async def check(lab: Lab, client: Client) -> None:
        run = await client.start("measure", secrets.token_hex(LARGE))
        await lab.settle()
        await client.signal(run.run_id, "go", "")

        def away(digest: str) -> bytes:
            raise StoreUnavailable(f"no way to {digest}", hint="wait")

        with monkeypatch.context() as patch:
            patch.setattr(lab.store._outside.place, "get_packed", away)  # type: ignore[attr-defined]  # noqa: SLF001
            await lab.settle()
            await lab.pass_time(31)
            shown = await client.show(run.run_id)
            assert shown.line.state == "waiting"
            assert sum("no way to" in line.what for line in shown.lines) == 2
            assert (await client.inbox()).items == []
            other = await client.start("measure", "")
            await lab.settle()
            assert (await client.get(other.run_id)).state == "waiting", "others go on"
        await lab.pass_time(31)
        assert await client.result(run.run_id) == 4 * LARGE

    on(tmp_path, check)


def test_a_damaged_blob_of_the_database_is_asked_about_too(tmp_path: Path) -> None:
    """Where it lies makes no difference."""

    async def main() -> None:
        clock = Clock()
        store = open_store(str(tmp_path / "torpor.db"), clock=clock.now)
        async with Lab(app, store=store, clock=clock) as lab:
            client = Client(store)
            run = await client.start("measure", "")
            await lab.settle()
            await store.transact(lambda tx: tx.connection().execute("UPDATE blobs SET body = x'28B52FFD00'"))
            await client.signal(run.run_id, "go", "")
            await lab.settle()
            item = (await client.inbox()).items[0]
            assert "is damaged" in item.what
        await store.close()

    asyncio.run(main())
