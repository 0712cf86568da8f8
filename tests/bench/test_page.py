"""The measured part of a page: targets judged by their rows, charts that are drawings, and a page that is what its rows say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARKS = "<!-- measured: bench/draw.py writes from here -->\n", "<!-- measured: to here -->\n"


def row(workload: str, store: str, who: str, size: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a row as `bench/run.py` writes it."""
    case = {"workload": workload, "store": store, "size": size, "repeated": True, "alone": False}
    return {**fields, "load1": 0.5, "fdatasync_p50_ms": 0.1, **case, "round": 1, "who": who, "took_secs": 1.0}


def drawn(folder: Path, rows: dict[str, list[dict[str, Any]]]) -> str:
    """Write rows, let the script draw, and return the page."""
    page = folder / "page.md"
    page.write_text(f"before\n{MARKS[0]}old\n{MARKS[1]}after\n", "utf-8")
    head = {"at": "2026-11-30 03:20", "machine": "a machine", "load1": 0.1, "fdatasync_p50_ms": 0.1, "peers": {}}
    for kind, some in rows.items():
        lines = [{"head": head}, *some, {"tail": head}]
        (folder / f"{kind}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    subprocess.run([sys.executable, str(ROOT / "bench" / "draw.py"), str(folder), str(page)], check=True)
    return page.read_text("utf-8")


def kept(page: str, what: str, store: str) -> str:
    """Return the last cell of a target's line."""
    line = next(line for line in page.splitlines() if line.startswith(f"| {what}") and f"| {store} |" in line)
    return line.split("|")[-2].strip()


@pytest.mark.slow
@pytest.mark.parametrize(("own", "said"), [(9000.0, "yes"), (7000.0, "**no**")])
def test_targets_are_judged(own: float, said: str, tmp_path: Path) -> None:
    """Against the peers of the same run, and against absolute figures; what was not measured is not mentioned."""
    page = drawn(
        tmp_path,
        {
            "peers": [
                row("w1", "postgres", "torpor", steps_s=own),
                row("w1", "postgres", "restate", steps_s=1000.0),
                row("w1", "postgres", "dbos", steps_s=100.0),
                row("w1", "postgres", "absurd", error="it ended"),
                row("w5", "sqlite", "torpor", effect_executions=[1, 1], takeover_ms=1200.0),
                row("import", "", "torpor", import_ms=70.0),
            ],
            "growth": [
                row("w2", "sqlite", "torpor", 1000, p50_ms=1.0, p99_ms=2.0),
                row("w2", "sqlite", "torpor", 1_000_000, p50_ms=1.0, p99_ms=2.7, rss0_mb=40.0, rss_parked_mb=40.2),
            ],
        },
    )
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "old" not in page
    assert kept(page, "W1 steps a second", "PostgreSQL") == said
    assert kept(page, "W2 wake ms p99 |", "SQLite") == "**no**"
    assert kept(page, "W2 MiB a worker grows by", "SQLite") == "yes"
    assert kept(page, "W5 ms until", "SQLite") == "**no**"
    assert kept(page, "W5 times", "SQLite") == "yes"
    assert kept(page, "Import", "") == "yes"
    assert "failed: it ended" in page
    assert "W4" not in page


@pytest.mark.slow
def test_charts_are_drawings(tmp_path: Path) -> None:
    """Each is XML, has a bar for each of its figures, and colours for a dark page."""
    some = [row("w1", "sqlite", who, steps_s=steps) for who, steps in (("torpor", 100.0), ("dbos", 3.0), ("a<b", 2.0))]
    page = drawn(tmp_path, {"peers": some})
    assert [path.name for path in tmp_path.glob("*.svg")] == ["w1.svg"]
    assert "(measured/w1.svg)" in page
    text = (tmp_path / "w1.svg").read_text("utf-8")
    assert len(ET.fromstring(text).findall("{*}rect")) == 3  # noqa: S314 - made a moment ago
    assert "prefers-color-scheme: dark" in text


@pytest.mark.slow
def test_the_page_says_what_its_rows_say(tmp_path: Path) -> None:
    """Drawing docs/performance.md again changes neither the page nor a chart."""
    measured, page = ROOT / "docs" / "measured", ROOT / "docs" / "performance.md"
    folder = tmp_path / "measured"
    folder.mkdir()
    for path in measured.glob("*"):
        shutil.copy(path, folder)
    again = Path(shutil.copy(page, tmp_path))
    subprocess.run([sys.executable, str(ROOT / "bench" / "draw.py"), str(folder), str(again)], check=True)
    assert again.read_text("utf-8") == page.read_text("utf-8")
    for chart in measured.glob("*.svg"):
        assert (folder / chart.name).read_text("utf-8") == chart.read_text("utf-8"), chart.name
