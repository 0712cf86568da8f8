"""The floors of the house, and proof that the contracts in pyproject.toml would catch a trespasser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

LINTER = str(Path(sys.executable).with_name("lint-imports"))

TRESPASSES = {
    "core-store": ("core", "torpor.store"),
    "core-clock": ("core", "torpor.clock"),
    "store-engine": ("store", "torpor.engine"),
    "sdk-engine": ("sdk", "torpor.engine"),
    "sdk-store": ("sdk", "torpor.store.protocol"),
    "engine-sdk": ("engine", "torpor.sdk"),
    "engine-database": ("engine", "torpor.store.sqlite"),
    "engine-migrate": ("engine", "torpor.store.migrate"),
    "worker-runtime": ("worker", "torpor.runtime"),
    "worker-waker": ("worker", "torpor.waker"),
    "agent-store": ("agent", "torpor.store.values"),
    "agent-engine": ("agent", "torpor.engine"),
    "agent-worker": ("agent", "torpor.worker"),
    "sdk-agent": ("sdk", "torpor.agent"),
    "rouse-errors": ("rouse", "torpor.errors"),
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
def test_every_import_goes_down(tmp_path: Path) -> None:
    """Each room imports only from the floors below it, also for types only."""
    result = lint(ROOT, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("room", "forbidden"), TRESPASSES.values(), ids=TRESPASSES.keys())
def test_a_trespasser_is_caught(tmp_path: Path, room: str, forbidden: str) -> None:
    """An import against the floors breaks a contract even if it is there for a type only."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    trespass = tmp_path / "src" / "torpor" / room / "trespass.py"
    trespass.write_text(
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {forbidden}\n", encoding="utf-8"
    )
    result = lint(tmp_path, tmp_path / "cache")
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"torpor.{room}.trespass" in result.stdout
