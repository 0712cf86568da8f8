"""Disks for guests, and commands that must succeed."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class CannotBuildError(RuntimeError):
    """The guest cannot be made on this machine; the message says why, and what to do."""


def disk_of(folder: Path, place: Path, megabytes: int) -> None:
    """Make an ext4 disk of a folder; what is empty takes no room."""
    with place.open("wb") as opened:
        opened.truncate(megabytes << 20)
    options = "lazy_itable_init=0,root_owner=0:0"
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", options, "-d", str(folder), str(place))


def run(*argv: str, cwd: Path | None = None) -> None:
    """Run a command that must succeed; it ends with us.

    Raises:
        CannotBuildError: it failed, or is not installed; with the end of what it said.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for program in ("setpriv", argv[0]):
        if shutil.which(program, path=path) is None:
            raise CannotBuildError(f"{program} is not installed\nhint: make apt")
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        check=False,
        env={**os.environ, "PATH": path},
    )
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-8:])
        raise CannotBuildError(f"{argv[0]} failed ({done.returncode}):\n{end}\nhint: it needs root and a network")
