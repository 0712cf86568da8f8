"""What the runs of a trial are going to do, drawn from its seed, and what must come of it.

A plan is a list of turns, a turn a list of acts that go on side by side. Each act has a **place**, `17/3`: the name by
which the world outside counts it, whoever does it and however often. A child has places below its act's, `17/3/0`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from random import Random

Act = dict[str, Any]

EFFECTS = ("once", "keyed", "verify", "transactional")
COST_MICROS = 4_000
"""What an act of kind `budget` costs, in millionths of a dollar."""
SENDERS = ("ana", "ben", "cem")
CANCELLED_OF = 12
"""One run of so many is cancelled under way."""
_OFTEN = ("step", "once", "keyed", "verify", "transactional", "timer")
_SELDOM = ("ask", "budget", "child")


class Plan(NamedTuple):
    """One run. `messages` says how many each sender sends it; `cancel` that it is cancelled once they are sent."""

    key: str
    turns: list[list[Act]]
    messages: dict[str, int]
    cancel: bool


def draw(random: Random, number: int) -> Plan:
    """Return the plan of run `number`."""
    counted = iter(range(10_000))
    turns = [_turn(random, str(number), counted) for _ in range(random.randint(2, 5))]
    senders = random.sample(SENDERS, random.randint(1, len(SENDERS)))
    messages = {sender: random.randint(1, 3) for sender in senders}
    for part in _parts(random, sum(messages.values())):
        turns[random.randrange(len(turns))].append(
            {"kind": "hear", "place": f"{number}/{next(counted)}", "count": part}
        )
    turns = [one for turn in turns for one in _one_ear(turn)]
    return Plan(f"r{number}", turns, messages, random.randrange(CANCELLED_OF) == 0)


def _turn(random: Random, above: str, counted: Any, *, child: bool = False) -> list[Act]:
    acts: list[Act] = []
    for _ in range(random.randint(1, 3)):
        kind = random.choice(_OFTEN if child or random.random() < 0.7 else _SELDOM)
        if kind == "timer" and any(one["kind"] == "timer" for one in acts):
            kind = "step"  # one timer in a turn: the order of their entries is then the order of the plan
        act: Act = {"kind": kind, "place": f"{above}/{next(counted)}"}
        if kind == "timer":
            act["seconds"] = round(random.uniform(0.05, 2.0), 3)
        elif kind == "child":
            below = iter(range(10_000))
            act["turns"] = [_turn(random, act["place"], below, child=True) for _ in range(random.randint(1, 2))]
        acts.append(act)
    return acts


def _parts(random: Random, whole: int) -> list[int]:
    """Return one or two parts of a number, so that messages are heard in more than one turn."""
    first = random.randint(1, whole)
    return [part for part in (first, whole - first) if part]


def _one_ear(turn: list[Act]) -> list[list[Act]]:
    """Return turns in which one act listens at a time: two at once would not know whose message came first."""
    ears = [act for act in turn if act["kind"] == "hear"]
    others = [act for act in turn if act["kind"] != "hear"]
    return [[*others, *ears[:1]], *([ear] for ear in ears[1:])]


def acts_of(turns: list[list[Act]]) -> list[Act]:
    """Return every act of some turns, those of children too."""
    found = []
    for act in (act for turn in turns for act in turn):
        found += [act, *acts_of(act.get("turns", []))]
    return found


def value_of(act: Act) -> Any:
    """Return what an act gives back; None for what depends on when it happened."""
    if act["kind"] in {"timer", "hear", "child"}:
        return None
    return f"{act['kind']} {act['place']}"
