"""Where a host says that it takes a snapshot of this worker: a unix socket of the worker's user, a line there and a line back.

| it says | and hears | which means |
|---|---|---|
| `before` | `ready` | nothing acts and nothing is unrecorded: take the snapshot now |
| | `refused: WHY` | an effect still acts; take none, the worker goes on |
| `after`, `after KIND`, `after KIND SECONDS` | `open` | all phases are done; the worker acts where its lease is its own |
| | `shut: WHY` | a callback failed; the worker tries again, and ends after a time |
| `none` | `open` | no snapshot was taken after all, and nothing happened |

KIND is one of `rouse.Kind`, `copied` unless it is said. Whoever may write there is believed. What is none of these lines is
refused. The same in the process itself: `rouse.before_snapshot()`, `rouse.after_restore()` and `rouse.no_snapshot()`, in any
thread but the worker's loop.

`before` is answered one at a time. One that is refused opens the gate again before the next one begins, so that no `ready` is
said with a gate that somebody else has opened.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import socket
import stat
import threading
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from torpor import rouse
from torpor.errors import UsageError
from torpor.rouse.snapshot import SNAPSHOT
from torpor.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SAY_SECONDS = 10.0
"""Whoever says nothing for so long is let go."""
_MOST_BYTES = 1024
_AT_ONCE = 8
"""Hosts that are answered at one time; others wait for their turn."""


@asynccontextmanager
async def answering(path: str, opened: Callable[[], object]) -> AsyncIterator[None]:
    """Listen at `path`; nowhere if it is empty. `opened` is called on the loop when the gate may be open again.

    Raises UsageError if nobody may listen there.
    """
    if not path:
        yield
        return

    threads, before = Threads(_AT_ONCE, "torpor-snapshot"), threading.Lock()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve(reader, writer, threads, before)
        opened()

    try:
        listening, own = _bound(path)
        server = await asyncio.start_unix_server(serve, sock=listening, limit=_MOST_BYTES)
    except OSError as error:
        why = "another process listens there" if error.errno == errno.EADDRINUSE else error.strerror or error
        message = f"TORPOR_SNAPSHOT_SOCKET {path} cannot be listened at: {why}"
        raise UsageError(message, hint="a path in a folder that is there, another one for each worker") from error
    try:
        yield
    finally:
        server.close()
        threads.shutdown()
        with suppress(OSError):
            if _identity(path) == own:
                os.unlink(path)  # noqa: PTH108 - one call, on the loop


def _bound(path: str) -> tuple[socket.socket, tuple[int, int]]:
    """Return a socket that is bound to `path`, and what the file there is. Takes the place of a listener that is gone.

    Raises OSError: somebody listens there, something else is there, or nothing can be.
    """
    listening = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.stat(path).st_mode) and not _listens(path):  # noqa: PTH116 - as a string, for errors
                os.unlink(path)  # noqa: PTH108 - as above
        usual = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(usual)
        return listening, _identity(path)
    except BaseException:
        listening.close()
        raise


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(0)  # one whose queue is full listens, too
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            return True
        return True


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - one call, on the loop
    return found.st_dev, found.st_ino


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, threads: Threads, before: threading.Lock
) -> None:
    with suppress(OSError, TimeoutError):
        try:
            async with asyncio.timeout(SAY_SECONDS):
                words = (await reader.readline()).decode("utf-8", "replace").split()
        except ValueError:
            said = f"refused: a line of more than {_MOST_BYTES} bytes"
        else:  # it waits for the loop, which must go on, or for callbacks, for which the process's end must not wait
            said = await asyncio.get_running_loop().run_in_executor(threads, partial(_answer, words, before))
        writer.write(said.replace("\n", " ").encode() + b"\n")
        await writer.drain()
    writer.close()


def _answer(words: list[str], before: threading.Lock) -> str:
    match words:
        case ["before"]:
            with before:
                return _before()
        case ["none"]:
            rouse.no_snapshot()
            return "open"
        case ["after"]:
            return _after(rouse.Kind.COPIED, 0.0)
        case ["after", kind, *seconds] if kind in set(rouse.Kind) and len(seconds) <= 1:
            away_seconds = _seconds(seconds[0]) if seconds else 0.0
            if away_seconds is not None:
                return _after(rouse.Kind(kind), away_seconds)
    return f"refused: before | none | after [{'|'.join(rouse.Kind)}] [SECONDS], not {' '.join(words)[:100]!r}"


def _seconds(said: str) -> float | None:
    """Return a time that may have passed, or None: neither negative nor without end."""
    try:
        seconds = float(said)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _before() -> str:
    try:
        rouse.before_snapshot()
    except Exception as error:  # noqa: BLE001 - an author's function, too: whatever it is, no snapshot may be taken
        rouse.no_snapshot()
        return f"refused: {error}"
    if not rouse.process_registry.is_closed_for(SNAPSHOT):
        return "refused: it was called off: somebody opened the gate meanwhile"
    return "ready"


def _after(kind: rouse.Kind, away_seconds: float) -> str:
    try:
        rouse.after_restore(kind=kind, away_seconds=away_seconds)
    except rouse.RousalFailed as failed:
        return f"shut: {failed.message}"
    except Exception as error:  # noqa: BLE001 - the worker meets it too, says it and does not act
        return f"shut: the look at the clocks failed: {error!r}"
    return "open"
