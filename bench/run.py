"""Torpor's workloads on both stores, beside the floor and beside the peers, measured in turn.

    python bench/run.py                    with the peers of bench/peers, two rounds
    python bench/run.py --quick            torpor and the floor, two minutes
    python bench/run.py --growth           torpor alone, up to a million parked runs and 100,000 steps

Figures of different hours cannot be compared: disks and neighbours change. So everything is measured in turn, round after
round, and what counts is the ratio of the medians of one run. Rows go to a file (`--out`), from which `draw.py` makes charts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from calm import wait_for_calm
from cases import FIGURES, PEERS, Case, Peer, Row, beside_peers, growth, quick
from floor import on_postgres, on_sqlite
from footprint import imported
from peers.make import make, python_of, servers_of
from server import server
from table import table

from torpor.bench.conditions import fdatasync_p50_ms, load1, machine

HERE = Path(__file__).resolve().parent
PATIENCE_SECONDS = 900
PATIENCE_WITH_PEERS_SECONDS = 240
"""The slowest takes a minute on a quiet machine; an unattended run is to come to its end."""
_ONE = """import json, sys
from torpor.bench.rows import Wanted
from torpor.bench.run import command
workload, wanted = json.loads(sys.argv[1])
sys.exit(command(workload, Wanted(**wanted), json=True))
"""
"""Each trial has a process of its own: memory and warm caches of one must not be those of the next."""
_FACE = "from torpor import App, Context"
_RUNS_OF_MANY_STEPS = 10


class Ground(NamedTuple):
    """The server's URL, and how many batches the floor is measured with."""

    url: str
    floor_batches: int

    def store(self, name: str) -> str:
        """Return what torpor calls a store."""
        return self.url if name == "postgres" else "sqlite"


def run_floor(case: Case, ground: Ground) -> Row:
    """Measure what the database allows."""
    return on_sqlite(ground.floor_batches) if case.store == "sqlite" else on_postgres(ground.url, ground.floor_batches)


def run_torpor(case: Case, ground: Ground) -> Row:
    """Measure torpor once."""
    if case.workload == "import":
        return imported(sys.executable, _FACE)
    store = ground.store(case.store)
    if case.workload in {"bytes", "idle"}:
        return _row([sys.executable, str(HERE / "footprint.py"), case.workload, store])
    wanted: Row = {"store": store, "trials": 1}
    if case.workload == "w1" and case.size:
        wanted |= {"runs": _RUNS_OF_MANY_STEPS, "steps": case.size}
    elif case.workload == "w2":
        wanted["parked"] = case.size
    elif case.workload == "w3":
        wanted["history"] = case.size
    elif case.workload == "w4":
        wanted["steps"] = case.size or 500
    elif case.workload == "w6":
        wanted["runs"] = case.size
    return _row([sys.executable, "-c", _ONE, json.dumps([case.workload, wanted])])


