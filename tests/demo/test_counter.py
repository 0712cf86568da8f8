"""The counting service, as a process: it counts everything, and holds what it is told to hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from torpor.demo import asking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Counter:
    """A running service."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Wait until it listens."""
        self._process = process
        self.port = int(self.says()["port"])

    def says(self) -> dict[str, Any]:
        """Return the next thing it says."""
        assert self._process.stdout is not None
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said


@contextmanager
def running(place: Path, parent: int) -> Iterator[Counter]:
    """Run a service that counts into a file."""
    command = [sys.executable, "-P", "-m", "torpor.demo.counter", str(place), str(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Counter(process)
        finally:
            process.kill()


@pytest.mark.slow
def test_it_counts_and_never_dedups(tmp_path: Path) -> None:
    """The same key twice is two, in its answers and in its file; a receipt tells how often its key came."""
    with running(tmp_path / "counts", os.getpid()) as counter:
        assert [asking.publish(counter.port, key, "a") for key in ("k", "other", "k")] == [1, 2, 3]
        assert [asking.confirm(counter.port, receipt) for receipt in (1, 2, 9)] == [2, 1, 0]
        expected = {"k": {"name": "a", "receipts": [1, 3]}, "other": {"name": "a", "receipts": [2]}}
        assert asking.counts(counter.port) == expected
    lines = [json.loads(line)["key"] for line in (tmp_path / "counts").read_text().splitlines()]
    assert lines == ["k", "other", "k"]


@pytest.mark.slow
def test_it_holds_an_answer_after_it_counted(tmp_path: Path) -> None:
    """The second publication is counted and unanswered until it is released; others are answered meanwhile."""
    with running(tmp_path / "counts", os.getpid()) as counter:
        port = counter.port
        asking.hold(port, publish=2)
        assert asking.publish(port, "a", "a") == 1
        answered: list[int] = []
        asker = threading.Thread(target=lambda: answered.append(asking.publish(port, "b", "b")))
        asker.start()
        assert counter.says() == {"event": "held", "kind": "publish", "number": 2, "receipt": 2, "key": "b"}
        assert asking.publish(port, "c", "c") == 3
        assert set(asking.counts(port)) == {"a", "b", "c"}
        assert answered == []
        asking.release(port)
        asker.join()
        assert answered == [2]


@pytest.mark.slow
def test_unknown_questions_are_refused(tmp_path: Path) -> None:
    """What it does not know it says."""
    with running(tmp_path / "counts", os.getpid()) as counter, pytest.raises(OSError, match="answered 404 to GET"):
        asking.confirm(counter.port, -1)


def test_it_does_not_outlive_its_parent(tmp_path: Path) -> None:
    """Started for a parent that is gone already, it ends at once."""
    command = [sys.executable, "-P", "-m", "torpor.demo.counter", str(tmp_path / "counts"), "1"]
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 1


def test_a_service_that_is_gone_is_an_error() -> None:
    """Nobody listens: an OSError, which makes a `once` effect unknown and a step try again."""
    with pytest.raises(OSError, match="refused"):
        asking.publish(1, "k", "n")
