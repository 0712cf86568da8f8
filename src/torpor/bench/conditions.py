"""Under which conditions a figure was measured: without them it can be compared with nothing."""

from __future__ import annotations

import os
import platform
import statistics
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from torpor import clock

if TYPE_CHECKING:
    from torpor.bench.places import Place
    from torpor.bench.rows import Row

_PROBE_BYTES = 8192
_PROBES = 60


def fdatasync_p50_ms(folder: Path) -> float:
    """Return how long the disk under `folder` takes to keep 8 KiB: the median of 60, in milliseconds."""
    path = folder / "fdatasync-probe"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    block = b"z" * _PROBE_BYTES
    try:
        os.pwrite(file, block * 64, 0)
        os.fsync(file)
        took = []
        for _ in range(_PROBES):
            began = clock.monotonic()
            os.pwrite(file, block, 0)
            os.fdatasync(file)
            took.append(clock.monotonic() - began)
    finally:
        os.close(file)
        path.unlink()
    return round(statistics.median(took) * 1e3, 3)


def load1() -> float:
    """Return the machine's load over the last minute."""
    return round(os.getloadavg()[0], 2)


def rss_mb(pid: int | None = None) -> float:
    """Return a process's resident memory in MiB; this one's without `pid`."""
    for line in Path(f"/proc/{pid or 'self'}/status").read_text("ascii", errors="replace").splitlines():
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def machine() -> str:
    """Return the machine in one line: processors, their model, kernel."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()}"


def conditions(place: Place) -> Row:
    """Return what stands in every row, to be asked right after the measurement."""
    return {
        "load1": load1(),
        "fdatasync_p50_ms": fdatasync_p50_ms(place.folder),
        "durability": place.durability(),
        "at": clock.as_datetime(clock.wall()).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {"torpor": version("torpor"), "python": platform.python_version(), **place.versions()},
    }
