"""The judge can say no: each check against a history that is right, and against one that is wrong in one place."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import checks, plans
from tests.faults.history import History, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Lines = list[dict[str, Any]]
ACTS: list[list[plans.Act]] = [
    [
        {"kind": kind, "place": f"1/{n}"}
        for n, kind in enumerate(("once", "keyed", "verify", "transactional", "budget"))
    ],
    [{"kind": "timer", "place": "1/5", "seconds": 1.0}, {"kind": "hear", "place": "1/6", "count": 3}],
    [{"kind": "child", "place": "1/7", "turns": [[{"kind": "once", "place": "1/7/0"}]]}],
]
VALUES = {"1/5": 5_000, "1/6": [["ana", 1], ["ben", 1], ["ana", 2]], "1/7": [["1/7/0", "once", "once 1/7/0"]]}


def right() -> Lines:
    """Return the lines of two runs that went well, the second cancelled under way."""
    acts = [act for turn in ACTS for act in turn]
    result = [[act["place"], act["kind"], VALUES.get(act["place"], plans.value_of(act))] for act in acts]
    called = [("once", "1/0"), ("keyed", "1/1"), ("keyed", "1/1"), ("verify", "1/2"), ("once", "1/7/0")]
    return [
        {"what": "planned", "key": "r1", "acts": deepcopy(ACTS), "messages": {"ana": 2, "ben": 1}},
        {"what": "planned", "key": "r2", "acts": deepcopy(ACTS), "messages": {}},
        {"what": "started", "key": "r1", "run": "errand-A"},
        {"what": "started", "key": "r2", "run": "errand-B"},
        *(
            {"what": "sent", "run": "errand-A", "sender": sender, "n": n}
            for sender, n in [("ana", 1), ("ana", 2), ("ben", 1)]
        ),
        {"what": "cancelled", "run": "errand-B", "head": 9},
        *(
            {"what": "call", "kind": kind, "place": place, "key": f"k{place}", "run": "errand-A"}
            for kind, place in called
        ),
        {"what": "ended", "key": "r1", "run": "errand-A", "state": "completed", "result": result},
        {"what": "ended", "key": "r2", "run": "errand-B", "state": "cancelled", "result": None},
        {"what": "journal", "run": "errand-A", "gaps": [], "epochs_fall": []},
        {"what": "intent", "run": "errand-B", "place": "2/0", "seq": 9},
        {"what": "timer", "run": "errand-A", "stored_at": 5_000},
        {"what": "trouble", "run": "errand-A", "kind": "poison", "title": "it kills workers"},
        {"what": "booked", "place": "1/3", "times": 1},
        {"what": "money", "spent": plans.COST_MICROS, "reserved": 0},
    ]


def line_of(lines: Lines, what: str, **fits: Any) -> dict[str, Any]:
    """Return the first line of a kind that has these values."""
    return next(line for line in lines if line["what"] == what and all(line[name] == fits[name] for name in fits))


def again(what: str, **fits: Any) -> Callable[[Lines], None]:
    """Return what writes a line a second time."""
    return lambda lines: lines.append(dict(line_of(lines, what, **fits)))


def without(what: str, **fits: Any) -> Callable[[Lines], None]:
    """Return what takes a line away."""
    return lambda lines: lines.remove(line_of(lines, what, **fits))


def changed(what: str, to: dict[str, Any], **fits: Any) -> Callable[[Lines], None]:
    """Return what changes a line."""
    return lambda lines: line_of(lines, what, **fits).update(to)


def value(place: str, given: Any) -> Callable[[Lines], None]:
    """Return what changes what came of an act."""

    def change(lines: Lines) -> None:
        next(one for one in line_of(lines, "ended", key="r1")["result"] if one[0] == place)[2] = given

    return change


WRONG = {
    "an entry is missing from a journal": ("g1_one_writer", changed("journal", {"gaps": [4]})),
    "an epoch falls": ("g1_one_writer", changed("journal", {"epochs_fall": [1]})),
    "a run is not in the store": ("g3_no_run_is_lost", without("ended", key="r1")),
    "a run is still open": ("g3_no_run_is_lost", changed("ended", {"state": "waiting"}, key="r1")),
    "a run was cancelled unasked": ("g3_no_run_is_lost", changed("ended", {"state": "cancelled"}, key="r1")),
    "a run was started twice": ("g3_no_run_is_lost", again("started", key="r1")),
    "a start was never acknowledged": ("g3_no_run_is_lost", without("started", key="r2")),
    "an act is missing": ("g3_results_are_right", lambda lines: line_of(lines, "ended", key="r1")["result"].pop(4)),
    "an act gave another's value": ("g3_results_are_right", value("1/4", "budget 9/9")),
    "an effect failed": ("g3_results_are_right", value("1/0", "failed: OSError: gone")),
    "a child's act gave nothing": ("g3_results_are_right", value("1/7", [["1/7/0", "once", None]])),
    "a once effect was repeated": ("g4_once_effects_are_not_repeated", again("call", kind="once")),
    "a once effect of a child was repeated": ("g4_once_effects_are_not_repeated", again("call", place="1/7/0")),
    "a verify effect was repeated": ("g4_once_effects_are_not_repeated", again("call", kind="verify")),
    "a once effect never happened": ("g4_once_effects_are_not_repeated", without("call", kind="once")),
    "a keyed effect had two keys": ("g5_keyed_effects_keep_their_key", changed("call", {"key": "other"}, kind="keyed")),
    "two effects had one key": ("g5_keyed_effects_keep_their_key", changed("call", {"key": "k1/0"}, kind="verify")),
    "a row was written twice": ("g6_transactional_effects_happen_once", changed("booked", {"times": 2})),
    "a row is missing": ("g6_transactional_effects_happen_once", without("booked")),
    "a message was heard twice": (
        "g7_every_signal_is_consumed_once_in_order",
        value("1/6", [["ana", 1], ["ana", 1], ["ana", 2]]),
    ),
    "messages were heard out of order": (
        "g7_every_signal_is_consumed_once_in_order",
        value("1/6", [["ana", 2], ["ben", 1], ["ana", 1]]),
    ),
    "a message that nobody acknowledged was heard": ("g7_every_signal_is_consumed_once_in_order", without("sent", n=2)),
    "a timer was early": ("g8_timers_are_not_early", changed("timer", {"stored_at": 4_999})),
    "a timer fired twice": ("g8_timers_are_not_early", again("timer")),
    "an intent came after the cancel": ("g12_a_cancel_holds", changed("intent", {"seq": 10})),
    "a run diverged": ("g13_only_expected_trouble", changed("trouble", {"kind": "diverged"})),
    "a worker wrote a traceback": (
        "g13_only_expected_trouble",
        lambda lines: lines.append({"what": "noticed", "line": "w0: Traceback"}),
    ),
    "money was spent twice": (
        "budgets_add_up",
        changed("money", {"spent": 2 * plans.COST_MICROS + checks.HELD_MICROS}),
    ),
    "money is held for ever": ("budgets_add_up", changed("money", {"reserved": 1})),
}


def test_a_right_history_passes() -> None:
    """Nothing is wrong with it."""
    assert checks.judge(History(lines=right())) == []


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_history_is_found(what: str) -> None:
    """The check that is meant to find it does."""
    name, spoil = WRONG[what]
    lines = right()
    spoil(lines)
    assert name in {line.partition(":")[0] for line in checks.judge(History(lines=lines))}


def test_every_check_can_fail() -> None:
    """No check is without a history that it finds wrong."""
    assert {name for name, _ in WRONG.values()} == {check.__name__ for check in checks.CHECKS}


def test_a_seed_draws_the_same_runs() -> None:
    """The same seed draws the same plans; places differ, and a turn has one timer and one ear at most."""
    drawn = [plans.draw(Random("7"), n) for n in range(50)]  # noqa: S311 - plans that can be repeated
    assert drawn == [plans.draw(Random("7"), 0), *drawn[1:]]  # noqa: S311 - the same
    places = [act["place"] for plan in drawn for act in plans.acts_of(plan.turns)]
    assert len(places) == len(set(places))
    turns = [[act["kind"] for act in turn] for plan in drawn for turn in plan.turns]
    assert all(turn.count("timer") <= 1 and turn.count("hear") <= 1 for turn in turns)


def test_a_history_is_kept_and_read_again(tmp_path: Path) -> None:
    """What was written while it happened can be judged later."""
    history = History(tmp_path / "history.jsonl")
    for line in right():
        history.add(**line)
    history.close()
    assert checks.judge(read(tmp_path / "history.jsonl")) == []
    assert read(tmp_path / "history.jsonl").count("call") == 5
