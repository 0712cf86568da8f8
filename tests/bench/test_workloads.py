"""Each workload of `torpor bench`, small, on both stores: it ends, and its row has the fields that are compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest

from torpor.bench import resumption, sleeping
from torpor.bench.rows import Wanted, median_row, percentile, spread_ms
from torpor.bench.run import command, measure
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALWAYS = {"w", "peer", "trials", "load1", "fdatasync_p50_ms", "durability", "at", "machine", "versions"}
FIELDS = {
    "w1": {
        "runs",
        "steps",
        "secs",
        "runs_s",
        "steps_s",
        "spawn_secs",
        "runs_s_incl_spawn",
        "steps_s_incl_spawn",
        "batches",
        "bytes_per_run",
        "bytes_per_run_at_rest",
        "rss_mb",
        "steps_s_each",
    },
    "w2": {
        "parked",
        "copied",
        "park_secs",
        "n",
        "p50_ms",
        "p99_ms",
        "max_ms",
        "p50_ms_each",
        "signal_p50_ms",
        "awake_p50_ms",
        "timer_p50_ms",
        "timer_p99_ms",
        "timer_max_ms",
        "claim_p50_ms",
        "claim_p99_ms",
        "claim_max_ms",
        "store_bytes_per_parked",
        "store_bytes_per_timer",
        "rss0_mb",
        "rss_parked_mb",
    },
    "w3": {
        "mode",
        "history",
        "spawn_to_step_s",
        "launch_to_step_s",
        "takeover_s",
        "store_mb",
        "launch_to_step_s_each",
        "one_turn",
    },
    "w4": {"steps", "n", "p50_ms", "p99_ms", "max_ms", "p50_ms_each"},
    "w6": {
        "runs",
        "wake_secs",
        "secs",
        "runs_s",
        "n",
        "p50_ms",
        "p99_ms",
        "max_ms",
        "p99_ms_each",
        "alone_p50_ms",
        "alone_p99_ms",
    },
    "w5": {"safety", "effect_executions", "settled", "takeover_ms", "takeover_ms_each"},
}


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, server_url: Callable[[str], str]) -> str:
    """Return what `--store` is given."""
    return "sqlite" if request.param == "sqlite" else server_url("postgres")


def printed(workload: str, store: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a small workload as the command line does, and return the one object it printed."""
    assert command(workload, Wanted(store, runs=5, steps=3, history=20, trials=1, parked=6), json=True) == 0
    row: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert set(row) == ALWAYS | FIELDS[workload]
    assert row["w"] == workload
    assert row["peer"] == ("torpor-sqlite" if store == "sqlite" else "torpor-postgres")
    return row


