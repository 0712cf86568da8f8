"""A process that is frozen while it has the turn to write: nobody waits for ever, and everybody is told who it is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.client import Client
from torpor.errors import StoreUnavailable
from torpor.store.opening import open_store
from torpor.store.protocol import Lane
from torpor.store.sqlite import SqliteStore
from torpor.store.sqlite.turnstile import Turnstile, freeze, holder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torpor.store.protocol import Tx

_HOLDER = """
import sys
from torpor.store.sqlite.turnstile import Turnstile
with Turnstile(sys.argv[1]):
    print("in", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Return a store that waits a moment for its turn."""
    opened = open_store(str(tmp_path / "torpor.db"))
    assert isinstance(opened, SqliteStore)
    opened.wait_seconds = 0.1
    yield opened
    opened.close_now()


@pytest.fixture
def frozen(store: SqliteStore) -> Iterator[subprocess.Popen[str]]:
    """Return a process that has the turn and is stopped."""
    command = [sys.executable, "-c", _HOLDER, store.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        yield process
        process.kill()


@pytest.mark.slow
def test_whoever_waits_for_a_frozen_process_is_told(store: SqliteStore, frozen: subprocess.Popen[str]) -> None:
    """Who it is, that it is stopped, and what to do; so are those behind. What was given up is not done later."""
    done: list[str] = []

    def write(tx: Tx, who: str) -> None:
        done.append(who)
        tx.put_meta(who, "yes")

    async def three() -> list[BaseException | None]:
        waiting = [store.transact(write, who) for who in ("first", "second")]
        renewal = asyncio.to_thread(store.transact_now, write, "renewal", lane=Lane.RENEW)
        return await asyncio.gather(*waiting, renewal, return_exceptions=True)

    for error in asyncio.run(three()):
        assert isinstance(error, StoreUnavailable)
        assert f"pid {frozen.pid} has it, which is stopped" in error.message
        assert f"kill -CONT {frozen.pid}" in error.hint
        assert not error.answer_lost
    assert holder(store.path) == (frozen.pid, True)
    assert store.transact_now(lambda tx: tx.get_meta("first"), lane=Lane.READ) is None, "reading needs no turn"
    store.wait_seconds = PATIENCE_SECONDS
    frozen.send_signal(signal.SIGCONT)
    assert frozen.stdin is not None
    frozen.stdin.close()
    frozen.wait()
    for lane in (Lane.WORK, Lane.RENEW):
        store.transact_now(write, f"again {lane.name}", lane=lane)
    assert done == ["again WORK", "again RENEW"]


@pytest.mark.slow
def test_the_doctor_names_it(store: SqliteStore, frozen: subprocess.Popen[str]) -> None:
    """It needs no turn itself."""
    lines = asyncio.run(Client(store).doctor()).lines
    assert (lines[0].level, lines[0].subject) == ("error", "store")
    assert f"pid {frozen.pid} is stopped while it has the turn" in lines[0].text
    assert lines[0].hint.startswith(f"kill -CONT {frozen.pid}, or kill -KILL")


@pytest.mark.slow
def test_a_store_that_waits_can_be_closed(store: SqliteStore, frozen: subprocess.Popen[str]) -> None:
    """A command that was told so must be able to end, although a thread of it still waits for the kernel."""
    with pytest.raises(StoreUnavailable, match=str(frozen.pid)):
        store.transact_now(lambda tx: tx.put_meta("k", "v"))
    store.close_now()


def test_nobody_has_a_free_turn(tmp_path: Path) -> None:
    """The holder is who has it now; before the first there are no files."""
    path = str(tmp_path / "db")
    assert holder(path) is None
    turnstile = Turnstile(path)
    with turnstile:
        assert holder(path) == (os.getpid(), False)
    assert holder(path) is None
    turnstile.close()


_NEXT = """
import fcntl, os, sys
a = os.open(sys.argv[1] + ".turn-a", os.O_RDWR | os.O_CREAT)
fcntl.flock(a, fcntl.LOCK_EX)
print("next", flush=True)
sys.stdin.readline()
fcntl.flock(a, fcntl.LOCK_UN)
print("through", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_freeze_for_show_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Whoever is next in the queue is seen too, and `freeze` stops it only once it is through."""
    path = str(tmp_path / "db")
    Turnstile(path).close()
    command = [sys.executable, "-c", _NEXT, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "next\n"
        assert holder(path) == (process.pid, False)
        process.stdin.write("\n")
        process.stdin.flush()
        freeze(process.pid, path)
        assert holder(path) is None
        with Turnstile(path):
            process.kill()
