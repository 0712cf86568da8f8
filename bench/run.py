"""Torpor's workloads on both stores, beside a floor measured in the same run, and beside peers if there are any.

    python bench/run.py --quick                            torpor and the floor, two minutes
    python bench/run.py --peers DIR --postgres URL         full size; torpor, each peer, torpor, each peer, ...

Figures of different hours cannot be compared: disks and neighbours change. So everything is measured in turn, round after
round, and what counts is the ratio of the medians of one run. README.md says what a folder of peers holds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from calm import wait_for_calm
from floor import on_postgres, on_sqlite
from server import server

from torpor.bench.conditions import load1, machine

Row = dict[str, Any]
PATIENCE_SECONDS = 900
_ONE = """import json, sys
from torpor.bench.run import command
wanted = json.loads(sys.argv[1])
sys.exit(command(wanted.pop("workload"), json=True, **wanted))
"""
"""Each trial has a process of its own: memory and warm caches of one must not be those of the next."""


class Size(NamedTuple):
    """How much is measured."""

    rounds: int
    histories: tuple[int, ...]
    runs: int = 500
    steps: int = 10
    sequence: int = 500
    floor_batches: int = 60


QUICK = Size(rounds=2, histories=(1000,), floor_batches=20)
FULL = Size(rounds=3, histories=(100, 1000, 5000))

FIGURES = {"floor": ("batched_steps_s", True), "w1": ("steps_s", True), "w4": ("p50_ms", False)}
FIGURES |= {"w3": ("launch_to_step_s", False), "w5": ("effect_executions", False)}
"""What is compared in each workload, and whether more is better."""


class Case(NamedTuple):
    """One thing to be measured, by whoever can."""

    workload: str
    store: str
    history: int = 0

    @property
    def words(self) -> str:
        """Its name in tables."""
        return f"{self.workload} {self.store}" + (f", history {self.history:,}" if self.history else "")


class Peer(NamedTuple):
    """A peer's command for one workload and store, to be run in its folder."""

    name: str
    workload: str
    store: str
    command: list[str]


Found = dict[Case, dict[str, list[Row]]]
"""Rows by case, then by who was measured."""


def cases(size: Size, stores: list[str]) -> list[Case]:
    """Return what is to be measured, in order."""
    found = []
    for store in stores:
        found += [Case("w1", store), Case("w4", store)]
        found += [Case("w3", store, history) for history in size.histories]
        found += [Case("w5", store)]
    return found


def read_peers(folder: Path | None) -> list[Peer]:
    """Return what `peers.json` in a folder lists."""
    if folder is None:
        return []
    return [Peer(**one) for one in json.loads((folder / "peers.json").read_text("utf-8"))]


def run_torpor(case: Case, size: Size, url: str) -> Row:
    """Measure torpor once."""
    wanted = {
        "workload": case.workload,
        "store": url if case.store == "postgres" else "sqlite",
        "runs": size.runs,
        "steps": size.sequence if case.workload == "w4" else size.steps,
        "history": case.history or 1,
        "trials": 1,
    }
    return _row([sys.executable, "-c", _ONE, json.dumps(wanted)], None, {})


def run_peer(peer: Peer, case: Case, folder: Path, url: str) -> Row:
    """Measure a peer once. The words {history} and {port} of its command are filled in."""
    words = {"history": str(case.history), "port": str(urlsplit(url).port or 5432)}
    command = [part.format(**words) for part in peer.command]
    return _row(command, folder, {"BENCH_PGPORT": words["port"]})


