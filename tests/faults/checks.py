"""What must be true of a history: one function for each promise, and each returns what is wrong, in lines for people.

They know plans and lines (`history`), nothing of torpor: what torpor says of itself is held against what was planned,
acknowledged and counted outside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from tests.faults.plans import COST_MICROS, acts_of, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from tests.faults.history import History, Line
    from tests.faults.plans import Act

FINAL = frozenset({"completed", "cancelled"})
"""Ends that a plan has: no run fails."""


def _completed(history: History) -> Iterator[tuple[Line, Line]]:
    """Yield plan and end of each run that completed."""
    plans = {line["key"]: line for line in history.of("planned")}
    for end in history.of("ended", state="completed"):
        if end["key"]:
            yield plans[end["key"]], end


def _results(turns: list[list[Act]], result: Any) -> Iterator[tuple[Act, Any]]:
    """Yield each act of a plan with what came of it, those of children too."""
    found = {place: value for place, _, value in result or ()}
    for act in (act for turn in turns for act in turn):
        value = found.get(act["place"])
        yield act, value
        if act["kind"] == "child":
            yield from _results(act["turns"], value)


def _counted(history: History, kind: str) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    for line in history.of("call", kind=kind):
        found[line["place"]].append(line)
    return found


def _done(history: History, kind: str) -> Iterator[str]:
    """Yield the places of a kind whose act a completed run says was done."""
    for plan, end in _completed(history):
        for act, value in _results(plan["acts"], end["result"]):
            if act["kind"] == kind and value == value_of(act):
                yield act["place"]


def _never(kind: str, done: Iterable[str], known: Container[str]) -> list[str]:
    return [f"{kind} {place} is said to be done, and never was" for place in done if place not in known]


def g1_one_writer(history: History) -> list[str]:
    """Journals have neither gaps nor an epoch that falls: nobody wrote who had lost his lease."""
    return [
        f"{line['run']}: entries out of place {line['gaps']}, epochs that fall {line['epochs_fall']}"
        for line in history.of("journal")
        if line["gaps"] or line["epochs_fall"]
    ]


def g3_no_run_is_lost(history: History) -> list[str]:
    """Every run whose start was acknowledged is there at the end, and ended as planned."""
    ends = {line["run"]: line for line in history.of("ended")}
    cancelled = {line["run"] for line in history.of("cancelled")}
    wrong = []
    for line in history.of("started"):
        end = ends.get(line["run"])
        if end is None:
            wrong.append(f"{line['run']} ({line['key']}) is not in the store")
        elif end["state"] not in FINAL or (end["state"] == "cancelled" and line["run"] not in cancelled):
            wrong.append(f"{line['run']} ({line['key']}) is {end['state']} at the end")
    keys = Counter(line["key"] for line in history.of("started"))
    planned = {line["key"] for line in history.of("planned")}
    wrong += [f"{key} was planned and never acknowledged" for key in sorted(planned - set(keys))]
    return wrong + [f"{key} was started {times} times" for key, times in keys.items() if times > 1]


def g3_results_are_right(history: History) -> list[str]:
    """A run that completed did every act of its plan, once, in the plan's order, and got what the act gives back."""
    wrong = []
    for plan, end in _completed(history):
        places = [act["place"] for turn in plan["acts"] for act in turn]
        said = [place for place, _, _ in end["result"] or ()]
        if places != said:
            wrong.append(f"{end['run']} did {said}, planned was {places}")
        for act, value in _results(plan["acts"], end["result"]):
            if value is None or value_of(act) not in {None, value if isinstance(value, str) else None}:
                wrong.append(f"{end['run']}: {act['kind']} {act['place']} gave {value!r}")
    return wrong


def g4_once_effects_are_not_repeated(history: History) -> list[str]:
    """What is `once` or `verify` was counted once at most, and once if its run says that it was done."""
    wrong = []
    for kind in ("once", "verify"):
        counted = _counted(history, kind)
        wrong += [
            f"{kind} {place} was counted {len(calls)} times" for place, calls in counted.items() if len(calls) > 1
        ]
        wrong += _never(kind, _done(history, kind), counted)
    return wrong


def g5_keyed_effects_keep_their_key(history: History) -> list[str]:
    """However often a `keyed` effect was called, it had one key, no other effect had it, and it was called if it is done."""
    counted = _counted(history, "keyed")
    owners: dict[str, set[str]] = defaultdict(set)
    for kind in ("keyed", "once", "verify"):
        for line in history.of("call", kind=kind):
            owners[line["key"]].add(line["place"])
    keys = {place: {line["key"] for line in calls} for place, calls in counted.items()}
    wrong = [f"keyed {place} was called with {len(found)} keys" for place, found in keys.items() if len(found) > 1]
    wrong += [f"{sorted(places)} were called with one key" for places in owners.values() if len(places) > 1]
    return wrong + _never("keyed", _done(history, "keyed"), counted)


