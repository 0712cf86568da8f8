"""rouse's detectors in a real machine: what each wake shows, what nothing shows, and what then a beacon says."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.lab.agent import Program
from tests.lab.guests import HOST, KERNELS_LINE, python
from tests.lab.lab import PYTHON
from tests.lab.machine import QEMU, Hardware, Snapshot
from torpor.rouse import FileBeacon
from torpor.rouse.beacon_http import BeaconServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.lab import Lab

pytestmark = [pytest.mark.slow, pytest.mark.alone]

STANDS_SECONDS = 4.0
"""More than a watch needs to tell a freeze: its tick and its limit."""

Asleep = tuple[Snapshot, Hardware, Program]


def put_to_sleep(lab: Lab, *, vmgenid: bool) -> Asleep:
    """A machine with a program that watches."""
    machine = lab.start(vmgenid=vmgenid)
    program = python(machine, "lives")
    return machine.snapshot(), machine.hardware, program


@pytest.fixture(scope="module")
def untold(lab: Lab) -> Asleep:
    """One without VMGENID: that it is woken is no event, so each test may begin with it."""
    return put_to_sleep(lab, vmgenid=False)


@pytest.fixture(scope="module")
def told(lab: Lab) -> Asleep:
    """One with VMGENID."""
    return put_to_sleep(lab, vmgenid=True)


def test_the_kernels_line_is_told(lab: Lab, told: Asleep, figure: Callable[[str, object], None]) -> None:
    """VMGENID: the watch is woken by the line."""
    snapshot, hardware, program = told
    with lab.wake(snapshot, hardware) as copy:
        woke_at = time.monotonic()
        its = copy.the(program)
        [[kind, _, evidence]] = its.ask("told 1 60")
        figure("the kernel's line told after the wake, seconds", time.monotonic() - woke_at)
        assert its.ask("life") != its.ask("born_in")
    assert kind == "copied"
    assert KERNELS_LINE in evidence[0]


def test_a_wall_clock_that_is_really_set_is_told(lab: Lab, untold: Asleep) -> None:
    """By the kernel's own timer, for a step that is too small for a comparison of clocks, and by both for a large one."""
    snapshot, hardware, program = untold
    with lab.wake(snapshot, hardware) as machine:
        its = machine.the(program)
        machine.set_clock(machine.clocks()["realtime"] + 0.5)
        [[kind, _, evidence]] = its.ask("told 1 60")
        assert kind == "clock_step"
        assert len(evidence) == 1
        machine.set_clock(machine.clocks()["realtime"] + 3600.0)
        heard = its.ask("told 2 60")
    assert heard[1][0] == "clock_step"
    assert 3590.0 < heard[1][1] < 3610.0


def test_nothing_shows_a_wake_that_nobody_tells(lab: Lab, untold: Asleep, tmp_path: Path) -> None:
    """No VMGENID, no word of the host: the copies believe that they are one. The beacon knows that they are two."""
    snapshot, hardware, program = untold
    with BeaconServer(FileBeacon(tmp_path / "marks")) as url:
        with lab.wake(snapshot, hardware, savable=True) as machine:
            assert machine.the(program).ask(f"begin {url.replace('127.0.0.1', HOST)}") == "begun"
            begun = machine.snapshot()
        verdicts, lives = [], set()
        for _ in range(2):
            with lab.wake(begun, hardware) as copy:
                its = copy.the(program)
                assert its.ask("told 1 2") == []
                lives.add(its.ask("life"))
                verdicts.append(its.ask("ask"))
    assert len(lives) == 1
    assert verdicts == [[True, None], [False, "copied"]]


def test_a_beacon_tells_a_machine_that_was_set_back(lab: Lab, untold: Asleep, tmp_path: Path) -> None:
    """It lived on and said so; then its snapshot is woken again."""
    snapshot, hardware, program = untold
    with BeaconServer(FileBeacon(tmp_path / "marks")) as url:
        with lab.wake(snapshot, hardware, savable=True) as machine:
            assert machine.the(program).ask(f"begin {url.replace('127.0.0.1', HOST)}") == "begun"
            begun = machine.snapshot()
        with lab.wake(begun, hardware) as first:
            assert first.the(program).ask("beat") == "beaten"
        with lab.wake(begun, hardware) as back:
            assert back.the(program).ask("ask") == [False, "rolled_back"]


@pytest.mark.parametrize("how", ["cgroup", "SIGSTOP"])
def test_a_freeze_is_told(lab: Lab, untold: Asleep, how: str) -> None:
    """The clocks go on while the program stands still: by the kernel's cgroup freezer, and by a signal."""
    snapshot, hardware, program = untold
    with lab.wake(snapshot, hardware) as machine:
        its = machine.the(program)
        machine.freeze() if how == "cgroup" else its.kill(signal.SIGSTOP)
        threading.Event().wait(STANDS_SECONDS)
        machine.thaw() if how == "cgroup" else its.kill(signal.SIGCONT)
        [[kind, away_seconds, _]] = its.ask("told 1 60")
    assert kind == "frozen"
    assert STANDS_SECONDS - 1.5 < away_seconds < STANDS_SECONDS + 10.0


def test_a_paused_machine_sees_nothing(lab: Lab, told: Asleep) -> None:
    """Paused from outside and let go, in one life of QEMU: VMGENID has nothing to say, and all clocks stood still."""
    snapshot, hardware, program = told
    with lab.wake(snapshot, hardware) as machine:
        its = machine.the(program)
        [[kind, _, _]] = its.ask("told 1 60")  # that it was woken
        assert kind == "copied"
        before = its.ask("life")
        machine.pause()
        threading.Event().wait(STANDS_SECONDS)
        machine.go_on()
        assert len(its.ask("told 2 2")) == 1
        assert its.ask("life") == before


def test_which_detectors_work_in_the_guest(lab: Lab) -> None:
    """As root in a machine with VMGENID. QEMU 7.2 has no vmclock to give it, and logind is not installed."""
    machine = lab.start(vmgenid=True, savable=False)
    said = json.loads(machine.run("/usr/bin/python3", "-m", "torpor.rouse", "explain", "--json", env=PYTHON))
    machine.close()
    works = {about["name"]: about["works"] for about in said}
    assert works == {
        "host socket": False,
        "host file": True,
        "vmclock": False,
        "kmsg": True,
        "process": True,
        "suspended": True,
        "moved": True,
        "timerfd": True,
        "stepped": True,
        "frozen": True,
        "logind": False,
    }
    devices = subprocess.run([QEMU, "-device", "help"], capture_output=True, text=True, check=True).stdout
    assert '"vmgenid"' in devices
