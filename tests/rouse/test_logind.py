"""logind's signal, on a private bus: the dbus-daemon of the system, and a sender that owns logind's name there."""

from __future__ import annotations

import select
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.test_outside import kind_of, look
from torpor.rouse import Kind
from torpor.rouse.detectors.logind import Bus, Logind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
"""
SIGNAL = 4


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A bus of one's own."""
    daemon = shutil.which("dbus-daemon")
    assert daemon is not None, "make apt brings dbus-daemon"
    config, path = tmp_path / "bus.conf", tmp_path / "bus"
    config.write_text(CONFIG.format(path=path))
    with subprocess.Popen(
        [daemon, f"--config-file={config}", "--nofork", "--print-address"], stdout=subprocess.PIPE, text=True
    ) as bus:
        assert bus.stdout is not None
        yield bus.stdout.readline().strip()
        bus.terminate()


def read_all(bus: Bus | Logind) -> None:
    """Wait until something came."""
    assert select.select([bus], [], [], PATIENCE_SECONDS)[0]


def prepare_for_sleep(bus: Bus, *, sleeps: bool, member: str = "PrepareForSleep") -> None:
    """Say what logind says."""
    fields = {
        1: ("o", "/org/freedesktop/login1"),
        2: ("s", "org.freedesktop.login1.Manager"),
        3: ("s", member),
    }
    bus.send(SIGNAL, fields, "b", struct.pack("<I", sleeps))


def become_logind(address: str) -> Bus:
    """A connection that owns logind's name."""
    bus = Bus(address)
    fields = {
        1: ("o", "/org/freedesktop/DBus"),
        6: ("s", "org.freedesktop.DBus"),
        2: ("s", "org.freedesktop.DBus"),
        3: ("s", "RequestName"),
    }
    name = b"org.freedesktop.login1"
    body = struct.pack("<I", len(name)) + name + b"\0"
    body += b"\0" * (-len(body) % 4) + struct.pack("<I", 0)
    bus.send(1, fields, "su", body)
    while not any(b"NameAcquired\0" in fields and name in body for _, fields, body, _ in bus.messages()):
        read_all(bus)
    return bus


def until_found(detector: Logind) -> Kind | None:
    """Look whenever something comes, until it is a finding."""
    found = None
    while found is None:
        read_all(detector)
        found = kind_of(look(detector))
    return found


def settled(detector: Logind) -> Logind:
    """Wait until the bus has answered the match: what is sent from now on comes."""
    bus = detector._bus.get()  # noqa: SLF001 - the answer is for nobody else
    answers = 0
    while answers < 2:  # to Hello and to AddMatch
        read_all(detector)
        answers += sum(kind == 2 for kind, *_ in bus.messages())
    return detector


def test_a_wake_is_told_and_going_to_sleep_is_not(address: str) -> None:
    """PrepareForSleep(true), then (false)."""
    logind, detector = become_logind(address), settled(Logind(address))
    prepare_for_sleep(logind, sleeps=True)
    read_all(detector)
    assert look(detector) is None
    prepare_for_sleep(logind, sleeps=False)
    assert until_found(detector) is Kind.SLEPT
    assert look(detector) is None
    detector.close()
    logind.close()


def test_nobody_else_may_say_it(address: str) -> None:
    """The bus vouches for the sender: the same signal from another connection does not come."""
    somebody, detector = Bus(address), settled(Logind(address))
    prepare_for_sleep(somebody, sleeps=False)
    logind = become_logind(address)  # answered after the bus dealt with the other's
    prepare_for_sleep(logind, sleeps=True)
    read_all(detector)
    assert look(detector) is None
    detector.close()
    logind.close()
    somebody.close()


def test_a_bus_that_goes_away_says_nothing_more(address: str) -> None:
    """The watch does not spin on its socket."""
    detector = settled(Logind(address))
    detector._bus.get()._socket.shutdown(2)  # noqa: SLF001 - what the end of the bus looks like
    assert look(detector) is None
    assert detector.fileno() == -1
    assert look(detector) is None
    detector.close()


@pytest.mark.parametrize("bus_address", ["unix:path=/nowhere/bus", "tcp:host=localhost", ""])
def test_without_a_bus_it_does_not_work(bus_address: str) -> None:
    """Most containers have none."""
    with pytest.raises(OSError, match=r"."):
        Logind(bus_address or "unix:tmpdir=x")
