"""The lab itself: what is kept, what a wake is, and that nothing outlives the tests."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.lab.debian import system
from tests.lab.disks import CannotBuildError, run
from tests.lab.kept import MADE, UNUSED_SECONDS, Kept, making
from tests.lab.lab import boots
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.lab import Lab

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def quiet(place: Path) -> Kept:
    """Keep things in a place, and say nothing."""
    return Kept(place, say=lambda _: None)


def test_what_is_kept_is_made_once_for_two_who_ask_at_once(tmp_path: Path) -> None:
    """The second waits, and finds it whole."""
    begun, finish = threading.Event(), threading.Event()
    made, found = [], []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "half").touch()
        begun.set()
        finish.wait(PATIENCE_SECONDS)
        (folder / "whole").touch()

    def get() -> None:
        found.append(quiet(tmp_path).get("thing", ["a"], make))

    both = [threading.Thread(target=get) for _ in range(2)]
    both[0].start()
    begun.wait(PATIENCE_SECONDS)
    assert not list(tmp_path.glob("thing-*"))
    both[1].start()
    finish.set()
    for thread in both:
        thread.join()
    assert len(made) == 1
    assert found[0] == found[1]
    assert {path.name for path in found[0].iterdir()} == {"half", "whole", MADE}


def test_what_is_made_anew_of_equal_parts_is_another_making(tmp_path: Path) -> None:
    """A booted machine knows the bytes of its disk, so its key holds the making of the disk."""
    kept = quiet(tmp_path)
    first = kept.get("thing", ["a"], lambda _: None)
    before = making(first)
    (first / MADE).unlink()
    assert kept.get("thing", ["a"], lambda _: None) == first
    assert making(first) != before


def test_another_key_is_another_thing_and_what_failed_is_gone(tmp_path: Path) -> None:
    """Two parts are not one longer part; a folder that was left half made is swept, one that nobody used for long too."""
    kept = quiet(tmp_path)
    folders = {kept.get("thing", parts, lambda _: None) for parts in (["ab"], ["a", "b"], ["b", "a"])}
    assert len(folders) == 3
    (tmp_path / ".thing-leftover").mkdir()
    others = {tmp_path / ".thing-else-unfinish", tmp_path / "thing-else-0123456789abcdef"}
    for other in others:
        other.mkdir()
        os.utime(other, (0, 0))
    old = next(iter(folders))
    long_ago = time.time() - UNUSED_SECONDS - 1
    os.utime(old, (long_ago, long_ago))

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise CannotBuildError("no network")

    with pytest.raises(CannotBuildError):
        kept.get("thing", ["c"], fail)
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == folders - {old} | others


def test_where_it_cannot_be_made_it_is_an_error_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not root; a program that is not there; one that fails. Never a test that was not run."""
    with pytest.raises(CannotBuildError, match="make apt"):
        run("no-such-program")
    with pytest.raises(CannotBuildError, match=r"sh failed \(3\):\nwhat it said\nhint: "):
        run("sh", "-c", "echo what it said; exit 3")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(CannotBuildError, match="wants root"):
        system(quiet(tmp_path))
    assert list(tmp_path.glob("*/")) == []


def test_an_accelerator_is_tried_with_a_guest(lab: Lab) -> None:
    """A kernel that panics for want of a disk has proved enough; one that never gets there has not."""
    _, hardware = lab.booted(vmgenid=True)
    assert boots(hardware.kernel, "tcg", PATIENCE_SECONDS)
    assert not boots(hardware.kernel, "tcg", 0.1)


def test_sleep_and_wake_take_moments(lab: Lab, figure: Callable[[str, object], None]) -> None:
    """What is measured here is in docs/rouse.md; each copy has a disk of its own."""
    machine = lab.start()
    machine.run("/bin/sh", "-c", "echo before >/root-file")
    began = time.monotonic()
    snapshot = machine.snapshot()
    figure("sleep, seconds", time.monotonic() - began)
    for number in range(2):
        began = time.monotonic()
        with lab.wake(snapshot, machine.hardware) as copy:
            copy.agent.ask("ping")
            figure("wake to the agent's answer, seconds", time.monotonic() - began)
            assert copy.run("/bin/cat", "/root-file") == "before\n"
            copy.run("/bin/sh", "-c", f"echo {number} >/root-file")


def test_a_machine_that_only_lives_cannot_be_saved(lab: Lab) -> None:
    """It maps another's RAM."""
    machine = lab.start(savable=False)
    with pytest.raises(RuntimeError, match="savable=True"):
        machine.snapshot()
    machine.close()


STARTS = """
import sys, tempfile, time
from pathlib import Path
from tests.lab.kept import Kept
from tests.lab.lab import Lab
machine = Lab(Kept(), Path(sys.argv[1])).start(savable=False)
print(machine.qemu.pid, flush=True)
sys.stdin.read()
"""


def test_a_machine_ends_with_the_process_that_started_it(lab: Lab, tmp_path: Path) -> None:
    """Also if that is killed."""
    lab.booted(vmgenid=True)
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        machine = os.pidfd_open(int(starter.stdout.readline()))
        assert not select.select([machine], [], [], 0.0)[0]
        starter.send_signal(signal.SIGKILL)
        assert select.select([machine], [], [], PATIENCE_SECONDS)[0]
        os.close(machine)
