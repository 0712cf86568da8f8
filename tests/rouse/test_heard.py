"""Two notices of one event are one event; two events are two, however close."""

from __future__ import annotations

import pytest

from tests.rouse.clocks_by_hand import ClocksByHand
from torpor import rouse
from torpor.rouse import Finding, Kind


class Says:
    """A detector outside the process that says what a test wants, once."""

    def __init__(self) -> None:
        """Say nothing yet."""
        self.next: list[Finding] = []

    def __call__(self, _before: rouse.Reading, _now: rouse.Reading) -> Finding | None:
        """Say the next thing."""
        return self.next.pop(0) if self.next else None


class Machine:
    """A watcher with two detectors outside, by hand."""

    def __init__(self) -> None:
        """Nothing happened yet."""
        self.clocks, self.registry = ClocksByHand(), rouse.Registry()
        self.kernel, self.host = Says(), Says()
        self.registry.detectors = (self.host, self.kernel)
        self.watcher = rouse.Watcher(clocks=self.clocks.clocks, registry=self.registry)
        self.told: list[rouse.Rousal] = []
        self.registry.on_rousal(self.told.append)

    def kernel_says(self) -> None:
        """The kernel knows of a copy."""
        self.kernel.next.append(Finding(Kind.COPIED, "kernel", certain=True, by="vmclock", confirms=("host",)))

    def host_says(self, notice: str) -> None:
        """The host knows of one."""
        self.host.next.append(
            Finding(Kind.COPIED, "host", certain=True, by="host", confirms=("vmclock",), notice=notice)
        )

    def tick(self) -> rouse.Rousal | None:
        """A second passes."""
        self.clocks.pass_time(1.0)
        return self.watcher.check()


def test_found_together_they_are_one_event() -> None:
    """The evidence of both is kept."""
    machine = Machine()
    machine.kernel_says()
    machine.host_says("1")
    rousal = machine.tick()
    assert rousal is not None
    assert sorted(rousal.evidence) == ["host", "kernel"]
    assert rousal.certain
    assert machine.tick() is None


@pytest.mark.parametrize("host_first", [True, False])
def test_a_late_report_is_the_same_event_and_its_second_is_another(*, host_first: bool) -> None:
    """Each detector has one report of an event."""
    machine = Machine()
    says = [lambda: machine.host_says("1"), machine.kernel_says]
    for say in says if host_first else reversed(says):
        say()
        machine.tick()
    assert len(machine.told) == 1
    machine.kernel_says()
    machine.host_says("2")
    machine.tick()
    assert len(machine.told) == 2


def test_a_report_long_after_is_another_event() -> None:
    """Six seconds later nobody would still be writing about the first."""
    machine = Machine()
    machine.kernel_says()
    machine.tick()
    for _ in range(6):
        machine.tick()
    machine.host_says("1")
    assert machine.tick() is not None


def test_the_same_notice_is_told_once_whenever_it_comes() -> None:
    """Through the file and the socket, say."""
    machine = Machine()
    for _ in range(3):
        machine.host_says("generation 7")
        for _ in range(10):
            machine.tick()
    assert len(machine.told) == 1


def test_a_graver_report_is_news() -> None:
    """The clocks saw a suspend; the host says it was a copy: the phases run again, for a copy."""
    machine = Machine()
    machine.clocks.suspend(10.0)
    machine.tick()
    machine.host.next.append(Finding(Kind.COPIED, "host", certain=True, by="host", confirms=("suspended",), notice="1"))
    machine.tick()
    assert [rousal.kind for rousal in machine.told] == [Kind.SLEPT, Kind.COPIED]


def test_a_gap_in_the_clocks_is_never_swallowed() -> None:
    """However soon after another event."""
    machine = Machine()
    machine.kernel_says()
    machine.tick()
    machine.clocks.suspend(0.2)
    rousal = machine.tick()
    assert rousal is not None
    assert rousal.kind is Kind.SLEPT


def test_what_a_detector_said_is_not_lost_when_a_later_one_fails() -> None:
    """It says it only once, so it is kept until it is told."""
    machine = Machine()
    failures = [OSError("device gone")]

    def failing(_before: rouse.Reading, _now: rouse.Reading) -> None:
        if failures:
            raise failures.pop()

    machine.registry.detectors = (machine.host, failing)
    machine.host_says("1")
    with pytest.raises(OSError, match="device gone"):
        machine.tick()
    rousal = machine.tick()
    assert rousal is not None
    assert rousal.kind is Kind.COPIED
    assert machine.tick() is None


def test_memory_of_what_was_told_does_not_grow() -> None:
    """A machine that sleeps every minute for years."""
    machine = Machine()
    for number in range(200):
        machine.host_says(str(number))
        assert machine.tick() is not None
    heard = vars(machine.registry.heard)
    assert {len(kept) for kept in heard.values()} == {64}


def test_two_names_are_two_events_by_whichever_way_they_come() -> None:
    """One by the socket and one by the file, a second apart: the host knows of both, so there were two (C01)."""
    machine = Machine()
    for by, other, name in (("host socket", "host file", "copy 1"), ("host file", "host socket", "copy 2")):
        machine.host.next.append(Finding(Kind.COPIED, name, certain=True, by=by, confirms=(other,), notice=name))
        machine.tick()
    assert [rousal.evidence for rousal in machine.told] == [("copy 1",), ("copy 2",)]


@pytest.mark.parametrize("host_first", [True, False])
def test_one_report_of_the_kernel_is_confirmed_by_one_name(*, host_first: bool) -> None:
    """The second name is another event, and the kernel's own line still belongs to the first."""
    machine = Machine()
    for host in (host_first, not host_first):
        if host:
            machine.host_says("1")
        else:
            machine.kernel_says()
        machine.tick()
    assert len(machine.told) == 1
    machine.host.next.append(Finding(Kind.SLEPT, "2", certain=True, by="another", confirms=("vmclock",), notice="2"))
    assert machine.tick() is not None
    assert len(machine.told) == 2


def test_a_name_that_is_told_again_as_something_graver_is_news() -> None:
    """The host thought that it only slept; said once more, or less grave, it is the same."""
    machine = Machine()
    for kind in (Kind.SLEPT, Kind.SLEPT, Kind.COPIED, Kind.SLEPT, Kind.COPIED):
        machine.host.next.append(Finding(kind, "host", certain=True, by="host", confirms=("vmclock",), notice="g20"))
        machine.tick()
    assert [rousal.kind for rousal in machine.told] == [Kind.SLEPT, Kind.COPIED]
