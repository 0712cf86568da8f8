"""A secret that torpor resolved for a tool is found nowhere, whatever tools and the model do with it (G15)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from pydantic_ai import ModelRetry, RunContext, ToolCallPart, ToolReturn
from pydantic_ai.exceptions import ToolFailed

from tests.agent.scripted import agent_of, forget
from tests.patience import PATIENCE_SECONDS
from tests.stores import raw
from tests.worker.labs import on
from torpor import App, tool_context
from torpor.blobs.packing import decompress
from torpor.cli.driving import JsonLines
from torpor.client import Client
from torpor.core.stream import PartKind
from torpor.testing import Script, call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pytest

    from tests.stores import Moment, Place
    from torpor.store.protocol import Store, Tx
    from torpor.testing import Lab

CANARY = 'hunter2-ümlaut-"quoted"-back\\slash-canary'
PIECES = ("hunter2", "mlaut", "quoted", "slash-can")
"""Runs of its letters that no escape changes: whatever form it is stored in, one of these is seen."""
MARK = "[secret token]"
GO_ON: list[asyncio.Event] = []
"""The first half of what the model says has been read; it may go on."""


def leak(way: str) -> Any:
    """Do with a secret what careless code does."""
    secret = tool_context().secret("token")
    SAID.append(secret)
    match way:
        case "returns":
            return {"headers": {secret: [secret, f"Bearer {secret}"]}}
        case "returns much":
            return secret + "x" * 100_000 + secret
        case "returns parts":
            return ToolReturn(secret, content=["see", secret], metadata={"by": secret})
        case "emits":
            tool_context().emit(f"with {secret}")
            tool_context().emit({"with": secret})
            return "said"
        case "retries":
            raise ModelRetry(f"not with {secret}")
        case "fails":
            raise ToolFailed(f"{secret} is refused")
    raise PermissionError(f"{secret} is refused: {json.dumps(secret)}")


async def first_half_read() -> None:
    """Wait until what was said so far has been read from the stream."""
    await asyncio.wait_for(GO_ON[0].wait(), PATIENCE_SECONDS)


def instructed(_ctx: RunContext[Any]) -> str:
    """Say what the model is told beside."""
    return f"Use {SAID[-1]}." if SAID else "Be brief."


SAID: list[str] = []
"""The secret, once somebody has it outside of torpor: the model is told, and repeats it."""
WAYS = ("returns", "returns much", "returns parts", "emits", "retries", "fails")
SCRIPT = Script(
    [call("leak", way=way) for way in WAYS],
    [
        "It is ",
        CANARY[:9],
        first_half_read,
        CANARY[9:],
        "!",
        call("shown", what=CANARY),
        ToolCallPart("shown", json.dumps({"what": json.dumps(CANARY)}), "call_x"),
    ],
    f"I used {CANARY}.",
)
RAISES = Script(call("leak", way="raises"), "done")


def shown(what: str) -> str:
    """Get what the model says."""
    return what


app = App()
agent = agent_of(SCRIPT, leak, shown, retries=3)
agent.instructions(instructed)
careless = app.agent("careless", agent, safety={"leak": "keyed", "shown": "keyed"}, approve={"shown": True})
raising = app.agent("raising", agent_of(RAISES, leak), safety={"leak": "keyed"})


async def reading(lab: Lab, run: str, seen: list[str]) -> None:
    """Read a run's stream to its end, and let the model go on once it has said half of it."""
    async for part in Client(lab.store).stream(run):
        seen.append(f"{part.kind} {part.body!r}")
        if part.kind == PartKind.TEXT.word and "It is" in str(part.body):
            GO_ON[0].set()


def test_it_is_in_no_byte(place: Place, moment: Moment, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not in the database, in no blob, stream or log; what a person was asked shows a mark, and so does what the model got."""
    forget(SCRIPT)
    SAID.clear()
    GO_ON[:] = [asyncio.Event()]
    seen: list[str] = []
    store = place.open()

    async def check(lab: Lab) -> None:
        run = await lab.start(careless, "go")
        looking = asyncio.create_task(reading(lab, run.name, seen))
        await lab.settle()
        for wait in await lab.waits(run):
            assert MARK in str(wait.show)
            seen.append(str(wait.show))
            await lab.approve(wait, by="ada")
        assert await lab.result(run) == f"I used {MARK}."
        await asyncio.wait_for(looking, PATIENCE_SECONDS)
        failing = await lab.start(raising, "go")
        await lab.settle()
        seen.extend(str(message.parts) for asked in SCRIPT.requests for message in asked.messages)
        seen.extend([repr(await Client(lab.store).show(name)) for name in (run.name, failing.name)])
        seen.append(repr(await Client(lab.store).inbox()))

    with caplog.at_level(logging.DEBUG, "torpor"):
        on(store, moment, app, check, secrets={"token": CANARY})
    found = [*seen, *(JsonLines().format(record) + record.getMessage() for record in caplog.records)]
    assert leaks(text.encode("utf-8", "surrogatepass") for text in found) == []
    assert any(MARK in text for text in seen)
    kept = list(every_byte(place, store, tmp_path))
    assert any(MARK.encode() in body for body in kept)
    assert leaks(kept) == []


def leaks(bodies: Iterable[bytes]) -> list[bytes]:
    """Return what of these bodies has a piece of the secret in it."""
    return [body[:300] for body in bodies if any(piece.encode() in body for piece in PIECES)]


def every_byte(place: Place, store: Store, folder: Path) -> Iterator[bytes]:
    """Yield everything that a database holds: its files as they are, each value of each table, each blob unpacked."""
    if place.on_server:
        found = place.admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (place.schema,))
        for (table,) in found.fetchall():
            with place.admin.cursor().copy(f"COPY {place.schema}.{table} TO STDOUT (FORMAT binary)".encode()) as copy:
                yield b"".join(bytes(piece) for piece in copy)
        blobs = place.admin.execute("SELECT body FROM blobs").fetchall()
        yield from (decompress(bytes(body)) for (body,) in blobs)
        return
    if place.kind == "sqlite":
        yield from (path.read_bytes() for path in folder.iterdir() if path.is_file())
    yield from store.transact_now(values_of)


def values_of(tx: Tx) -> list[bytes]:
    """Return each value of each table of a file, blobs unpacked."""
    connection, found = raw(tx), []
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - a table of its own
            found += [value if isinstance(value, bytes) else str(value).encode() for value in row]
    found += [decompress(body) for (body,) in connection.execute("SELECT body FROM blobs").fetchall()]
    return found
