"""The kernel's generator is fed. That this parts two copies of a machine is shown in tests/lab/test_randomness.py."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

import pytest

from torpor import rouse
from torpor.rouse.adapters import kernel
from torpor.rouse.adapters.waking import Waking

if TYPE_CHECKING:
    from pathlib import Path


def rousal(evidence: str) -> rouse.Rousal:
    """What a watcher tells."""
    life = rouse.incarnation()
    return rouse.Rousal(rouse.Kind.COPIED, 0.0, (evidence,), life, life, noticed_at=0)


@pytest.mark.parametrize("allowed", [True, False])
def test_it_is_fed_and_told_to_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, allowed: bool) -> None:
    """64 bytes, other ones each time; a kernel that lets nobody but root reseed it has the bytes all the same."""
    device, asked = tmp_path / "urandom", []

    def ioctl(_: int, request: int) -> None:
        asked.append(request)
        if not allowed:
            raise PermissionError

    monkeypatch.setattr(kernel, "DEVICE", str(device))
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    fed = set()
    for _ in range(2):
        device.write_bytes(b"")
        kernel.wake(Waking(rousal("a copy")), [])
        fed.add(device.read_bytes())
    assert [len(each) for each in fed] == [64, 64]
    assert asked == [kernel.RNDRESEEDCRNG] * 2


def test_without_the_device_it_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox."""
    monkeypatch.setattr(kernel, "DEVICE", str(tmp_path / "missing" / "urandom"))
    kernel.wake(Waking(rousal("a copy")), [])
    assert list(tmp_path.iterdir()) == []


def test_what_the_host_says_goes_into_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies in which all else is equal, to the nanosecond, are parted by a name for each."""
    for clock in ("time_ns", "perf_counter_ns"):
        monkeypatch.setattr(f"torpor.rouse.adapters.waking.time.{clock}", lambda: 7)
    monkeypatch.setattr("torpor.rouse.adapters.waking.os.urandom", bytes)
    seeds = [Waking(rousal(name)).seed() for name in ("generation 1", "generation 1", "generation 2")]
    assert seeds[0] == seeds[1] != seeds[2]
