"""The turnstile: one at a time, and whoever waits is next."""

from __future__ import annotations

import subprocess
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from tests.patience import PATIENCE_SECONDS
from torpor.store.sqlite.turnstile import Turnstile

if TYPE_CHECKING:
    from pathlib import Path

_GREEDY = """
import sys
from tests.patience import PATIENCE_SECONDS
from torpor.store.sqlite.turnstile import Turnstile
turnstile = Turnstile(sys.argv[1])
turns = 0
while True:
    with turnstile:
        turns += 1
        if turns == 1:
            print("in", flush=True)
"""


def test_a_free_turnstile_is_not_waited_for(tmp_path: Path) -> None:
    """It says whether anybody was there."""
    turnstile = Turnstile(str(tmp_path / "db"))
    for _ in range(3):
        with turnstile:
            assert not turnstile.waited
    turnstile.close()


def test_one_at_a_time(tmp_path: Path) -> None:
    """Connections of one process queue as well: each opened the files for itself."""
    first, second = Turnstile(str(tmp_path / "db")), Turnstile(str(tmp_path / "db"))
    order: SimpleQueue[str] = SimpleQueue()

    def enter() -> None:
        with second:
            order.put("second")

    with first:
        waiting = threading.Thread(target=enter)
        waiting.start()
        order.put("first")
    waiting.join(PATIENCE_SECONDS)
    assert (order.get(timeout=PATIENCE_SECONDS), order.get(timeout=PATIENCE_SECONDS)) == ("first", "second")
    first.close()
    second.close()


def test_a_greedy_process_cannot_keep_others_out(tmp_path: Path) -> None:
    """A process that takes turn after turn, without a pause, lets each newcomer in: a hundred times it does."""
    command = [sys.executable, "-c", _GREEDY, str(tmp_path / "db")]
    turnstile = Turnstile(str(tmp_path / "db"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as greedy:
        assert greedy.stdout is not None
        assert greedy.stdout.readline() == "in\n"
        turns = waited = 0
        while turns < 100 or not waited:  # until it was met at the turnstile, however the machine deals out its time
            with turnstile:
                turns, waited = turns + 1, waited + turnstile.waited
        greedy.kill()
    turnstile.close()