def _row(command: list[str], folder: Path | None, more: dict[str, str]) -> Row:
    """Run a command that prints rows, and return the last; a failure is a row with `error`."""
    try:
        done = subprocess.run(  # noqa: S603 - commands of this file and of the folder that was named
            command,
            cwd=folder,
            env=os.environ | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"nothing within {PATIENCE_SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"error": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
    row: Row = json.loads(lines[-1])
    return row


class Bench(NamedTuple):
    """Who measures what, where."""

    size: Size
    url: str
    peers: list[Peer]
    folder: Path | None
    only: list[str]
    calm_seconds: float
    out: Path | None

    def measure(self) -> Found:
        """Measure everything, round after round; tell of each row on standard error."""
        found: Found = defaultdict(lambda: defaultdict(list))
        for number in range(1, self.size.rounds + 1):
            for case in [Case("floor", "sqlite"), Case("floor", "postgres"), *cases(self.size, ["sqlite", "postgres"])]:
                if not self.only or case.workload in self.only:
                    for name in self._who(case):
                        idle = wait_for_calm(self.calm_seconds) if self.calm_seconds else None
                        row = self._once(case, name) | ({} if idle is None else {"idle_before": idle})
                        found[case][name].append(row)
                        self._tell(number, case, name, row)
        return found

    def _tell(self, number: int, case: Case, name: str, row: Row) -> None:
        figure = row.get(FIGURES[case.workload][0], row.get("error"))
        sys.stderr.write(f"round {number}  {case.words:28} {name:22} {figure}  load {row.get('load1', '?')}\n")
        if self.out is not None:
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**case._asdict(), "round": number, "who": name, **row}) + "\n")

    def _who(self, case: Case) -> list[str]:
        if case.workload == "floor":
            return ["floor"]
        return ["torpor", *(peer.name for peer in self.peers if (peer.workload, peer.store) == case[:2])]

    def _once(self, case: Case, name: str) -> Row:
        if name == "floor":
            batches = self.size.floor_batches
            return on_sqlite(batches) if case.store == "sqlite" else on_postgres(self.url, batches)
        if name == "torpor" or self.folder is None:
            return run_torpor(case, self.size, self.url)
        peer = next(one for one in self.peers if (one.name, one.workload, one.store) == (name, *case[:2]))
        return run_peer(peer, case, self.folder, self.url)


def table(found: Found) -> str:
    """Return a table in Markdown: medians, spread, the ratio to torpor, load and disk."""
    lines = ["| Workload | Who | Figure | Median | Least .. most | torpor : this | Load | fdatasync ms |"]
    lines.append("|---|---|---|---:|---|---:|---|---|")
    for case, by_name in sorted(found.items(), key=lambda item: (item[0].workload, item[0].store, item[0].history)):
        own = _numbers(case, by_name.get("torpor", []))
        for name, rows in by_name.items():
            numbers = _numbers(case, rows)
            field = FIGURES[case.workload][0]
            if not numbers:
                lines.append(f"| {case.words} | {name} | {field} | failed: {rows[-1].get('error', '?')} | | | | |")
                continue
            middle = statistics.median(numbers)
            ratio = f"{statistics.median(own) / middle:.3g}" if own and name != "torpor" and middle else ""
            loads = [row["load1"] for row in rows if "load1" in row]
            disk = statistics.median([row["fdatasync_p50_ms"] for row in rows if "fdatasync_p50_ms" in row])
            lines.append(
                f"| {case.words} | {name} | {field} | {middle:g} | {min(numbers):g} .. {max(numbers):g} | {ratio}"
                f" | {min(loads):g} - {max(loads):g} | {disk:g} |"
            )
    return "\n".join(lines)


def _numbers(case: Case, rows: list[Row]) -> list[float]:
    field = FIGURES[case.workload][0]
    values = [row[field] for row in rows if field in row]
    return [float(max(value)) if isinstance(value, list) else float(value) for value in values]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Torpor's workloads, beside the floor and beside peers.")
    parser.add_argument("--quick", action="store_true", help="two rounds, one history: two minutes")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument(
        "--only", action="append", default=[], choices=list(FIGURES), help="a workload; may be repeated"
    )
    parser.add_argument(
        "--postgres", default=os.environ.get("TORPOR_BENCH_POSTGRES", ""), help="URL; default: one of its own"
    )
    parser.add_argument(
        "--peers", type=Path, default=os.environ.get("TORPOR_BENCH_PEERS") or None, help="a folder with peers.json"
    )
    parser.add_argument("--calm", type=float, default=0.0, help="seconds to wait, before each, for an idle machine")
    parser.add_argument("--out", type=Path, help="where every row is added, one JSON object a line")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    size = size._replace(rounds=arguments.rounds or size.rounds)
    peers = [] if arguments.quick else read_peers(arguments.peers)
    began = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, load {load1()}, {machine()}")
    with ExitStack() as stack:
        url = stack.enter_context(server(arguments.postgres))
        found = Bench(size, url, peers, arguments.peers, arguments.only, arguments.calm, arguments.out).measure()
    print(f"{size.rounds} rounds in {time.monotonic() - began:.0f} s, load {load1()} at the end\n\n{table(found)}")


if __name__ == "__main__":
    main()
