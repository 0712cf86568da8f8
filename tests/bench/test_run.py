"""`bench/run.py` as it is called: small, torpor alone; what it prints and what it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = Path(__file__).resolve().parents[2] / "bench" / "run.py"
PEERS = RUN.parent / "peers"


def test_every_peer_has_a_program_and_pinned_requirements() -> None:
    """Each program has its requirements, every one with an exact version, and no file is left over."""
    programs = {path.stem.removeprefix("with_") for path in PEERS.glob("with_*.py")}
    pinned = {path.stem for path in (PEERS / "requirements").glob("*.txt")}
    assert programs == pinned == {"absurd", "dbos", "langgraph", "restate", "temporal"}
    for path in (PEERS / "requirements").glob("*.txt"):
        assert [line for line in path.read_text("utf-8").splitlines() if line.count("==") != 1] == []


def test_what_is_not_known_is_refused() -> None:
    """A workload that does not exist is named, with those that do."""
    done = subprocess.run([sys.executable, str(RUN), "--only", "w9"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'w9'" in done.stderr
    assert "w1" in done.stderr


@pytest.mark.slow
def test_rows_and_their_conditions(tmp_path: Path, server_url: Callable[[str], str]) -> None:
    """Both stores are measured; the file begins and ends with load and disk; the table says every case."""
    out = tmp_path / "rows.jsonl"
    options = ["--alone", "--rounds", "1", "--only", "bytes", "--only", "idle", "--postgres", server_url("postgres")]
    done = subprocess.run(
        [sys.executable, str(RUN), *options, "--out", str(out)], check=True, capture_output=True, text=True
    )
    first, *rows, last = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    for ends in (first["head"], last["tail"]):
        assert {"at", "machine", "load1", "fdatasync_p50_ms", "peers"} == set(ends)
    assert {(one["workload"], one["store"], one["who"]) for one in rows} == {
        (workload, store, "torpor") for workload in ("bytes", "idle") for store in ("sqlite", "postgres")
    }
    assert [one for one in rows if "error" in one] == []
    assert all(one["stored_bytes"] > one["payload_bytes"] for one in rows if one["workload"] == "bytes")
    assert "| bytes sqlite | torpor |" in done.stdout
    assert "idle postgres" in done.stderr
