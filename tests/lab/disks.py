"""Disks for guests, and commands that must succeed."""

from __future__ import annotations

import os
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
    there = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    asked = ["setpriv", "--pdeathsig", "KILL", *argv]
    try:
        done = subprocess.run(
            asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, check=False, env=there
        )  # fmt: skip
    except FileNotFoundError as error:
        raise CannotBuildError(f"{error.filename} is not installed\nhint: make apt") from error
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-8:])
        raise CannotBuildError(f"{argv[0]} failed ({done.returncode}):\n{end}\nhint: it needs root and a network")