@pytest.mark.slow
def test_throughput(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """W1 ends every run and counts steps of all of them."""
    row = printed("w1", store, capsys)
    assert (row["runs"], row["steps"]) == (5, 3)
    for rate, count in (("steps_s", 5 * 3), ("runs_s", 5)):  # as exactly as the figures are rounded
        assert row[rate] == pytest.approx(count / row["secs"], rel=0.001 / row["secs"], abs=0.051)
        assert row[f"{rate}_incl_spawn"] <= row[rate]
    assert row["spawn_secs"] > 0
    assert row["bytes_per_run"] > 0


@pytest.mark.slow
def test_latency(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """W4 has a duration between each step and the next."""
    row = printed("w4", store, capsys)
    assert row["n"] == 2
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]


@pytest.mark.slow
def test_resumption(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """W3 kills a process at the frontier, and a new one reaches it."""
    row = printed("w3", store, capsys)
    assert row["history"] == 20
    for one in (row, row["one_turn"]):
        assert 0 < one["takeover_s"] <= one["launch_to_step_s"] < one["spawn_to_step_s"]


@pytest.mark.slow
def test_effects(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """W5 kills between effect and record: the effect acted once, and a person is asked (G4)."""
    row = printed("w5", store, capsys)
    assert row["effect_executions"] == [1]
    assert row["settled"] == "unknown"
    assert row["takeover_ms"] > 0


@pytest.mark.slow
def test_waking(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """W6 wakes and ends the whole herd, and times at least one claim beside it."""
    row = printed("w6", store, capsys)
    assert row["n"] > 0
    assert 0 < row["wake_secs"] <= row["secs"]


@pytest.mark.slow
def test_sleeping(store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """W2 parks runs of both kinds, half of them as copies, and wakes every one that waits for a message."""
    monkeypatch.setattr(sleeping, "DRIVEN", 4)
    monkeypatch.setattr(sleeping, "_WARM", 3)
    monkeypatch.setattr(sleeping, "_SEEN", 3)
    monkeypatch.setattr(sleeping, "_CLAIMS", 3)
    row = printed("w2", store, capsys)
    assert (row["parked"], row["copied"], row["n"]) == (6, 2, 3)
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
    assert 0 < row["awake_p50_ms"] <= row["max_ms"]
    assert row["timer_p50_ms"] > 0
    assert row["rss0_mb"] > 0


@pytest.mark.slow
def test_a_history_too_long_for_one_turn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """W3 of very many steps is measured with `again` alone."""
    monkeypatch.setattr(resumption, "MOST_IN_ONE_TURN", 19)
    assert command("w3", Wanted("sqlite", history=20, trials=1), json=True) == 0
    assert set(json.loads(capsys.readouterr().out)) == ALWAYS | FIELDS["w3"] - {"one_turn"}


@pytest.mark.slow
def test_a_server_is_left_as_it_was(server_url: Callable[[str], str]) -> None:
    """The schema of a measurement is dropped, whatever the measurement did. In a database of its own: others measure, too."""
    server = server_url("postgres")
    url = urlsplit(server)._replace(path="/left_as_it_was").geturl()
    with psycopg.connect(server, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS left_as_it_was WITH (FORCE)")
        db.execute("CREATE DATABASE left_as_it_was")
        try:
            measure("w4", Wanted(url, steps=2, trials=1))
            with psycopg.connect(url) as own:
                left = own.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'torpor_bench%'").fetchone()
        finally:
            db.execute("DROP DATABASE left_as_it_was WITH (FORCE)")
    assert left == (0,)


@pytest.mark.slow
def test_a_file_is_measured_beside(tmp_path: Path) -> None:
    """`sqlite:///FILE` measures on that file's disk, in a file of its own, and leaves nothing."""
    kept = tmp_path / "mine.db"
    kept.write_bytes(b"mine")
    assert measure("w4", Wanted(f"sqlite:///{kept}", steps=2, trials=1))["n"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.db"]
    assert kept.read_bytes() == b"mine"


@pytest.mark.slow
def test_rows_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--json` a row is a field a line."""
    assert command("w4", Wanted("sqlite", steps=2, trials=1), json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("w ", "peer", "n "))] == ["w", "peer", "n"]


@pytest.mark.parametrize(
    ("workload", "wanted", "said"),
    [
        ("w9", Wanted("sqlite"), "no workload 'w9'"),
        ("w1", Wanted("mysql://localhost/x"), "makes a store of its own"),
        ("w1", Wanted("sqlite:///nowhere/at/all.db"), "no folder nowhere/at"),
        ("w1", Wanted("sqlite", runs=0), "--runs 0"),
        ("w3", Wanted("sqlite", history=-1), "--history -1"),
        ("w2", Wanted("sqlite", parked=0), "--parked 0"),
        ("w4", Wanted("sqlite", steps=1), "needs two steps"),
    ],
)
def test_what_makes_no_sense_is_refused(workload: str, wanted: Wanted, said: str) -> None:
    """Nothing is measured then, and the error names the value."""
    with pytest.raises(UsageError, match=said):
        measure(workload, wanted)


def test_the_median_trial_is_the_row() -> None:
    """The row of the median trial is given, with the figure of each."""
    trials = iter([{"secs": 3.0, "n": 1}, {"secs": 1.0, "n": 2}, {"secs": 2.0, "n": 3}])
    assert median_row(lambda: next(trials), 3, by="secs") == {
        "secs": 2.0,
        "n": 3,
        "trials": 3,
        "secs_each": [3.0, 1.0, 2.0],
    }


def test_spread() -> None:
    """Percentiles are nearest ranks, durations are given in milliseconds."""
    assert [percentile([5.0, 1.0, 3.0, 2.0, 4.0], percent) for percent in (0, 50, 99, 100)] == [1.0, 3.0, 5.0, 5.0]
    assert spread_ms([0.001, 0.002, 0.009]) == {"n": 3, "p50_ms": 2.0, "p99_ms": 9.0, "max_ms": 9.0}
