"""The proof of the agent's demo can fail: each thing that must be equal is seen if it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from torpor.demo.agent.deaths import STREAM, Death, between, committed
from torpor.demo.agent.errand import Request
from torpor.demo.agent.play import Played
from torpor.demo.agent.proof import Point, Proof
from torpor.engine import commit as commits
from torpor.engine import leases, streams
from torpor.testing import Place
from torpor.testing.showing import Line

AFTER = Point(Place.AFTER, 1, "outcome model#1")
LOST = Point(Place.ACTED, 1, "model")


def outcome(key: str, value: Any) -> Line:
    """Return an entry of a journal."""
    return Line(1, 0, 1, "outcome", key, value)


def played(**changed: Any) -> Played:
    """Return a run of two requests, one tool call and one commit."""
    answer = {"usage": {"input_tokens": 100, "output_tokens": 20}}
    journal = [outcome("model#1", answer), outcome("commit@0", {"value": "done"}), outcome("model#1", answer)]
    asked = [Request("a", 1, 1), Request("b", 3, 1)]
    given: dict[str, Any] = {"run": "r", "state": "completed", "result": "yes", "journal": journal, "text": "said"}
    return Played(**{**given, "asked": asked, "commits": ["c"], "takeovers": 1, "settled": 0, **changed})


def test_equal_runs_are_proven() -> None:
    """And the numbers are those of `--json`."""
    proof = Proof(played())
    assert proof.take([AFTER], played())
    assert proof.take([LOST], played(asked=[Request("a", 1, 1), Request("a", 1, 2), Request("b", 3, 2)]))
    assert proof.complaints == []
    assert proof.numbers() == {
        "points": 2,
        "model_calls_repeated": 0,
        "paid_lost": 1,
        "effects_repeated": 0,
        "usage_equal": True,
        "commits": 1,
    }
    assert all(fine for _, _, fine in proof.table())


TWICE = [Request("a", 1, 1), Request("a", 1, 2), Request("b", 3, 2)]


@pytest.mark.parametrize(
    ("point", "changed", "said"),
    [
        (AFTER, {"asked": TWICE}, "1 model calls were repeated, 0 may be"),
        (LOST, {"asked": [*TWICE, Request("b", 3, 2)]}, "2 model calls were repeated, 1 may be"),
        (AFTER, {"asked": [Request("a", 1, 1), Request("x", 3, 1)]}, "the model was told something else"),
        (AFTER, {"asked": [Request("b", 3, 1), Request("a", 1, 1)]}, "something else in the end"),
        (AFTER, {"commits": ["c", "d"]}, "git has 2 commits"),
        (AFTER, {"commits": []}, r"its commits are \[\]"),
        (AFTER, {"text": "said said"}, "its stream says 'said said'"),
        (AFTER, {"result": "no"}, "its result is no"),
        (AFTER, {"journal": played().journal[:2]}, "usage is"),
        (AFTER, {"journal": [*played().journal, outcome("commit@0", {"value": "done"})]}, "tools gave something else"),
    ],
)
def test_what_differs_is_seen(point: Point, changed: dict[str, Any], said: str) -> None:
    """In words, with the point and the run."""
    proof = Proof(played())
    assert not proof.take([point], played(**changed))
    assert any(said.replace("\\", "") in complaint for complaint in proof.complaints), proof.complaints
    assert all(complaint.startswith(str(point)) and complaint.endswith("(r)") for complaint in proof.complaints)
    assert not all(fine for _, _, fine in proof.table())


def test_a_demo_in_which_nobody_died_proves_nothing() -> None:
    """It says so; without a run to compare with, answers and requests are counted."""
    proof = Proof(None)
    assert proof.take([], replace(played()))
    proof.expect_deaths(0, 2)
    assert proof.complaints == ["2 workers were to be killed, it was 0"]
    assert not proof.take([LOST], played(asked=[Request("a", 1, 1)]))
    assert not proof.usage_equal


def test_the_places_where_an_answer_can_be_lost() -> None:
    """Before the record of an answer, and after a piece of its text; nowhere else."""
    assert between(Place.ACTED, "model")
    assert between(Place.BEFORE, "outcome model#1")
    assert between(Place.AFTER, STREAM)
    assert not between(Place.AFTER, "outcome model#1")
    assert not between(Place.ACTED, "commit")
    assert not between(Place.BEFORE, "intent commit@0, outcome git_log@0")


def test_commit_points_have_names() -> None:
    """Commits, claims and pieces of a stream are points; reading is none."""
    assert committed(leases.claim, ()) == "a claim"
    assert committed(streams.append, ([],)) == STREAM
    assert committed(commits.commit, ([],)) == "a commit"
    assert committed(len, ()) == ""


def test_a_death_is_counted_where_it_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the n-th time, at its place, with its doing; a SIGSTOP for a freeze."""
    killed: list[Any] = []
    monkeypatch.setattr("torpor.demo.agent.deaths.os.kill", lambda _, number: killed.append(number.name))
    monkeypatch.setattr("torpor.demo.agent.deaths.say", lambda **_: None)
    death = Death(Place.ACTED, 2, "commit", freeze=True)
    for place, what in ((Place.ACTED, "commit"), (Place.AFTER, "commit"), (Place.ACTED, "check")):
        death.at(place, what)
    assert killed == []
    death.at(Place.ACTED, "commit")
    death.at(Place.ACTED, "commit")
    assert killed == ["SIGSTOP"]
