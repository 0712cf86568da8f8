"""A host takes a snapshot of a worker: no effect is in it, and both copies could go on.

A worker process acts on a service that holds its answer. The host says that it is about to take a snapshot: it must wait
until the act is over and recorded, or be refused; meanwhile nothing new begins. A snapshot with an act in it would be two acts.
"""

from __future__ import annotations

import re
import socket
import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.core.run import State

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cases.world import Member, World

FROZEN = "after frozen 0.5"


def said(door: Path, line: str) -> str:
    """Say a line at a worker's door, and return what it answers."""
    with socket.socket(socket.AF_UNIX) as speaking:
        speaking.settimeout(PATIENCE_SECONDS)
        speaking.connect(str(door))
        speaking.sendall(line.encode() + b"\n")
        with speaking.makefile() as heard:
            return heard.readline().strip()


class Saying:
    """Somebody who says a line and waits for the answer, beside the test."""

    def __init__(self, door: Path, line: str) -> None:
        """Say it."""
        self._answer: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: self._answer.set_result(said(door, line)))
        self._thread.start()

    @property
    def answered(self) -> bool:
        """Whether the answer came."""
        return self._answer.done()

    def answer(self) -> str:
        """Wait for the answer."""
        self._thread.join(PATIENCE_SECONDS)
        return self._answer.result(0)


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where workers listen for their host."""
    door = tmp_path / "door"
    monkeypatch.setenv("TORPOR_SNAPSHOT_SOCKET", str(door))
    return door


def at_work(world: World, run: str = "acts", state: object = 1) -> tuple[Member, int]:
    """Return a worker that is in the middle of a run's call, and the run."""
    worker = world.worker("resting")
    number = world.start(run, state)
    world.outside.next("act" if run == "acts" else "look")
    return worker, number


@pytest.mark.slow
def test_a_snapshot_waits_until_what_acts_is_recorded(world: World, door: Path) -> None:
    """Nothing is claimed and no effect begins meanwhile; after the restore all phases run, and everything goes on."""
    world.outside.hold("act")
    worker, run = at_work(world, state=2)
    snapshot = Saying(door, "before")
    world.until(lambda: said(door, "before again").startswith("refused: before | none"), "the door is open")
    other = world.start("acts", 1)
    assert not snapshot.answered
    world.outside.next("act").answer()
    assert snapshot.answer() == "ready"
    entries = [(line.kind, line.key) for line in world.journal(run)]
    assert ("outcome", "charge#1") in entries, "what acted is recorded"
    assert ("outcome", "charge#2") not in entries
    assert world.run(other).state is State.READY, "nothing was claimed"
    assert len(world.outside.all("act")) == 1, "nothing began"
    worker.freeze()  # here the host takes its snapshot
    worker.thaw()
    world.outside.free("act")
    assert said(door, FROZEN) == "open"
    assert world.result(run) == 2
    assert world.result(other) == 1
    assert len(world.outside.all("act")) == 3
    assert [call.said["kind"] for call in world.outside.all("roused")] == ["frozen"]
    assert " quiet   hint=" in worker.log


@pytest.mark.slow
def test_a_snapshot_is_refused_while_an_effect_acts(world: World, door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time the host is told so, by the run's name, and the worker goes on as if nobody had asked."""
    monkeypatch.setenv("TORPOR_SNAPSHOT_SECONDS", "0.2")
    world.outside.hold("act")
    worker, run = at_work(world)
    answer = said(door, "before")
    assert answer.startswith("refused: after 0.2 s effects of acts-")
    assert answer.endswith("still act: take no snapshot now, the worker goes on")
    other = world.start("acts", 1)
    second = world.outside.next("act", 2)
    world.outside.free("act")
    assert second.pid == worker.pid
    assert (world.result(run), world.result(other)) == (1, 1)
    assert world.outside.all("roused") == [], "nothing happened, and no connection was dropped"


@pytest.mark.slow
def test_a_step_that_waits_does_not_hold_up_a_snapshot(world: World, door: Path) -> None:
    """It is repeatable: its result is recorded after the restore, under the lease that it has."""
    world.outside.hold("look")
    _, run = at_work(world, "looks", None)
    assert said(door, "before") == "ready"
    world.outside.free("look")
    assert said(door, "after copied 3600") == "open"
    assert world.result(run) == "seen"
    assert {line.epoch for line in world.journal(run)} == {1}
    assert [call.said["kind"] for call in world.outside.all("roused")] == ["copied"]


@pytest.mark.slow
def test_a_snapshot_that_was_not_taken_is_no_event(world: World, door: Path) -> None:
    """The gate opens as it closed: nobody is told of a rousal, as often as it is tried."""
    worker = world.worker("resting")
    for number in range(1, 4):
        assert said(door, "before") == "ready"
        run = world.start("acts", 1)
        world.until(partial(lambda number: worker.log.count(" shut   why=") == number, number), "it looked in vain")
        assert world.outside.all("act") == world.outside.all("act")[: number - 1]
        assert said(door, "none") == "open"
        assert world.result(run) == 1
    assert world.outside.all("roused") == []


@pytest.mark.slow
def test_a_worker_whose_host_forgets_it_ends(world: World, door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate stays shut for no longer than it may: then another worker has its runs, and the log says why (G13)."""
    monkeypatch.setenv("TORPOR_SHUT_SECONDS", "0.5")
    world.outside.hold("look")
    worker, run = at_work(world, "looks", None)
    assert said(door, "before") == "ready"
    assert worker.process.wait(PATIENCE_SECONDS) != 0
    assert re.search(r"its gate was shut for \d\.\d s: the gate is closed: a snapshot is being taken", worker.log)
    world.outside.free("look")
    world.worker("resting", name="w1")
    assert world.result(run) == "seen"


@pytest.mark.slow
def test_what_is_no_line_is_refused(world: World, door: Path) -> None:
    """Nobody closes a gate by mistake; only the worker's own user may speak."""
    world.worker("resting")
    seconds = "soon", "1 2", "nan", "inf", "-5", "1e999"
    for line in ("", "before now", "after lunch", *(f"after slept {each}" for each in seconds), "x" * 2000):
        assert said(door, line).partition(":")[0] == "refused", line
    assert door.stat().st_mode & 0o777 == 0o600
    run = world.start("acts", 1)
    assert world.result(run) == 1
