"""Somebody ticks: a thread, or the event loop. Real processes, real stops."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from tests.rouse.costing import TIMES
from torpor import rouse
from torpor.rouse import ticks
from torpor.rouse.detectors.outside import close, open_outside

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("watching.py")
STOPPED_SECONDS = 0.6


class Child:
    """A process that reports lines of JSON."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        """Begin to read."""
        self.process = process
        self._rest = b""

    def line(self) -> dict[str, Any]:
        """Wait for the next line."""
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            assert select.select([self.process.stdout], [], [], PATIENCE_SECONDS)[0]
            came = os.read(self.process.stdout.fileno(), 65536)
            assert came, "the process ended"
            self._rest += came
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))

    def until(self, key: str, value: object = None) -> dict[str, Any]:
        """Wait for a line with that key (and value); others are a crowded machine's own freezes."""
        while key not in (line := self.line()) or (value is not None and line[key] != value):
            pass
        return line

    def say(self, text: str) -> None:
        """Give it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def stop_for_a_while(self) -> None:
        """SIGSTOP, wait longer than its limit, SIGCONT."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        never, never_written = os.pipe()
        assert select.select([never], [], [], STOPPED_SECONDS)[0] == []  # the time it is stopped for
        os.close(never)
        os.close(never_written)
        self.process.send_signal(signal.SIGCONT)

    def until_frozen(self) -> dict[str, Any]:
        """Wait for the rousal of that stop."""
        while (line := self.until("kind", "frozen"))["away_seconds"] < STOPPED_SECONDS - 0.15:
            pass
        return line


def fail(_rousal: rouse.Rousal) -> None:
    """A callback that cannot do its part."""
    raise OSError("no network")


@contextmanager
def child(*arguments: str | Path, **environment: str) -> Iterator[Child]:
    """A process that ends when the block does."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


@pytest.mark.slow
def test_a_thread_notices_a_stop_a_word_of_the_host_and_a_copy(tmp_path: Path) -> None:
    """And goes on in the copy. It stops and starts again."""
    host = tmp_path / "generation"
    with child(SCRIPT, "thread", ROUSE_HOST_FILE=str(host)) as watched:
        pid = watched.until("ready")["ready"]
        watched.stop_for_a_while()
        rousal = watched.until_frozen()
        assert rousal["before"] != rousal["after"] == rousal["now"]
        (tmp_path / "new").write_text("generation 2")
        (tmp_path / "new").replace(host)
        rousal = watched.until("certain", value=True)
        assert (rousal["pid"], rousal["kind"]) == (pid, "copied")
        assert "generation 2" in rousal["evidence"][0]
        watched.say("fork")
        while (rousal := watched.until("kind", "copied"))["pid"] == pid:
            pass
        assert str(pid) in rousal["evidence"][0]
        assert watched.process.stdin is not None
        watched.process.stdin.close()
        assert watched.until("stopped") == {"stopped": True}
        assert watched.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_an_event_loop_notices_a_stop_and_not_that_it_blocked_itself(tmp_path: Path) -> None:
    """The thread beside it ran while the loop did not."""
    with child(SCRIPT, "loop", ROUSE_HOST_FILE=str(tmp_path / "generation")) as watched:
        watched.until("ready")
        watched.say("block")
        line = watched.until("blocked")
        assert line["blocked"], watched.line()
        watched.stop_for_a_while()
        assert watched.until_frozen()["now"]
        assert watched.process.stdin is not None
        watched.process.stdin.close()
        assert watched.until("stopped")
        assert watched.process.wait(PATIENCE_SECONDS) == 0


def test_what_a_detector_says_is_looked_at_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the next tick, which is an hour away."""
    monkeypatch.setenv("ROUSE_HOST_SOCKET", str(tmp_path / "host"))
    registry, told = rouse.Registry(), threading.Event()
    registry.on_rousal(lambda _: told.set(), kinds={rouse.Kind.ROLLED_BACK})
    watch = ticks.Watch(rouse.Limits(tick_seconds=3600.0), registry=registry)
    watch.start()
    watch.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.sendto(b'{"event": 1, "kind": "rolled_back"}', str(tmp_path / "host"))
    assert told.wait(PATIENCE_SECONDS)
    watch.stop()
    watch.stop()
    assert registry.detectors == ()
    assert not (tmp_path / "host").exists()


def test_a_failing_callback_is_logged_once_and_the_ticking_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The gate stays closed until it is mended, and nobody else is told."""
    registry = rouse.Registry()
    bad = registry.on_rousal(fail)
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=3600.0), registry=registry)
    with pytest.raises(rouse.RousalFailed):
        watcher.hear(rouse.Finding(rouse.Kind.COPIED, "by hand"))
    for _ in range(3):
        assert ticks.look(watcher) is None
    assert len(caplog.records) == 1
    bad.take_back()
    registry.mend()
    assert ticks.look(watcher) is None
    registry.detectors = (lambda _before, _now: [].pop(),)
    assert ticks.look(watcher) is None
    assert "tried again" in caplog.records[-1].message


def test_one_watch_for_the_process() -> None:
    """The same one each time; other limits are a mistake. The gate asks it."""
    watch = rouse.watch()
    try:
        assert rouse.watch() is watch
        with pytest.raises(ValueError, match="a watch ticks already"):
            rouse.watch(rouse.Limits(tick_seconds=7.0))
        assert rouse.pass_gate() == rouse.incarnation()
    finally:
        watch.stop()


class Still(ticks.Watch):
    """A watch that ticks, and whose thread does not get its turn."""

    @property
    def ticks(self) -> bool:
        """For the whole test."""
        return True


def test_a_block_that_ends_right_after_the_wake_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the watch's thread looks: the block itself does. What was before it does not count."""
    clocks, watch = ClocksByHand(), Still(registry=rouse.Registry())
    watch.watcher = clocks.watcher()
    monkeypatch.setattr(ticks, "_the_watch", [watch])
    clocks.suspend(3600.0)
    with rouse.uninterrupted():
        clocks.pass_time(1.0)
    with pytest.raises(rouse.Interrupted, match=r"(?s)slept, .*check before using it"), rouse.uninterrupted():
        clocks.suspend(3600.0)


