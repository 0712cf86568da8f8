"""A machine is saved, away for 20 seconds of the world's time, and woken: clocks, a lease, a token and a schedule.

Two programs live in it, one with rouse and one without. It is woken three times: told nothing; told nothing, but with
VMGENID's line; and with its wall clock set right, which is what a host or a time service does.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab.guests import kernel_knows, python

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.agent import Program
    from tests.lab.lab import Lab
    from tests.lab.machine import Hardware, Snapshot

pytestmark = [pytest.mark.slow, pytest.mark.alone]

AWAY_SECONDS = 20.0
GOOD_SECONDS = 15.0
"""Of what the programs hold: over when the machine is woken."""


@dataclass(frozen=True, slots=True)
class Asleep:
    """A machine that has been away."""

    snapshot: Snapshot
    hardware: Hardware
    plain: Program
    with_rouse: Program
    clocks: dict[str, float]
    """Of the guest, before it was put to sleep."""


@pytest.fixture(scope="module")
def asleep(lab: Lab) -> Asleep:
    """Put it to sleep and be away; the one place where a test must let time go by."""
    machine = lab.start()
    plain, with_rouse = python(machine, "holds"), python(machine, "holds", "--rouse")
    for program in (plain, with_rouse):
        program.ask("begin")
    clocks = machine.clocks()
    snapshot = machine.snapshot(freeze=True)
    threading.Event().wait(AWAY_SECONDS)
    return Asleep(snapshot, machine.hardware, plain, with_rouse, clocks)


def test_every_clock_but_the_machines_own_stood_still(
    lab: Lab, asleep: Asleep, figure: Callable[[str, object], None]
) -> None:
    """The guest believes that no time went by; its real-time clock, which nobody reads again, knows better."""
    with lab.wake(asleep.snapshot, asleep.hardware) as machine:
        now, real = machine.clocks(), time.time()
    passed = {name: now[name] - asleep.clocks[name] for name in now}
    assert passed.pop("rtc") >= AWAY_SECONDS - 1
    assert max(passed.values()) < AWAY_SECONDS / 2
    assert real - now["realtime"] > AWAY_SECONDS - 1
    figure("wall clock behind after 20 s away, seconds", real - now["realtime"])


def test_what_was_held_is_used_as_if_it_were_good(lab: Lab, asleep: Asleep) -> None:
    """Lease and token ran out in the world, the schedule was missed: without rouse nothing of it shows."""
    with lab.wake(asleep.snapshot, asleep.hardware) as machine:
        kernel_knows(machine)
        plain = machine.the(asleep.plain)
        assert plain.ask("lease") == "used"
        assert plain.ask("token") == "token 1"
        assert plain.ask("schedule 3") is None


def test_a_clock_set_right_does_not_help_them(lab: Lab, asleep: Asleep) -> None:
    """They count by the monotonic clock, and wait for as long as they thought before."""
    with lab.wake(asleep.snapshot, asleep.hardware, wall_seconds=time.time()) as machine:
        plain = machine.the(asleep.plain)
        assert plain.ask("lease") == "used"
        assert plain.ask("token") == "token 1"
        assert plain.ask("schedule 5") is None


def test_with_rouse_lease_and_token_are_of_another_life(lab: Lab, asleep: Asleep) -> None:
    """The kernel's line is enough, also while the wall clock is wrong."""
    with lab.wake(asleep.snapshot, asleep.hardware) as machine:
        kernel_knows(machine)
        its = machine.the(asleep.with_rouse)
        assert its.ask("lease") == "stale"
        assert its.ask("token") == "token 2"
        assert [kind for kind, _, _ in its.ask("told")] == ["copied"]


def test_with_rouse_and_the_clock_set_right_the_schedule_runs_at_once(
    lab: Lab, asleep: Asleep, figure: Callable[[str, object], None]
) -> None:
    """Whoever sets the clock is noticed by the kernel's timer, and the time away is known."""
    with lab.wake(asleep.snapshot, asleep.hardware, wall_seconds=time.time()) as machine:
        its = machine.the(asleep.with_rouse)
        late = its.ask("schedule 60")
        assert late < 2.0
        assert its.ask("lease") == "stale"
        assert its.ask("token") == "token 2"
        told = its.ask("told")
    assert {kind for kind, _, _ in told} <= {"copied", "clock_step"}
    assert sum(away for _, away, _ in told) >= AWAY_SECONDS - 1
    figure("schedule late with rouse, by the guest's clock, seconds", late)
