"""The repository that the agent works on: made anew each time, commit for commit the same, and asked afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from importlib.resources import files
from typing import TYPE_CHECKING

from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMMITS = 6
"""So many commits it has at the beginning."""
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,  # what a user's own git is set to would make other commits
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
PUT_BACK_TRIES = 50
WHO = "Maintenance agent <agent@example.org>"


def need_git() -> None:
    """Raise UsageError if there is no git."""
    if shutil.which("git") is None:
        raise UsageError("the agent works on a git repository, and git is not installed", hint="apt-get install git")


def make(place: Path) -> None:
    """Make the repository in a folder that does not exist yet. Blocking. Raises UsageError."""
    place.mkdir(parents=True)
    git(place, "init", "--quiet", "--initial-branch=main", "--template=")
    stream = files("torpor.demo.agent").joinpath("repository.fi").read_bytes()
    git(place, "fast-import", "--quiet", stdin=stream)
    git(place, "reset", "--quiet", "--hard", "main")


def git(place: Path, *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> str:
    """Run git in a repository and return what it prints. Blocking. Raises UsageError with what git says."""
    done = subprocess.run(  # noqa: S603 - words of this program, no shell
        ["git", *words],  # noqa: S607 - the git that is on the path
        cwd=place,
        input=stdin,
        capture_output=True,
        env={**os.environ, **ENVIRONMENT, **(environment or {})},
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        raise UsageError(f"git {words[0]}: {said}")
    return done.stdout.decode("utf-8", "replace")


def commits(place: Path) -> list[str]:
    """Return the ids of the commits above the ones it began with, oldest first, on whatever branch. Blocking."""
    found = git(place, "rev-list", "--all", "--reverse", "--topo-order").split()
    return found[COMMITS:]


def put_back(place: Path) -> None:
    """Put the files back to the last commit: what an attempt that died had half done. Blocking. Raises UsageError.

    The git that it had started may live a moment longer, and holds the index until it is done.
    """
    for last in (*[False] * PUT_BACK_TRIES, True):
        try:
            git(place, "reset", "--quiet", "--hard")
        except UsageError:
            if last:
                raise
            time.sleep(0.1)
        else:
            return


def told(place: Path, commit: str) -> str:
    """Return what the agent's tool says of a commit. Blocking."""
    return git(place, "show", "--no-patch", "--format=committed %h: %s", "--abbrev=10", commit).strip()