def run_peer(peer: Peer, case: Case, ground: Ground) -> Row:
    """Measure a peer once, in its own environment."""
    python = str(python_of(peer.name))
    if case.workload == "import":
        return imported(python, peer.imports)
    part = 10 if peer.slow else 1
    options = {"server": ground.url, "runs": 500 // part, "steps": 500 // part if case.workload == "w4" else 10}
    if case.workload == "w2":
        options["parked"] = case.size // part
    if case.workload == "w3":
        options["history"] = case.size
    if not peer.own_store:
        options["store"] = case.store
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [python, str(HERE / "peers" / f"with_{peer.name}.py"), case.workload, *words]
    return _row(command, servers_of(peer.name), PATIENCE_WITH_PEERS_SECONDS)


def _row(command: list[str], more: dict[str, str] | None = None, patience_seconds: float = PATIENCE_SECONDS) -> Row:
    """Run a command that prints rows, and return the last; a failure is a row with `error`.

    Whatever it started is ended with it: a peer's server too.
    """
    process = subprocess.Popen(  # noqa: S603 - commands of this folder
        command,
        cwd=HERE.parent,
        env=os.environ | (more or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, wrote = process.communicate(timeout=patience_seconds)
    except subprocess.TimeoutExpired:
        return {"error": f"nothing within {patience_seconds:g} s"}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = [line for line in said.splitlines() if line.startswith("{") and '"w":' in line]
    if not lines:
        return {"error": (wrote.strip().splitlines() or [f"exit {process.returncode}"])[-1]}
    row: Row = json.loads(lines[-1])
    return row


class Bench(NamedTuple):
    """Who measures what, where, and where the rows go."""

    cases: list[Case]
    rounds: int
    peers: list[Peer]
    ground: Ground
    calm_seconds: float
    out: Path

    def measure(self) -> list[Row]:
        """Measure everything, round after round; tell of each row on standard error as it comes."""
        found = []
        began = time.monotonic()
        for number in range(1, self.rounds + 1):
            for case in self.cases:
                if number > 1 and not case.repeated:
                    continue
                for who in self._who(case):
                    idle = wait_for_calm(self.calm_seconds) if self.calm_seconds else None
                    at = time.monotonic()
                    row = self._once(case, who)
                    took = {"round": number, "who": who, "took_secs": round(time.monotonic() - at, 1)}
                    row = row | case._asdict() | took | ({} if idle is None else {"idle_before": idle})
                    found.append(row)
                    self._tell(row, time.monotonic() - began)
        return found

    def _tell(self, row: Row, seconds: float) -> None:
        case = Case(row["workload"], row["store"], row["size"])
        figure = row.get(FIGURES[case.workload].field, row.get("error"))
        said = f"{seconds:6.0f} s  round {row['round']}  {case.words:24} {row['who']:10} {figure}"
        sys.stderr.write(f"{said}  load {row.get('load1', '?')}  ({row['took_secs']} s)\n")
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def _who(self, case: Case) -> list[str]:
        if case.workload == "floor":
            return ["floor"]
        return ["torpor", *(peer.name for peer in self.peers if peer.takes_part(case))]

    def _once(self, case: Case, who: str) -> Row:
        if who == "floor":
            return run_floor(case, self.ground)
        if who == "torpor":
            return run_torpor(case, self.ground)
        return run_peer(next(peer for peer in self.peers if peer.name == who), case, self.ground)


def head(peers: list[Peer]) -> Row:
    """Return what stands above all rows: when, where, under which load, and the versions of the peers."""
    with tempfile.TemporaryDirectory() as folder:
        disk = fdatasync_p50_ms(Path(folder))
    at = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    return {"at": at, "machine": machine(), "load1": load1(), "fdatasync_p50_ms": disk, "peers": versions(peers)}


def versions(peers: list[Peer]) -> dict[str, list[str]]:
    """Return the pinned packages that carry a peer's name."""
    found = {}
    for peer in peers:
        pinned = (HERE / "peers" / "requirements" / f"{peer.name}.txt").read_text("utf-8").split()
        found[peer.name] = [one for one in pinned if one.startswith(peer.name)]
    return found


def read(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Torpor's workloads, beside the floor and beside the peers.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="torpor and the floor alone: two minutes")
    which.add_argument("--growth", action="store_true", help="torpor alone, by powers of ten: about ten minutes")
    parser.add_argument("--rounds", type=int, default=0, help="default: 2; 1 for --growth")
    parser.add_argument("--only", action="append", default=[], choices=list(FIGURES), help="a workload; repeatable")
    parser.add_argument("--peer", action="append", choices=[peer.name for peer in PEERS], help="default: all")
    parser.add_argument("--alone", action="store_true", help="without peers")
    parser.add_argument(
        "--postgres", default=os.environ.get("TORPOR_BENCH_POSTGRES", ""), help="URL; default: one of its own"
    )
    parser.add_argument("--calm", type=float, default=0.0, help="seconds to wait, before each, for an idle machine")
    parser.add_argument("--out", type=Path, help="where the rows go, one JSON object a line; default: in .torpor")
    return parser.parse_args(arguments)


def main() -> None:
    """Measure and print."""
    given = read()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that the server is stopped too
    kind = "quick" if given.quick else "growth" if given.growth else "peers"
    cases = {"quick": quick, "growth": growth, "peers": beside_peers}[kind]()
    cases = [case for case in cases if not given.only or case.workload in given.only]
    wanted = (
        [] if given.alone or kind != "peers" else [one for one in PEERS if not given.peer or one.name in given.peer]
    )
    peers = [peer for peer in wanted if make(peer.name)]
    out = given.out or HERE.parent / ".torpor" / f"bench-{kind}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    rounds = given.rounds or (1 if given.growth else 2)
    before = head(peers)
    out.write_text(json.dumps({"head": before}) + "\n", "utf-8")
    began = time.monotonic()
    print(f"{before['at']} UTC, load {before['load1']}, fdatasync {before['fdatasync_p50_ms']} ms, {before['machine']}")
    with server(given.postgres) as url:
        found = Bench(cases, rounds, peers, Ground(url, 20 if given.quick else 60), given.calm, out).measure()
    after = head(peers)
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"tail": after}) + "\n")
    print(f"{rounds} rounds in {time.monotonic() - began:.0f} s", end="")
    print(
        f", load {after['load1']}, fdatasync {after['fdatasync_p50_ms']} ms at the end; rows in {out}\n\n{table(found)}"
    )


if __name__ == "__main__":
    main()
