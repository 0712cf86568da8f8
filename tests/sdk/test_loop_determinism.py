"""The same body over the same answers does the same things, in any process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(__file__).with_name("flow_programs.py")

LEAVES = st.one_of(
    st.just(["call"]), st.just(["fail"]), st.tuples(st.just("sleep"), st.integers(0, 4)).map(list), st.just(["call"])
)
MANY = ("sequence", "gathered", "grouped", "first", "completed")
ONE = ("attempted", "locked", "queued", "signalled", "shielded", "spawned", "half_read")


def _larger(children: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Any]]:
    return st.one_of(
        st.tuples(st.sampled_from(MANY), st.lists(children, min_size=1, max_size=9)).map(list),
        st.tuples(st.sampled_from(ONE), children).map(list),
        st.tuples(st.sampled_from(("limited", "waited")), st.integers(1, 3), children).map(list),
    )


DOCUMENTS = st.fixed_dictionaries(
    {
        "program": st.recursive(LEAVES, _larger, max_leaves=16),
        "choices": st.lists(st.integers(0, 1000), min_size=1, max_size=12),
        "close_after": st.one_of(st.just(-1), st.integers(0, 8)),
    }
)


class Runner:
    """A process that runs programs."""

    def __init__(self, seed: int, *arguments: str) -> None:
        """Start it with a hash seed of its own."""
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
        )

    def trace(self, document: dict[str, Any]) -> list[str]:
        """Run one program there."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(document) + "\n")
        self.process.stdin.flush()
        trace: list[str] = json.loads(self.process.stdout.readline())
        return trace

    def stop(self) -> None:
        """End it."""
        self.process.communicate()


@pytest.fixture(scope="module")
def runners() -> Iterator[list[Runner]]:
    """Two processes with different hash seeds, and one whose tasks hash in another order."""
    started = [Runner(1), Runner(77), Runner(1, "other-hashes")]
    yield started
    for runner in started:
        runner.stop()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(document=DOCUMENTS)
def test_a_body_runs_the_same_way_in_every_process(runners: list[Runner], document: dict[str, Any]) -> None:
    """Programs of asyncio's combinators leave equal traces in processes with different addresses and hash seeds."""
    assert runners[0].trace(document) == runners[1].trace(document)


def test_the_comparison_notices_another_hash(runners: list[Runner]) -> None:
    """Were tasks to hash by something else than their number, the traces would differ."""
    document = {"program": ["first", [["call"]] * 7], "choices": [1], "close_after": -1}
    assert runners[0].trace(document) != runners[2].trace(document)
    assert any("done ['Task-3'] pending" in line for line in runners[0].trace(document))
