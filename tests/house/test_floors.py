"""Proof that the contracts in pyproject.toml, which `make check` holds the house to, would catch a trespasser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

LINTER = str(Path(sys.executable).with_name("lint-imports"))

TRESPASSES = {
    "core_store": ("core", "torpor.store"),
    "core_clock": ("core", "torpor.clock"),
    "store_engine": ("store", "torpor.engine"),
    "sdk_engine": ("sdk", "torpor.engine"),
    "sdk_store": ("sdk", "torpor.store.protocol"),
    "engine_sdk": ("engine", "torpor.sdk"),
    "engine_database": ("engine", "torpor.store.sqlite"),
    "engine_migrate": ("engine", "torpor.store.migrate"),
    "worker_runtime": ("worker", "torpor.runtime"),
    "worker_waker": ("worker", "torpor.waker"),
    "agent_store": ("agent", "torpor.store.values"),
    "agent_engine": ("agent", "torpor.engine"),
    "agent_worker": ("agent", "torpor.worker"),
    "sdk_agent": ("sdk", "torpor.agent"),
    "rouse_errors": ("rouse", "torpor.errors"),
}
"""Room and what it must not import."""


def lint(folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over the torpor in `folder`."""
    return subprocess.run(
        [LINTER, "--config", str(folder / "pyproject.toml"), "--cache-dir", str(cache)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_every_trespasser_is_caught(tmp_path: Path) -> None:
    """An import against the floors is named with its line, even if it is there for a type only; nobody else is."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (room, forbidden) in TRESPASSES.items():
        trespass = tmp_path / "src" / "torpor" / room / f"trespass_{name}.py"
        trespass.write_text(
            f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {forbidden}\n", encoding="utf-8"
        )
    result = lint(tmp_path, tmp_path / "cache")
    assert result.returncode == 1, result.stdout + result.stderr
    first_links = set(re.findall(r"^-\s+(torpor\.\S+) -> (\S+)", result.stdout, flags=re.MULTILINE))
    planted = {(f"torpor.{room}.trespass_{name}", forbidden) for name, (room, forbidden) in TRESPASSES.items()}
    assert first_links == planted, result.stdout
