"""Life locks: what holding one proves, and what obtaining somebody else's proves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conformance.world import WORKER
from torpor.core.lease import Proof
from torpor.errors import StoreUnavailable
from torpor.store.life import host_identity
from torpor.store.rows import WorkerRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Place
    from torpor.store.protocol import Store

_HOLDER = """
import os, sys
from torpor.store.opening import open_store
store = open_store(sys.argv[1])
lock = store.life_lock("w")
assert lock.held()
child = 0
if sys.argv[2] == "forks":
    child = os.fork()
    if child == 0:
        lock.held()
        sys.stdin.read()
        os._exit(0)
print(lock.name, child, flush=True)
sys.stdin.read()
"""


def _worker(life: str, host: str = "") -> WorkerRow:
    return WorkerRow(1, WORKER.name, host or host_identity(), 1, life, 0, 0, "[]")


def test_a_held_lock_proves_nothing_to_others(store: Store) -> None:
    """It is held until it is released; then whoever looks knows."""
    lock = store.life_lock("w")
    assert lock.held()
    assert lock.held()
    assert store.prove_death(_worker(lock.name)) is Proof.NONE
    assert store.prove_death(_worker(lock.name, "elsewhere")) is Proof.NONE
    lock.release()
    assert not lock.held()
    assert store.prove_death(_worker(lock.name)) is Proof.PROCESS_GONE
    lock.release()


def test_a_lock_of_another_host_proves_less(direct: Place) -> None:
    """Only the server's lock can be obtained from elsewhere: the process may live. A file proves nothing from afar."""
    store = direct.open()
    lock = store.life_lock("w")
    lock.release()
    assert store.prove_death(_worker(lock.name, "elsewhere")) is Proof.LOCK_GONE


@pytest.mark.parametrize("forks", ["stays", "forks"])
def test_sigkill_proves_death(shared: Place, forks: str) -> None:
    """The process that held it is gone, even if a child that it forked lives on."""
    store = shared.open()
    command = [sys.executable, "-W", "ignore", "-c", _HOLDER, shared.url, forks]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        name, child = holder.stdout.readline().split()
        assert store.prove_death(_worker(name)) is Proof.NONE
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert store.prove_death(_worker(name)) is Proof.PROCESS_GONE
        if child != "0":
            os.kill(int(child), 0)
            holder.stdin.close()  # lets the child end


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_copy_cannot_prove_that_it_holds_the_lock(store: Store) -> None:
    """A child, made past every hook, has the same memory and file, and is not the holder; the parent still is."""
    lock = store.life_lock("w")
    assert lock.held()
    child = os.fork()
    if child == 0:
        os._exit(1 if lock.held() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lock.held()
    lock.release()


def test_a_lock_whose_connection_broke_is_not_held(direct: Place) -> None:
    """The server let go, so somebody else may have it: the worker must stop."""
    store = direct.open()
    lock = store.life_lock("w")
    direct.cut()
    assert not lock.held()
    assert not lock.held()
    lock.release()


def test_a_server_found_again_has_just_started(direct: Place) -> None:
    """After a failover nobody is thought dead for a while: `started_at` is when the server was found again."""
    store = direct.postgres()
    assert store.started_at == 0
    direct.cut()
    with pytest.raises(StoreUnavailable):
        _ = store.started_at
    assert store.started_at == direct.moment.at


def test_a_file_does_not_start(make_place: Callable[[str], Place]) -> None:
    """Nobody waits for a file to come up."""
    assert make_place("sqlite").open().started_at == 0
