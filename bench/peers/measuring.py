"""What the programs of this folder share: what they are asked for, fresh databases, processes that are killed, rows.

Nothing of torpor is imported: each program runs in the environment of its peer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Row = dict[str, Any]
_PAD = "x" * 170
_PROBE_BYTES = 8192
_PROBES = 60
PER_SECOND = 50
"""Runs that are woken, in each second."""
HOLD, GO = "hold", "go"
"""What a process does where it may be killed: it stays there, or it goes on."""


def payload(n: int) -> Row:
    """Return about 200 bytes of JSON: what a step gives back."""
    return {"i": n, "ok": True, "data": _PAD}


class Asked(NamedTuple):
    """What a program is asked for on its command line."""

    workload: str
    store: str
    server: str
    runs: int
    steps: int
    parked: int
    wakes: int
    history: int
    mode: str
    role: str
    place: str
    line: str

    @property
    def holds(self) -> bool:
        """Whether this process is the one that will be killed."""
        return self.role == HOLD

    def chosen(self) -> list[int]:
        """Return which of the parked runs are woken."""
        return random.Random(1).sample(range(self.parked), min(self.wakes, self.parked))  # noqa: S311


def asked(stores: Sequence[str]) -> Asked:
    """Read the command line. `role` and `place` are for processes that a program starts of itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=["w1", "w2", "w3", "w4", "w5", "idle"])
    parser.add_argument("--store", default=stores[0], choices=stores)
    parser.add_argument("--server", default="", help="postgresql://postgres@127.0.0.1:PORT/postgres")
    for name, usual in (("runs", 500), ("steps", 10), ("parked", 1000), ("wakes", 200), ("history", 1000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    for name in ("mode", "role", "place", "line"):
        parser.add_argument(f"--{name}", default="")
    return Asked(**vars(parser.parse_args()))


# databases


def run_sql(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements by themselves and return the rows of the last."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            rows = db.execute(statement)
        return rows.fetchall() if rows.description else []


class Ground(NamedTuple):
    """Where a program works: the URL of a new database, or the path of a new file; and a folder for other files."""

    place: str
    folder: Path

    @property
    def line(self) -> str:
        """The file that W5's effect adds lines to."""
        return str(self.folder / "effect")


@contextmanager
def ground(wanted: Asked) -> Iterator[Ground]:
    """Give a new database on the server, or a new file. It is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="torpor-bench-peer-") as folder:
        if wanted.store != "postgres":
            yield Ground(str(Path(folder) / "peer.sqlite"), Path(folder))
            return
        name = f"peer_{os.getpid()}"
        run_sql(wanted.server, f"CREATE DATABASE {name}")
        try:
            yield Ground(urlsplit(wanted.server)._replace(path=f"/{name}").geturl(), Path(folder))
        finally:
            run_sql(wanted.server, f"DROP DATABASE {name} WITH (FORCE)")


def bytes_of(place: str) -> int:
    """Return what a database, a file with its log, or a folder occupies."""
    if place.startswith("postgres"):
        return int(run_sql(place, "SELECT pg_database_size(current_database())")[0][0])
    path = Path(place)
    if path.is_dir():
        return sum(one.stat().st_blocks * 512 for one in path.rglob("*") if one.is_file())
    return sum(one.stat().st_size for one in (path, Path(f"{path}-wal")) if one.exists())


# processes


def say(event: str, **facts: Any) -> None:
    """Say on standard output that something happened, with the moment in seconds."""
    sys.stdout.write(json.dumps({"event": event, "at": time.time(), **facts}) + "\n")
    sys.stdout.flush()


def act(line: str) -> None:
    """Add a line to a file, durably: an effect that can be counted."""
    with Path(line).open("a", encoding="ascii") as file:
        file.write("x\n")
        file.flush()
        os.fsync(file.fileno())
    say("acted")


class Process:
    """This program once more, in a role of its own. Leaving the context kills it."""

    def __init__(self, wanted: Asked, role: str, place: str, line: str = "") -> None:
        """Start it."""
        self.started_at = time.time()
        words = {**wanted._asdict(), "role": role, "place": place, "line": line}
        options = [word for name, value in words.items() if name != "workload" and value != "" for word in (f"--{name}", str(value))]  # fmt: skip  # noqa: E501
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, sys.argv[0], wanted.workload, *options], stdout=subprocess.PIPE, text=True
        )

    def heard(self, event: str) -> float:
        """Return when it said that something happened."""
        for line in self._process.stdout or ():
            with suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict) and said.get("event") == event:
                    return float(said["at"])
        raise RuntimeError(f"the process ended with {self._process.wait()} before {event!r}")

    def kill(self) -> None:
        """SIGKILL it and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Process:  # noqa: PYI034
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it."""
        self.kill()


def killed(wanted: Asked, on: Ground, between: Callable[[], None] = lambda: None) -> Row:
    """W3 and W5: let a process be killed where it stays, do what is needed then, and let another one go on."""
    with Process(wanted, HOLD, on.place, on.line) as first:
        first.heard("frontier" if wanted.workload == "w3" else "acted")
    between()
    with Process(wanted, GO, on.place, on.line) as second:
        if wanted.workload == "w3":
            loaded, reached = second.heard("loaded"), second.heard("frontier")
            return {"history": wanted.history, **resumed(second.started_at, loaded, reached)}
        second.heard("done")
    return {"effect_executions": [len(Path(on.line).read_text("ascii").splitlines())]}


# rows


def spread(seconds: Sequence[float]) -> Row:
    """Return how durations are spread, in milliseconds, by nearest rank."""
    ordered = sorted(seconds)

    def rank(percent: float) -> float:
        return round(ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)] * 1e3, 3)

    return {"n": len(ordered), "p50_ms": rank(50), "p99_ms": rank(99), "max_ms": rank(100)}


def gaps(stamps: Sequence[float]) -> Row:
    """Return how long it was from each moment to the next."""
    return spread([later - earlier for earlier, later in pairwise(stamps)])


def resumed(first_at: float, loaded_at: float, reached_at: float) -> Row:
    """Return the fields of W3."""
    return {"spawn_to_step_s": round(reached_at - first_at, 4), "launch_to_step_s": round(reached_at - loaded_at, 4)}


def per_second(wanted: Asked, seconds: float) -> Row:
    """Return the fields of W1."""
    return {
        "runs": wanted.runs,
        "steps": wanted.steps,
        "secs": round(seconds, 3),
        "steps_s": round(wanted.runs * wanted.steps / seconds, 1),
    }


def rss_mb(pid: int | None = None) -> float:
    """Return a process's resident memory in MiB."""
    for line in Path(f"/proc/{pid or 'self'}/status").read_text("ascii", errors="replace").splitlines():
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def _fdatasync_p50_ms() -> float:
    took = []
    with tempfile.NamedTemporaryFile() as probe:
        probe.write(b"z" * _PROBE_BYTES * 64)
        probe.flush()
        os.fsync(probe.fileno())
        for _ in range(_PROBES):
            began = time.perf_counter()
            os.pwrite(probe.fileno(), b"z" * _PROBE_BYTES, 0)
            os.fdatasync(probe.fileno())
            took.append(time.perf_counter() - began)
    return round(statistics.median(took) * 1e3, 3)


class Woken:
    """W2: which runs were woken, and when."""

    def __init__(self) -> None:
        """Begin with none."""
        self.sent: dict[int, float] = {}
        self.at: dict[int, float] = {}

    def sends(self, number: int) -> None:
        """Note that a run is signalled now."""
        self.sent[number] = time.time()

    def wakes(self, number: int) -> None:
        """Note that a run goes on now."""
        self.at[number] = time.time()

    def rest(self, number: int) -> float:
        """Return how long to wait before the next is signalled, in seconds."""
        return max(0.0, self.sent[number] + 1 / PER_SECOND - time.time())

    @property
    def all(self) -> bool:
        """Whether all that were signalled went on."""
        return self.sent.keys() <= self.at.keys()

    def row(self) -> Row:
        """Return the spread of how long it took."""
        return spread([self.at[number] - at for number, at in self.sent.items()])


def answer(wanted: Asked, **fields: Any) -> None:
    """Print the row, with load and disk."""
    under = {"load1": round(os.getloadavg()[0], 2), "fdatasync_p50_ms": _fdatasync_p50_ms()}
    print(json.dumps({"w": wanted.workload, "store": wanted.store, **fields, **under}), flush=True)
