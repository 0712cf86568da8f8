"""Where a host says that it takes a snapshot of this worker: a unix socket of the worker's user, a line there and a line back.

| it says | and hears | which means |
|---|---|---|
| `before` | `ready` | nothing acts and nothing is unrecorded: take the snapshot now |
| | `refused: WHY` | an effect still acts; take none, the worker goes on |
| `after`, `after KIND`, `after KIND SECONDS` | `open` | all phases are done; the worker acts where its lease is its own |
| | `shut: WHY` | a callback failed; the worker tries again, and ends after a time |
| `none` | `open` | no snapshot was taken after all, and nothing happened |

KIND is one of `rouse.Kind`, `copied` unless it is said. Whoever may write there is believed. The same in the process itself:
`rouse.before_snapshot()`, `rouse.after_restore()` and `rouse.no_snapshot()`, in any thread but the worker's loop.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from torpor import rouse
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SAY_SECONDS = 10.0
"""Whoever says nothing for so long is let go."""
_MOST_BYTES = 1024


@asynccontextmanager
async def answering(path: str, opened: Callable[[], object]) -> AsyncIterator[None]:
    """Listen at `path`; nowhere if it is empty. `opened` is called on the loop when the gate may be open again.

    Raises UsageError if nobody may listen there.
    """
    if not path:
        yield
        return

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve(reader, writer)
        opened()

    usual = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(serve, path, limit=_MOST_BYTES)
    except OSError as error:
        message = f"TORPOR_SNAPSHOT_SOCKET {path} cannot be listened at: {error.strerror or error}"
        raise UsageError(message, hint="a path in a folder that is there, another one for each worker") from error
    finally:
        os.umask(usual)
    try:
        yield
    finally:
        server.close()
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - one call, on the loop


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(SAY_SECONDS):
            words = (await reader.readline()).decode("utf-8", "replace").split()
        said = await asyncio.to_thread(_answer, words)  # it waits for the loop, which must go on
        writer.write(said.replace("\n", " ").encode() + b"\n")
        await writer.drain()
    writer.close()


def _answer(words: list[str]) -> str:
    match words:
        case ["before"]:
            return _before()
        case ["none"]:
            rouse.no_snapshot()
            return "open"
        case ["after"]:
            return _after(rouse.Kind.COPIED, 0.0)
        case ["after", kind, *seconds] if kind in set(rouse.Kind) and len(seconds) <= 1:
            try:
                return _after(rouse.Kind(kind), float(seconds[0]) if seconds else 0.0)
            except ValueError:
                pass
    return f"refused: before | none | after [{'|'.join(rouse.Kind)}] [SECONDS], not {' '.join(words)[:100]!r}"


def _before() -> str:
    try:
        rouse.before_snapshot()
    except Exception as error:  # noqa: BLE001 - an author's function, too: whatever it is, no snapshot may be taken
        rouse.no_snapshot()
        return f"refused: {error}"
    return "ready"


def _after(kind: rouse.Kind, away_seconds: float) -> str:
    try:
        rouse.after_restore(kind=kind, away_seconds=away_seconds)
    except rouse.RousalFailed as failed:
        return f"shut: {failed.message}"
    return "open"
