"""What `pip install .` gives to somebody who has only the package."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed and return what it printed."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with pip, from the tree as it is."""
    place = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", place, ROOT, cwd=place)
    (built,) = place.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_is_whole(wheel: Path) -> None:
    """Every file of the package is in the wheel: code, SQL and the mark that torpor is typed."""
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "torpor").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - packed == set()
    assert "torpor/py.typed" in packed
    for database in ("sqlite", "postgres"):
        assert f"torpor/store/sql/{database}/0001_initial.sql" in packed
    assert any(name.endswith("licenses/LICENSE") for name in packed)


@pytest.mark.slow
def test_an_installed_torpor_works(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, with nothing but its runtime requirements, torpor starts and can be imported."""
    venv.create(tmp_path / "venv", with_pip=False)
    bin_folder = tmp_path / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", bin_folder / "python")
    install = ("install", "--quiet", "--no-compile")  # compiling every package takes longer than all else here
    run(*pip, *install, "--constraint", ROOT / "requirements" / "runtime.txt", wheel, cwd=tmp_path)
    assert run(bin_folder / "torpor", "--version", cwd=tmp_path).split() == ["torpor", VERSION]
    run(bin_folder / "python", "-c", "from torpor import App, Context", cwd=tmp_path)
    assert "worker" in run(bin_folder / "python", "-m", "torpor", "--help", cwd=tmp_path)


def test_the_requirements_are_pinned() -> None:
    """Each line of a lock names one version, and development installs exactly what runs."""
    locks = {
        name: [
            line
            for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")
        ]
        for name in ("runtime", "development")
    }
    assert [line for lines in locks.values() for line in lines if "==" not in line] == []
    pins = {
        name: {line.partition(";")[0].strip() for line in lines} for name, lines in locks.items()
    }  # a marker may differ
    assert pins["runtime"] <= pins["development"]
