"""SQLite refuses a COMMIT while a statement that may write is open, and one is open for as long as somebody keeps its cursor.

Whoever that is: a debugger, a profiler, a thread that lists all objects. So no statement of torpor's is left before its end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from torpor import App, Context, run
from torpor.client import Client
from torpor.store.opening import open_store
from torpor.store.sqlite.connect import Connection

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    import pytest

app = App()


@app.effect
async def acts() -> int:
    """Act."""
    return 1


@app.flow
async def flow(ctx: Context) -> int:
    """Act, sleep, act."""
    first = await ctx.effect(acts)
    await ctx.sleep(0.001)
    return first + await ctx.effect(acts)


def test_kept_cursors_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run from its start to its end, and what a client reads of it, with every cursor kept."""
    kept: list[sqlite3.Cursor] = []
    execute = Connection.execute

    def keeping(self: Connection, *given: Any) -> sqlite3.Cursor:
        kept.append(execute(self, *given))
        return kept[-1]

    monkeypatch.setattr(Connection, "execute", keeping)
    path = f"{tmp_path}/torpor.db"

    async def main() -> None:
        assert await run(app, flow, store=path, key="once") == 2
        store = open_store(path)
        try:
            client = Client(store)
            assert (await client.show((await client.start("flow", key="once")).run_id)).line.state == "completed"
        finally:
            await store.close()

    asyncio.run(main())
    assert kept
