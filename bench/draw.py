"""Makes the measured part of docs/performance.md from the rows of `run.py`: the targets, the charts, all medians.

python bench/draw.py                 from docs/measured
python bench/draw.py --take          takes what `make bench` and `make bench-growth` left in .torpor first
python bench/draw.py FOLDER PAGE     from and to somewhere else
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from cases import FIGURES, STORES, Case, Row
from charts import Bar, Group, bars
from table import Found, by_case, median, table
from targets import Measured, lines

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "docs" / "measured"
PAGE = ROOT / "docs" / "performance.md"
KINDS = ("peers", "growth")
BEGIN, END = "<!-- measured: bench/draw.py writes from here -->\n", "<!-- measured: to here -->\n"
_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL, and what has a store of its own"}


def read(path: Path) -> tuple[Row, list[Row], Row]:
    """Return what stands above the rows of a file, the rows, and what stands below."""
    if not path.is_file():
        return {}, [], {}
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    head = next((one["head"] for one in found if "head" in one), {})
    tail = next((one["tail"] for one in found if "tail" in one), {})
    return head, [one for one in found if "who" in one], tail


def beside(found: Found, workload: str, field: str, size: int = 0) -> list[Group]:
    """Return torpor and its peers, by store."""
    groups = []
    for store in STORES:
        by_name = found.get(Case(workload, store, size), {})
        values = {name: median(rows, field) for name, rows in by_name.items()}
        drawn = [Bar(name, value, name == "torpor") for name, value in values.items() if value is not None]
        if drawn:
            groups.append(Group(_NAMES[store], drawn))
    return groups


def grown(found: Found, workload: str, field: str) -> list[Group]:
    """Return torpor by size, by store."""
    groups = []
    for store in STORES:
        sizes = sorted({case.size for case in found if (case.workload, case.store) == (workload, store)})
        values = {size: median(found[Case(workload, store, size)]["torpor"], field) for size in sizes}
        drawn = [Bar(f"{size:,}", value, own=True) for size, value in values.items() if value is not None]
        if drawn:
            groups.append(Group(_NAMES[store].split(",")[0], drawn))
    return groups


def charts(seen: Measured) -> dict[str, tuple[str, list[Group]]]:
    """Return every chart by the name of its file, with its title."""
    found = {
        "w1": ("W1: steps a second, 500 runs of 10 steps (more is better)", beside(seen.beside, "w1", "steps_s")),
        "w4": ("W4: ms from one step to the next (less is better)", beside(seen.beside, "w4", "p50_ms")),
        "w2": ("W2: ms from signal to step, p99, 1,000 runs parked", beside(seen.beside, "w2", "p99_ms", 1000)),
        "w3": (
            "W3: s from loaded to the first new step, history 5,000",
            beside(seen.beside, "w3", "launch_to_step_s", 5000),
        ),
        "w2-growth": ("W2: ms from signal to step, p99, by parked runs", grown(seen.growth, "w2", "p99_ms")),
        "w3-growth": (
            "W3: s from loaded to the first new step, by history",
            grown(seen.growth, "w3", "launch_to_step_s"),
        ),
        "w4-growth": ("W4: ms from one step to the next, by steps in the run", grown(seen.growth, "w4", "p50_ms")),
        "w1-growth": ("W1: steps a second of 10 runs, by steps in each", grown(seen.growth, "w1", "steps_s")),
    }
    return {name: (title, groups) for name, (title, groups) in found.items() if groups}


def under(head: Row, tail: Row) -> str:
    """Return under which conditions rows were measured."""
    if not head:
        return ""
    after = f"; at the end load {tail['load1']}, fdatasync {tail['fdatasync_p50_ms']} ms, {tail['at']}" if tail else ""
    peers = "; ".join(", ".join(pinned) for pinned in head["peers"].values())
    said = f"{head['at']} UTC, {head['machine']}, load {head['load1']}, fdatasync {head['fdatasync_p50_ms']} ms{after}."
    return said + (f" Peers: {peers}." if peers else "")


def section(folder: Path) -> str:
    """Write the charts, and return the measured part of the page."""
    read_all = {kind: read(folder / f"{kind}.jsonl") for kind in KINDS}
    seen = Measured(by_case(read_all["peers"][1]), by_case(read_all["growth"][1]))
    said = ["", "| What | Store | Must reach | torpor | Peers, in the same run | Kept |", "|---|---|---|---|---|---|"]
    said += [line.cells for line in lines(seen)]
    for kind, words in (("peers", "Beside the peers"), ("growth", "Growth")):
        head, rows, tail = read_all[kind]
        if rows:
            said += ["", f"{words}: {under(head, tail)}"]
    for name, (title, groups) in charts(seen).items():
        (folder / f"{name}.svg").write_text(bars(title, groups), "utf-8")
        said += ["", f"![{title}](measured/{name}.svg)"]
    for kind, words in (("peers", "All medians beside the peers"), ("growth", "All medians of the growth")):
        rows = [row for row in read_all[kind][1] if row["workload"] in FIGURES]
        if rows:
            said += ["", f"**{words}**", "", table(rows)]
    return "\n".join([*said, "", ""])


def take(folder: Path) -> None:
    """Take the newest rows."""
    for kind in KINDS:
        newest = ROOT / ".torpor" / f"bench-{kind}.jsonl"
        if newest.is_file():
            shutil.copy(newest, folder / f"{kind}.jsonl")


def draw(folder: Path, page: Path) -> None:
    """Draw what a folder has, and write it between the marks of a page."""
    text = page.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(before + BEGIN + section(folder) + END + after, "utf-8")


def main() -> None:
    """Draw."""
    words = [word for word in sys.argv[1:] if word != "--take"]
    folder, page = (Path(words[0]), Path(words[1])) if words else (MEASURED, PAGE)
    folder.mkdir(exist_ok=True)
    if "--take" in sys.argv:
        take(folder)
    draw(folder, page)


if __name__ == "__main__":
    main()
