"""The process is copied, mostly past the at-fork hooks. Every copy finds out at its first call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS

COPYING = Path(__file__).with_name("copying.py")


def copies_of(scenario: str) -> list[dict[str, Any]]:
    """Run the script; the reports of the original and of its copies."""
    done = subprocess.run(
        [sys.executable, COPYING, scenario], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    reports: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return reports


@pytest.mark.parametrize("scenario", ["raw_clone", "raw_fork", "os_fork", "equal_number", "number_alone"])
def test_each_copy_has_a_life_of_its_own_and_the_original_keeps_its(scenario: str) -> None:
    """Two copies of one state and a copy of a copy: four different lives, found by the first call in each (C01)."""
    original, *copies = copies_of(scenario)
    assert original["incarnation"] == original["born_in"] == original["at_the_end"]
    assert (original["used"], original["kind"]) == ("connection", None)
    for copy in copies:
        assert (copy["used"], copy["kind"]) == ("stale", "copied")
        assert copy["before"] == original["born_in"]
        assert copy["incarnation"] == copy["after"] == copy["at_the_end"]
        assert not copy["told_again"]
    assert len({report["incarnation"] for report in (original, *copies)}) == 4


@pytest.mark.parametrize(
    ("scenario", "hooks"), [("raw_clone", [0, 0, 0]), ("raw_fork", [0, 0, 0]), ("os_fork", [1, 1, 2])]
)
def test_a_raw_clone_really_goes_past_the_hooks(scenario: str, hooks: list[int]) -> None:
    """Otherwise the test above would show nothing."""
    assert [copy["hooks_run"] for copy in copies_of(scenario)[1:]] == hooks


def test_a_lock_held_by_another_thread_does_not_hang_the_copy() -> None:
    """The copied lock is held by a thread that does not exist in the copy."""
    original, copy = copies_of("lock_held")
    assert copy.get("kind") == "copied", copy
    assert copy["used"] == "stale"
    assert (original["used"], original["kind"]) == ("connection", None)


def test_a_copy_made_inside_a_check_is_found_by_that_check() -> None:
    """Both copies go on inside the same check; one of them is told."""
    original, copy = copies_of("mid_check")
    assert original == {
        "kind": None, "incarnation": original["born_in"], "born_in": original["born_in"], "used": "connection"
    }  # fmt: skip
    assert (copy["kind"], copy["used"]) == ("copied", "stale")
    assert copy["incarnation"] != original["incarnation"]


def test_a_copy_made_while_a_life_begins_does_not_share_its_name() -> None:
    """Both copies hold the half of a name that was drawn already, random bytes and all."""
    original, copy = copies_of("mid_birth")
    assert original["incarnation"] == original["again"]
    assert copy["incarnation"] == copy["again"] != original["incarnation"]
