"""Where a host says that it takes a snapshot of this worker: a unix socket of the worker's user, a line there and a line back.

| it says | and hears | which means |
|---|---|---|
| `before` | `ready` | nothing acts and nothing is unrecorded: take the snapshot now |
| | `refused: WHY` | an effect still acts, or the worker was away, or ends; take none, the worker goes on |
| `after`, `after KIND`, `after KIND SECONDS` | `open` | all phases are done; the worker acts where its lease is its own |
| | `shut: WHY` | a callback failed; the worker tries again, and ends after a time |
| `none` | `open` | no snapshot was taken after all, and nothing happened |

KIND is one of `rouse.Kind`, `copied` unless it is said. Whoever may write there is believed. What is none of these lines is
refused. The same in the process itself: `rouse.before_snapshot()`, `rouse.after_restore()` and `rouse.no_snapshot()`, in any
thread but the worker's loop.

`before` is answered one at a time, once the worker has started. One that is refused opens the gate again before the next one
begins, so that no `ready` is said with a gate that somebody else has opened. `none` and `after` refuse whoever waits: the
snapshot that those asked for is off, or over. A host that hung up is not served, and a `ready` that nobody hears is none.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import math
import os
import select
import socket
import stat
import sys
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from torpor import rouse
from torpor.errors import UsageError
from torpor.rouse.detectors.host import MOST_PATH_BYTES
from torpor.rouse.snapshot import SNAPSHOT
from torpor.worker.threads import Threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

T = TypeVar("T")

SAY_SECONDS = 10.0
"""Whoever says nothing for so long is let go."""
_MOST_BYTES = 1024
AT_ONCE = 8
"""Hosts that are answered at one time; others wait for their turn. Of those that say `before` it is one."""
_HINT = (
    f"a path of at most {MOST_PATH_BYTES} bytes, in a folder that is there, where nothing but a socket is; "
    "another one for each worker"
)
CALLED_OFF = "refused: it was called off: somebody opened the gate meanwhile"


@asynccontextmanager
async def answering(
    path: str, opened: Callable[[], object], why_not: Callable[[], Awaitable[str]]
) -> AsyncIterator[None]:
    """Listen at `path`; nowhere if it is empty. `opened` is called on the loop when the gate may be open again.

    `why_not` waits until the worker can answer a `before`, and says why it takes none, or nothing.

    Raises UsageError if nobody may listen there.
    """
    if not path:
        yield
        return

    door = Door(opened, why_not)
    try:
        listening, own = await _alone_at(path)
        server = await asyncio.start_unix_server(door.serve, sock=listening, limit=_MOST_BYTES)
    except OSError as error:
        message = f"TORPOR_SNAPSHOT_SOCKET {path} cannot be listened at: {error.strerror or error}"
        raise UsageError(message, hint=_HINT) from error
    try:
        yield
    finally:
        with suppress(OSError):
            if _identity(path) == own:
                os.unlink(path)  # noqa: PTH108 - one call, on the loop; while it listens nobody else takes the place
        server.close()
        door.shut()


async def _alone_at(path: str) -> tuple[socket.socket, tuple[int, int]]:
    """Return what `_bound` does, one process at a time: of two that find a dead listener none removes the other's socket."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # noqa: PTH120 - as a string, for errors
    try:
        await asyncio.to_thread(fcntl.flock, folder, fcntl.LOCK_EX)
        return _bound(path)
    finally:
        os.close(folder)


def _bound(path: str) -> tuple[socket.socket, tuple[int, int]]:
    """Return a socket that listens at `path`, and what the file there is. Takes the place of a listener that is gone.

    Raises OSError: somebody listens there, something else is there, or nothing can be.
    """
    length = len(os.fsencode(path))
    if length > MOST_PATH_BYTES:
        raise OSError(errno.ENAMETOOLONG, f"the path has {length} bytes")
    listening = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.stat(path).st_mode):  # noqa: PTH116 - as a string, for errors
                raise OSError(errno.ENOTSOCK, "what is there is not a socket")
            if _listens(path):
                raise OSError(errno.EADDRINUSE, "another process listens there")
            os.unlink(path)  # noqa: PTH108 - as above
        usual = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(usual)
        listening.listen()
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