def g6_transactional_effects_happen_once(history: History) -> list[str]:
    """A row for each, exactly one if its run says that it was done."""
    booked = {line["place"]: line["times"] for line in history.of("booked")}
    wrong = [f"{place} was booked {times} times" for place, times in booked.items() if times > 1]
    return wrong + _never("transactional", _done(history, "transactional"), booked)


def g7_every_signal_is_consumed_once_in_order(history: History) -> list[str]:
    """A run that completed heard each sender from the first message to the last, each once; no acknowledged one is missing."""
    sent: dict[str, Counter[str]] = defaultdict(Counter)
    for line in history.of("sent"):
        sent[line["run"]][line["sender"]] += 1
    wrong = []
    for plan, end in _completed(history):
        heard: dict[str, list[int]] = defaultdict(list)
        for act, value in _results(plan["acts"], end["result"]):
            if act["kind"] == "hear":
                for sender, n in value or ():
                    heard[sender].append(n)
        for sender, count in plan["messages"].items():
            if heard[sender] != list(range(1, count + 1)):
                wrong.append(f"{end['run']} heard {heard[sender]} from {sender}, who sent {count}")
            if sent[end["run"]][sender] < count:
                wrong.append(
                    f"{end['run']} completed, and only {sent[end['run']][sender]} of {sender} were acknowledged"
                )
    return wrong


def g8_timers_are_not_early(history: History) -> list[str]:
    """Each timer was consumed once, not before its moment, by the store's clock."""
    stored: dict[str, list[int]] = defaultdict(list)
    for line in history.of("timer"):
        stored[line["run"]].append(line["stored_at"])
    wrong = []
    for end in history.of("ended", state="completed"):
        due = [value for _, kind, value in end["result"] or () if kind == "timer"]
        if len(due) != len(stored[end["run"]]):
            wrong.append(f"{end['run']} slept {len(due)} times, and was woken {len(stored[end['run']])} times")
        for due_at, at in zip(due, stored[end["run"]], strict=False):
            if at < due_at:
                wrong.append(f"{end['run']}: a timer due at {due_at} was consumed {due_at - at} us early")
    return wrong


def g12_a_cancel_holds(history: History) -> list[str]:
    """No intent was accepted after a cancel had been acknowledged."""
    told = {line["run"]: line["head"] for line in history.of("cancelled")}
    return [
        f"{line['run']}: the intent of {line['place']} came after the cancel"
        for line in history.of("intent")
        if line["run"] in told and line["seq"] > told[line["run"]]
    ]


def g13_only_expected_trouble(history: History) -> list[str]:
    """No worker's log has a line that no fault excuses, and no run asked for help but one whose workers were killed."""
    wrong = [line["line"] for line in history.of("noticed")]
    return wrong + [f"{line['run']}: {line['title']}" for line in history.of("trouble") if line["kind"] != "poison"]


def budgets_add_up(history: History) -> list[str]:
    """What was spent is the cost of every act that completed runs did, at most that of cancelled ones more; nothing is held."""
    cost = held = 0
    plans = {line["key"]: line for line in history.of("planned")}
    for end in history.of("ended"):
        if end["key"]:
            acts = [act for act in acts_of(plans[end["key"]]["acts"]) if act["kind"] == "budget"]
            if end["state"] == "completed":
                cost += COST_MICROS * len(acts)
            else:
                held += HELD_MICROS * len(acts)
    return [
        f"{money['spent']} millionths were spent and {money['reserved']} are held; the acts cost {cost} to {cost + held}"
        for money in history.of("money")
        if not cost <= money["spent"] <= cost + held or money["reserved"]
    ]


HELD_MICROS = 10_000
"""What an act of kind `budget` reserves: so much is spent at most if its run is cancelled in between."""
CHECKS: tuple[Callable[[History], list[str]], ...] = (
    g1_one_writer,
    g3_no_run_is_lost,
    g3_results_are_right,
    g4_once_effects_are_not_repeated,
    g5_keyed_effects_keep_their_key,
    g6_transactional_effects_happen_once,
    g7_every_signal_is_consumed_once_in_order,
    g8_timers_are_not_early,
    g12_a_cancel_holds,
    g13_only_expected_trouble,
    budgets_add_up,
)


def judge(history: History) -> list[str]:
    """Return everything that is wrong, the name of the promise first."""
    return [f"{check.__name__}: {line}" for check in CHECKS for line in check(history)]
