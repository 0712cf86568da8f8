"""Where a host speaks: one worker at one place, and an answer to every line."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.errors import UsageError
from torpor.worker import snapshot_door
from torpor.worker.snapshot_door import answering

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def door() -> Iterator[Path]:
    """Return a place for a socket: a path must be short there."""
    with TemporaryDirectory() as folder:
        yield Path(folder) / "door"


async def willing() -> str:
    """Be a worker of which a snapshot may be taken."""
    return ""


async def said(door: Path, line: bytes) -> str:
    """Say a line, and return the answer."""
    reader, writer = await asyncio.open_unix_connection(str(door))
    writer.write(line)
    answer = await reader.readline()
    writer.close()
    return answer.decode().strip()


def mode(door: Path) -> int:
    """Return who may speak there."""
    return door.stat().st_mode & 0o777


def taken(door: Path) -> None:
    """Take the path away from whoever listens there."""
    door.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(door))


def test_two_workers_do_not_listen_at_one_place(door: Path) -> None:
    """The second one is told so; the first one's place is not taken."""

    async def check() -> None:
        async with answering(str(door), lambda: None, willing):
            with pytest.raises(UsageError, match="another process listens there"):
                await answering(str(door), lambda: None, willing).__aenter__()
            assert await said(door, b"none\n") == "open"

    asyncio.run(check())
    assert not door.exists()


def test_the_place_of_one_that_is_gone_is_taken(door: Path) -> None:
    """A worker that was killed leaves its socket behind. Only its user may speak."""
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(door))

    async def check() -> None:
        async with answering(str(door), lambda: None, willing):
            assert mode(door) == 0o600
            assert await said(door, b"none\n") == "open"

    asyncio.run(check())


def test_of_two_that_find_a_dead_listener_one_takes_its_place(door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they come between each other: a worker whose socket were gone would never hear of a snapshot."""
    looked, other_listens, both = threading.Event(), threading.Event(), threading.Barrier(2, timeout=PATIENCE_SECONDS)
    listens = snapshot_door._listens  # noqa: SLF001 - the moment between the look and what follows from it

    def slowly(path: str) -> bool:
        found = listens(path)
        if not looked.is_set():
            looked.set()
            other_listens.wait(timeout=0.5)  # it comes between now, if it can
        return found

    async def listen() -> str:
        async with answering(str(door), lambda: None, willing):
            other_listens.set()
            await asyncio.to_thread(both.wait)
            return "listens"

    def work() -> str:
        try:
            return asyncio.run(listen())
        except UsageError:
            both.wait()
            return "is told"

    monkeypatch.setattr(snapshot_door, "_listens", slowly)
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(door))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(work)
        looked.wait(PATIENCE_SECONDS)
        second = pool.submit(work)
        assert sorted([first.result(), second.result()]) == ["is told", "listens"]


def test_what_is_no_socket_stays(door: Path) -> None:
    """A file in the way is not removed."""
    door.write_text("kept", encoding="utf-8")

    async def check() -> None:
        with pytest.raises(UsageError, match="cannot be listened at"):
            await answering(str(door), lambda: None, willing).__aenter__()

    asyncio.run(check())
    assert door.read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize(
    ("name", "why"), [("a file", "is not a socket"), ("", "is not a socket"), ("x" * 200, "the path has")]
)
def test_the_reason_is_the_true_one(tmp_path: Path, name: str, why: str) -> None:
    """Nobody listens there: it is a file, a folder, or longer than a path of a socket may be."""
    (tmp_path / "a file").write_text("kept", encoding="utf-8")

    async def check() -> None:
        with pytest.raises(UsageError, match=f"{why}.*\n.*at most 107 bytes"):
            await answering(str(tmp_path / name), lambda: None, willing).__aenter__()

    asyncio.run(check())


def test_the_end_removes_no_other_ones_socket(door: Path) -> None:
    """Somebody took the path away and listens there now."""

    async def check() -> None:
        async with answering(str(door), lambda: None, willing):
            taken(door)

    asyncio.run(check())
    assert door.is_socket()


@pytest.mark.parametrize("seconds", [b"nan", b"inf", b"-inf", b"-5", b"1e999", b"soon"])
def test_a_time_that_cannot_have_passed_is_refused(door: Path, seconds: bytes) -> None:
    """And nobody is told of a rousal."""

    async def check() -> None:
        async with answering(str(door), lambda: None, willing):
            assert (await said(door, b"after slept " + seconds + b"\n")).startswith("refused: before | none")

    asyncio.run(check())


@pytest.mark.parametrize("line", [b"", b"\n", b"before now\n", b"\xff\n", b"x" * 5000 + b"\n", b"x" * 5000])
def test_what_is_no_line_is_answered(door: Path, line: bytes) -> None:
    """Also one that is too long, with an end or without."""

    async def check() -> None:
        async with answering(str(door), lambda: None, willing):
            reader, writer = await asyncio.open_unix_connection(str(door))
            writer.write(line)
            if not line:
                writer.write_eof()
            assert (await reader.readline()).startswith(b"refused: ")
            writer.close()

    asyncio.run(check())
