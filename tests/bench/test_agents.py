"""`bench/agents.py` as it is called: small; each part ends and says what is compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "agents.py"


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_each_figure_is_measured(where: str, server_url: Callable[[str], str]) -> None:
    """On both stores, with a few turns and agents."""
    store = "sqlite" if where == "sqlite" else server_url("postgres")
    what = [
        "overhead",
        "resumed",
        "crowd",
        "--store",
        store,
        "--turns",
        "3",
        "--pairs",
        "1",
        "--agents",
        "3",
        "--many",
        "60",
    ]
    done = subprocess.run([sys.executable, str(SCRIPT), *what], check=True, capture_output=True, text=True)
    overhead, resumed, crowd = (json.loads(line) for line in done.stdout.splitlines())
    assert overhead["durable_ms"][1] > overhead["bare_ms"][1] > 0
    assert resumed["few_ms"][0] > 0
    assert resumed["many_ms"][0] > 0
    assert crowd["agents"] == 3
    assert crowd["secs"] > 0