class Door:
    """Answers hosts. Made on the worker's loop."""

    def __init__(self, opened: Callable[[], object], why_not: Callable[[], Awaitable[str]]) -> None:
        """As `answering`."""
        self._opened = opened
        self._why_not = why_not
        self._threads = Threads(AT_ONCE, "torpor-snapshot")
        self._turn = asyncio.Lock()
        self._called_off = 0

    def shut(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one host."""
        with suppress(OSError, TimeoutError):
            try:
                async with asyncio.timeout(SAY_SECONDS):
                    words = (await reader.readline()).decode("utf-8", "replace").split()
            except ValueError:
                said = f"refused: a line of more than {_MOST_BYTES} bytes"
            else:
                said = await self._said(words, writer)
            writer.write(said.replace("\n", " ").encode() + b"\n")
            await writer.drain()
        writer.close()
        self._opened()

    async def _said(self, words: list[str], writer: asyncio.StreamWriter) -> str:
        try:
            return await self.answer(words, partial(_hung_up, writer))
        except asyncio.CancelledError:  # the loop ends, and with it this task
            return "refused: the worker ended"

    async def answer(self, words: list[str], hung_up: Callable[[], bool] = lambda: False) -> str:
        """Return what is answered to a line, once it is known. `hung_up` says whether nobody waits for it any more."""
        match words:
            case ["before"]:
                return await self._before(hung_up)
            case ["none"]:
                self._called_off += 1
                await self._apart(rouse.no_snapshot)
                return "open"
            case ["after"]:
                return await self._after(rouse.Kind.COPIED, 0.0)
            case ["after", kind, *seconds] if kind in set(rouse.Kind) and len(seconds) <= 1:
                away_seconds = _seconds(seconds[0]) if seconds else 0.0
                if away_seconds is not None:
                    return await self._after(rouse.Kind(kind), away_seconds)
        return f"refused: before | none | after [{'|'.join(rouse.Kind)}] [SECONDS], not {' '.join(words)[:100]!r}"

    async def _before(self, hung_up: Callable[[], bool]) -> str:
        """Wait for one's turn on the loop, not in a thread: whoever says `none` needs one."""
        called_off = self._called_off
        async with self._turn:
            why = await self._why_not()
            if why or hung_up():
                return f"refused: {why or 'nobody hears it'}"
            if self._called_off != called_off:
                return CALLED_OFF
            said = await self._apart(_before)
            if said != "ready":
                return said
            if self._called_off != called_off:
                said = CALLED_OFF
            elif hung_up():
                said = "refused: nobody hears it"
            elif why := await self._why_not():
                said = f"refused: {why}"
            if said != "ready":
                await self._apart(rouse.no_snapshot)
            return said

    async def _after(self, kind: rouse.Kind, away_seconds: float) -> str:
        self._called_off += 1
        return await self._apart(partial(_after, kind, away_seconds))

    async def _apart(self, work: Callable[[], T]) -> T:
        """Do something in a thread: it waits for the loop, or for callbacks, for which the process's end must not wait."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _hung_up(writer: asyncio.StreamWriter) -> bool:
    """Whether nobody is at the other end any more. One that only says no more (`shutdown`) still hears."""
    if sys.platform != "linux":
        return False  # elsewhere the two may look the same
    number = writer.get_extra_info("socket").fileno()
    if number < 0:
        return True
    asking = select.poll()
    asking.register(number, 0)
    return any(what & select.POLLHUP for _, what in asking.poll(0))


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
    return "ready" if rouse.process_registry.is_closed_for(SNAPSHOT) else CALLED_OFF


def _after(kind: rouse.Kind, away_seconds: float) -> str:
    try:
        rouse.after_restore(kind=kind, away_seconds=away_seconds)
    except rouse.RousalFailed as failed:
        return f"shut: {failed.message}"
    except Exception as error:  # noqa: BLE001 - the worker meets it too, says it and does not act
        return f"shut: the look at the clocks failed: {error!r}"
    return "open"
