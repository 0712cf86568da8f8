"""Metrics of a real worker, scraped over HTTP and read strictly; log lines as JSON."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.errors import UsageError
from torpor.store.opening import open_store
from torpor.worker import exposition
from torpor.worker.exposition import Exposition, label, text
from torpor.worker.measured import BOUNDS_SECONDS, Counters
from torpor.worker.worker import Worker

if TYPE_CHECKING:
    import subprocess

    from tests.cli.shell import Shell

SAMPLE = re.compile(r'(torpor_[a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\[\\"n])*"\})? (-?[0-9][0-9.e+-]*)')


def strictly(page: str) -> dict[str, float]:
    """Return every sample by name and label; each metric has its HELP and TYPE first, once, and its samples together."""
    found: dict[str, float] = {}
    kinds: dict[str, str] = {}
    present = ""
    assert page.endswith("\n")
    for line in page.splitlines():
        if line.startswith("# HELP "):
            present = line.split()[2]
            assert present not in kinds
            assert len(line.split()) > 3
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == present
            kinds[name] = kind
            assert (kind == "counter") == name.endswith("_total")
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            name = match[1]
            if kinds[present] == "histogram":
                name = re.sub("_(bucket|sum|count)$", "", name)
            assert name == present
            place = match[1] + (match[2] or "")
            assert place not in found
            found[place] = float(match[3])
    for name in (name for name, kind in kinds.items() if kind == "histogram"):
        buckets = [value for place, value in found.items() if place.startswith(f"{name}_bucket")]
        assert buckets == sorted(buckets)
        assert len(buckets) == len(BOUNDS_SECONDS) + 1
        assert buckets[-1] == found[f"{name}_count"]
    return found


def scrape(url: str, method: str = "GET") -> str:
    """Ask for a page."""
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - our own
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return str(answer.read().decode())


def said(worker: subprocess.Popen[str], words: str) -> str:
    """Return the line of standard error that has these words."""
    assert worker.stderr is not None
    for line in worker.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}")


@pytest.mark.slow
def test_a_worker_is_scraped(shell: Shell) -> None:
    """Its own counts and the store's, in the text format; another path or method is refused."""
    store = open_store(f"sqlite:///{shell.folder / 'torpor.db'}")
    store.close_now()
    with shell.going("worker", "shop.py", "--metrics-port", "0", "--log-format", "json") as worker:
        url = said(worker, "metrics at ").split("metrics at ")[1].strip()
        shell.ok("start", "double", "4")
        shell.ok("start", "naps", "3600")
        found = strictly(scrape(url))
        assert found["torpor_up_to_date"] == 1
        assert found["torpor_workers"] == 1
        assert set(found) >= {
            'torpor_runs{state="waiting"}',
            'torpor_ready_runs{program="double"}',
            "torpor_oldest_ready_seconds",
            "torpor_people_waits",
            "torpor_takeovers_total",
            "torpor_worker_shut",
            "torpor_rousals_total",
            "torpor_refused_commits_total",
            "torpor_waker_late_seconds",
            "torpor_sqlite_wal_bytes",
            "torpor_outbox_messages",
            "torpor_claim_seconds_count",
            "torpor_commit_seconds_sum",
        }
        assert scrape(url, "HEAD") == ""
        for wrong, method, code in ((url + "x", "GET", 404), (url, "POST", 405)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                scrape(wrong, method)
            assert refused.value.code == code
            refused.value.close()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 0


def test_the_store_is_asked_once_for_many_scrapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten scrapers at once are one transaction; what cannot be asked is left out and said."""
    monkeypatch.setattr(exposition, "READ_SECONDS", 3600.0)

    async def main() -> None:
        store = open_store(":memory:")
        worker = Worker(store, {})
        async with Exposition(store, worker, Counters(), host="127.0.0.1", port=0) as metrics:
            pages = await asyncio.gather(*[metrics.page() for _ in range(10)])
            assert metrics.reads == 1
            assert len(set(pages)) == 1
            with pytest.raises(UsageError, match=f"--metrics-port {metrics.port} of 127.0.0.1 cannot be listened on"):
                await Exposition(store, worker, Counters(), host="127.0.0.1", port=metrics.port).__aenter__()
        await store.close()

    asyncio.run(main())
    without = strictly(text(Counters(), 0, None, None))
    assert without["torpor_up_to_date"] == 0
    assert "torpor_workers" not in without


def test_labels_are_escaped() -> None:
    r"""A program's name cannot break out of its label: `\`, `"` and line ends."""
    assert label("program", 'a"b\\c\nd') == r'{program="a\"b\\c\nd"}'


@pytest.mark.slow
def test_log_lines_as_json(shell: Shell) -> None:
    """With `--log-format json` each log line is one JSON object; what is said to people is not among them."""
    shell.ok("start", "double", "4", "--app", "shop.py")
    done = shell.run("worker", "shop.py", "--until-idle", "--log-format", "json", "--lease-seconds", "5")
    assert done.code == 0
    lines = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    assert all({"at", "level", "logger", "event"} <= set(line) for line in lines)
