"""What the guest is made of: Debian with Python and Node, Debian's kernel, and the libraries that torpor runs on.

Three things, each kept by itself (`kept.py`): `system` (the root's disk, the kernel and its modules), `library` (what pip
installs for the guest's Python), and the initrd, which takes a moment and is made for each booted machine. torpor's own
source is in none of them: it comes on a disk of its own (`source_disk`), made anew for each run of the tests.
"""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from tests.lab.debian import PYTHON, system
from tests.lab.disks import disk_of, run

if TYPE_CHECKING:
    from tests.lab.kept import Kept

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).parent / "guest"

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
LIBRARY_MEGABYTES, SOURCE_MEGABYTES = 512, 64


def library(kept: Kept) -> Path:
    """Return the folder with `library.img`: torpor's requirements, psycopg, numpy and httpx as they are pinned."""
    constraints = pins()
    return kept.get("library", [*constraints, *wanted(), *PLATFORMS], lambda folder: _make_library(folder, constraints))


def initrd(kept: Kept, place: Path) -> Path:
    """Make `place`: the modules, busybox, and what runs first in the guest. Takes a moment."""
    folder = place.with_suffix(".d")
    tree = folder / "tree"
    for name in ("bin", "proc", "sys", "dev", "new", "modules", "lab"):
        (tree / name).mkdir(parents=True)
    made = system(kept)
    shutil.copy(made / "busybox", tree / "bin/busybox")
    for module in (made / "modules").iterdir():
        shutil.copy(module, tree / "modules" / module.name)
    shutil.copy(GUEST / "init", tree / "init")
    for name in ("first", "agent.py"):
        shutil.copy(GUEST / name, tree / "lab" / name)
    for program in (tree / "init", tree / "lab/first"):
        program.chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with place.open("wb") as opened:
        asked = ["cpio", "--create", "--format=newc", "--quiet"]
        subprocess.run(asked, input=names.encode(), stdout=opened, cwd=tree, check=True)
    shutil.rmtree(folder)
    return place


def source_disk(place: Path) -> Path:
    """Make `place`, a read-only disk with torpor as it is here and the programs that tests run in a guest."""
    folder = place.with_suffix(".d")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(GUEST / "programs", folder / "programs", ignore=shutil.ignore_patterns("__pycache__"))
    if sys.version_info[:2] == PYTHON[:2]:  # the guest would compile it anew in each life
        mode = compileall.py_compile.PycInvalidationMode.UNCHECKED_HASH  # type: ignore[attr-defined] # it imports it
        compileall.compile_dir(str(folder / "src"), quiet=2, invalidation_mode=mode)
    disk_of(folder, place, SOURCE_MEGABYTES)
    shutil.rmtree(folder)
    return place


def pins() -> list[str]:
    """Return the pinned versions that hold for the guest's Python, as constraints."""
    version = ".".join(map(str, PYTHON))
    there = {"python_full_version": version, "python_version": "3.11", "sys_platform": "linux", "os_name": "posix"}
    lines = (ROOT / "requirements/development.txt").read_text().splitlines()
    asked = [Requirement(line) for line in lines if line and not line.startswith("#")]
    hold = [each for each in asked if each.marker is None or each.marker.evaluate(there)]
    return [f"{each.name}{each.specifier}" for each in hold]


def wanted() -> list[str]:
    """Return what the guest's Python gets: torpor's own requirements, PostgreSQL's driver, and what the tests look at."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["postgres"], "httpx", "numpy"]


def _make_library(folder: Path, constraints: list[str]) -> None:
    (folder / "constraints.txt").write_text("\n".join(constraints))
    tree = folder / "tree"
    version = ".".join(map(str, PYTHON[:2]))
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tree), "--python-version", version,
        "--implementation", "cp", *platforms, "--only-binary=:all:", "--constraint", str(folder / "constraints.txt"), *wanted(),
    )  # fmt: skip
    disk_of(tree, folder / "library.img", LIBRARY_MEGABYTES)
    shutil.rmtree(tree)