def test_after_its_end_a_watch_may_begin_with_other_limits() -> None:
    """A stopped one holds nobody to its limits, and the gate does not ask it."""
    first = rouse.watch()
    first.stop()
    assert rouse.pass_gate() == rouse.incarnation()
    limits = rouse.Limits(tick_seconds=7.0)
    second = rouse.watch(limits)
    try:
        assert second is not first
        assert second.watcher.limits == limits
        assert rouse.watch() is second
        with pytest.raises(ValueError, match="a watch ticks already"):
            rouse.watch(first.watcher.limits)
    finally:
        second.stop()
    assert rouse.watch() is second
    second.stop()


def test_a_word_asked_for_that_cannot_be_heard_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever set the variable relies on it: a warning with the reason, once for whatever watches."""
    in_the_way = tmp_path / "file"
    in_the_way.write_text("mine")
    monkeypatch.setenv("ROUSE_HOST_SOCKET", str(in_the_way))
    monkeypatch.setenv("ROUSE_HOST_FILE", str(tmp_path / "nowhere" / "generation"))
    with ticks.outside(rouse.Registry()):
        pass
    socket_line, file_line = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"$ROUSE_HOST_SOCKET ({in_the_way})" in socket_line
    assert "is not a socket" in socket_line
    assert f"$ROUSE_HOST_FILE ({tmp_path / 'nowhere' / 'generation'})" in file_line
    assert "is not there" in file_line
    assert in_the_way.read_text() == "mine"


def test_a_word_that_is_heard_or_not_asked_for_is_not_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two that watch for one registry share one socket; an empty variable asks for nothing."""
    monkeypatch.setenv("ROUSE_HOST_SOCKET", str(tmp_path / "host"))
    monkeypatch.setenv("ROUSE_HOST_FILE", str(tmp_path / "generation"))
    registry = rouse.Registry()
    with ticks.outside(registry), ticks.outside(registry):
        pass
    monkeypatch.setenv("ROUSE_HOST_SOCKET", "")
    monkeypatch.setenv("ROUSE_HOST_FILE", "")
    with ticks.outside(registry):
        pass
    monkeypatch.delenv("ROUSE_HOST_SOCKET")
    monkeypatch.delenv("ROUSE_HOST_FILE")
    with ticks.outside(registry):
        pass
    assert caplog.records == []


def test_a_look_costs_less_than_a_thousandth_of_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every detector that works here: the watcher takes at most 0.1 % of a processor at the usual tick."""
    monkeypatch.setenv("ROUSE_HOST_FILE", str(tmp_path / "generation"))
    monkeypatch.setenv("ROUSE_HOST_SOCKET", str(tmp_path / "host"))
    (tmp_path / "generation").write_text("1")
    registry = rouse.Registry()
    opened, _ = open_outside()
    registry.detectors = tuple(opened)
    watcher, looks = rouse.Watcher(registry=registry), 100
    least = float("inf")
    for _ in range(5):
        began = time.thread_time()
        for _ in range(looks):
            watcher.check()
        least = min(least, (time.thread_time() - began) / looks)
    close(opened)
    assert least < 0.001 * watcher.limits.tick_seconds


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("way", ["thread", "loop"])
def test_a_watch_that_runs_takes_little_of_a_processor(tmp_path: Path, way: str) -> None:
    """Its waking included, all threads, nothing warm: 0.1 %. The least of some times: what else a machine does only adds.

    A virtual machine whose host is busy may take all of that for a thread that only wakes at each tick. One is measured beside
    the watch, at the same time, and where it takes over a sixth of the limit, the watch may take six times as much as it.
    What does not depend on the machine: one thread wakes at each tick.
    """
    heard = {"ROUSE_HOST_FILE": str(tmp_path / "generation"), "ROUSE_HOST_SOCKET": str(tmp_path / "host")}
    (tmp_path / "generation").write_text("1")
    costing = SCRIPT.with_name("costing.py")
    with child(costing, way, **heard) as watched, child(costing, "nothing") as waking:
        pairs = [(watched.until("share"), waking.until("share")) for _ in range(TIMES)]
    wakes = statistics.median(waked["share"] for _, waked in pairs)
    assert min(watch["share"] for watch, _ in pairs) <= max(0.001, 6 * wakes), pairs
    assert min(watch["wakes"] - waked["wakes"] for watch, waked in pairs) < 1.0, pairs
