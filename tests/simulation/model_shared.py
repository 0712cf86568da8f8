"""How runs begin, and what they share: places in lines, and money. A part of the model (`simulation.model`).

A line is `places`, whether it was `stirred`, and how each of its `runs` stands: `held`, `queued` or `later`. A budget is
`most` (None: no limit), `spent`, `held`, and whether somebody is `short`: `nobody`, `waits`, or `stirred`, which says that
something came back since they were looked at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.stores import START_AT
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torpor.engine.runs import Start
    from torpor.engine.spending import Wish

PROGRAM = "shop"
ENDED = frozenset({"completed", "failed", "cancelled"})
NO_FLAGS: frozenset[str] = frozenset()
ZEROS = dict.fromkeys(("epoch", "head", "inbox", "seen", "branch", "takeovers", "stalls", "prio", "point"), 0)
Dict = dict[str, Any]


def emptied(journal: dict[int, Any], keep: int, *, told: bool) -> list[int]:
    """Return the entries that lose their bodies: checkpoints before the newest ones, and what their turns told in rows."""
    points = sorted(n for n, entry in journal.items() if entry[1] == "checkpoint" and n > 0)
    old = [n for n in points if journal[n][3] is not None][: -keep - 1] if keep else points[-21:-1]
    if not (told and old):
        return old
    before = max((n for n in points if n < old[0]), default=0)
    gone = [n for n in sorted(journal) if before < n <= old[-1] and journal[n][1] == "outcome"]
    return [*old, *(n for n in gone if re.match(r"[se]:[^#/]*@[^#/]*$", journal[n][2] or ""))]


class Shared:
    """Runs as they begin, lines and budgets. `now` is the store's clock."""

    def __init__(self) -> None:
        """Begin empty."""
        self.now, self.last = START_AT, 0
        self.runs: dict[int, Dict] = {}
        self.keys: dict[str, int] = {}
        self.deadlines: dict[int, int] = {}
        self.lines: dict[str, Dict] = {}
        self.budgets: dict[str, Dict] = {}
        self.holds: dict[tuple[int, str], Dict] = {}
        self.shorts: dict[tuple[int, str], Dict] = {}

    def wake(self, run: Dict) -> None:
        """Make a run ready if it is asleep."""
        if run["state"] == "waiting":
            run.update(state="ready", due=self.now)

    # starting

    def born(self, number: int, due: int | None = None, **what: Any) -> Dict:
        """Write a run that is ready, or waits for its first moment."""
        assert number > self.last, "a run's number is used twice"
        self.last = number
        begun = {"state": "ready", "due": self.now} if due is None else {"state": "waiting", "due": due}
        empty = {"parent": None, "tenant": 1, "turn": 1, "flags": NO_FLAGS, "body": b"", "lease": None}
        self.runs[number] = {**ZEROS, **empty, "journal": {}, "waits": {}, "signals": {}, **begun, **what}
        return self.runs[number]

    def start(self, wanted: Sequence[Start], numbers: Sequence[int], tenants: Sequence[str]) -> list[bool]:
        """Start runs, all or none; equal keys are one run. Says which are new."""
        if any(one.program != PROGRAM for one in wanted):
            raise UsageError("no such program")
        new: dict[int, Start] = {}
        said = []
        for n, one in enumerate(wanted):
            fresh = one.key is None or one.key not in self.keys
            if fresh and one.deadline_at is not None and one.deadline_at <= max(self.now, one.due_at or 0):
                raise UsageError("a deadline that is not after the start: nothing is started")
            number = numbers[n]
            said.append(fresh)
            if one.key is not None:
                assert self.keys.setdefault(one.key, number) == number, "an equal key is an equal run"
            if not fresh:
                continue
            new[number] = one
            self.born(number, one.due_at, prio=one.priority, tenant=tenants.index(one.tenant) + 1, body=one.body)
            if one.deadline_at is not None:
                self.deadlines[number] = one.deadline_at
            if one.budget is not None:
                self.budgets[f"run:{number}"] = {"most": one.budget, "spent": 0, "held": 0, "short": "nobody"}
        for number in sorted(new, key=lambda n: (new[n].priority, n)):
            if new[number].line:
                self.enter(number, new[number])
        return said

    # lines

    def enter(self, number: int, one: Start) -> None:
        """A run holds a place from its start if one is free and nobody waits."""
        line = self.lines.setdefault(one.line, {"places": one.line_limit, "stirred": False, "runs": {}})
        line.update(places=one.line_limit, stirred=line["stirred"] or one.line_limit > line["places"])
        self.runs[number]["flags"] |= {"line"}
        free = self._free(line) > 0 and "queued" not in line["runs"].values()
        line["runs"][number] = "later" if one.due_at is not None else "held" if free else "queued"
        if line["runs"][number] == "queued":
            self.queue(number, line)

    @staticmethod
    def _free(line: Dict) -> int:
        return int(line["places"]) - list(line["runs"].values()).count("held")

    def queue(self, number: int, line: Dict) -> None:
        """Let a run wait for a place: nothing else wakes it but a cancel."""
        line["runs"][number], line["stirred"] = "queued", True
        self.runs[number].update(state="waiting", due=None, flags=self.runs[number]["flags"] | {"queued"})

    def admit(self) -> tuple[int, bool]:
        """Pass on the free places of one line, by priority, then age (G20)."""
        stirred = [line for line in self.lines.values() if line["stirred"]]
        if not stirred:
            return 0, False
        line = stirred[0]
        waiting = sorted((self.runs[n]["prio"], n) for n, how in line["runs"].items() if how == "queued")
        fitting = [n for _, n in waiting if "cancel" not in self.runs[n]["flags"]]
        goes = fitting[: max(0, self._free(line))]
        line["runs"] = {n: "held" if n in goes else how for n, how in line["runs"].items()}
        for n in {n for _, n in waiting}.difference(fitting):
            del line["runs"][n]
        for n in goes:
            self.runs[n].update(state="ready", due=self.now, flags=self.runs[n]["flags"] - {"queued"})
        line["stirred"] = self._free(line) > 0 and "queued" in line["runs"].values()
        return len(goes), line["stirred"] or len(stirred) > 1

    # money

    def above(self, number: int) -> list[str]:
        """Every budget that a run spends from; what a family without one spends is counted at its root."""
        run, top = self.runs[number], number
        while f"run:{top}" not in self.budgets and self.runs[top]["parent"] in self.runs:
            top = self.runs[top]["parent"]
        self.budgets.setdefault(f"run:{top}", {"most": None, "spent": 0, "held": 0, "short": "nobody"})
        mine = {f"run:{top}", f"program:{PROGRAM}", f"tenant:{run['tenant']}"}
        return [whose for whose in self.budgets if whose in mine]

    def lacks(self, whose: str, wants: int, more: int = 0) -> int:
        """How much a budget is short of a reservation, beside `more` that is promised already."""
        one = self.budgets[whose]
        return 0 if one["most"] is None else max(0, int(one["spent"] + one["held"] + more + wants - one["most"]))

    def reserve(self, wish: Wish) -> str:
        """Reserve in every budget above a run, or in none: `outcome`, a `wait` for a person, or nothing new."""
        place = (wish.run_id, wish.key)
        if place in self.holds:
            self.end([(place, self.holds[place]["kept"])])
        mine = self.above(wish.run_id)
        short = max(mine, key=lambda whose: self.lacks(whose, wish.amount))
        if self.lacks(short, wish.amount) and not wish.once:
            at = self.shorts.get(place, {"at": self.now})["at"]
            self.shorts[place] = {"whose": short, "wants": wish.amount, "woken": False, "at": at}
            self.budgets[short]["short"] = "waits"
            return "wait" if wish.asked is None else "nothing"
        if wish.amount:
            for whose in mine:
                self.budgets[whose]["held"] += wish.amount
            kept = wish.amount if wish.lost else 0
            self.holds[place] = {"amount": wish.amount, "kept": kept, "budgets": mine}
        if wish.asked is not None or wish.answered is not None:
            self.shorts.pop(place, None)
        return "outcome"

    def settle(self, number: int, hold: str, cost: int) -> None:
        """Say what a reservation cost, once; without one it is spent all the same."""
        unknown = {"amount": 0, "kept": 0, "budgets": self.above(number)} if (number, hold) not in self.holds else None
        self.end([((number, hold), cost)], unknown)

    def close(self, number: int) -> None:
        """End what a turn leaves unsettled, as its author said."""
        self.shorts = {place: short for place, short in self.shorts.items() if place[0] != number}
        self.end([(place, hold["kept"]) for place, hold in self.holds.items() if place[0] == number])

    def end(self, ends: Sequence[tuple[tuple[int, str], int]], unknown: Dict | None = None) -> None:
        """End reservations; whoever waits for a budget that something came back to is looked at."""
        back: dict[str, int] = {}
        for place, cost in ends:
            hold = self.holds.pop(place, unknown) or {}
            for whose in hold["budgets"]:
                self.budgets[whose]["spent"] += cost
                self.budgets[whose]["held"] -= hold["amount"]
                back[whose] = back.get(whose, 0) + hold["amount"] - cost
        self.stir(whose for whose, much in back.items() if much > 0)

    def stir(self, names: Iterable[str]) -> None:
        """Let who waits for these budgets be looked at."""
        for one in (self.budgets[whose] for whose in names):
            one["short"] = "stirred" if one["short"] == "waits" else one["short"]

    def limit(self, whose: str, most: int) -> None:
        """Give a tenant or a program a budget, or another limit."""
        self.budgets.setdefault(whose, {"most": most, "spent": 0, "held": 0, "short": "nobody"})["most"] = most
        self.stir([whose])

    def more(self, whose: str, most: int) -> None:
        """Raise a limit."""
        self.budgets[whose]["most"] += most
        self.stir([whose])

    def wake_short(self) -> int:
        """Wake who fits now, in the order in which they came; a large one is not passed by (G20)."""
        done = 0
        for whose, budget in self.budgets.items():
            if budget["short"] != "stirred":
                continue
            budget["short"], promised = "waits", 0
            queue = [(s["at"], p, s) for p, s in self.shorts.items() if s["whose"] == whose and not s["woken"]]
            woken = set()
            for _, place, short in sorted(queue, key=lambda one: (one[0], one[1][0])):
                if self.lacks(whose, short["wants"], promised):
                    break
                promised, short["woken"], done = promised + short["wants"], True, done + 1
                woken.add(place[0])
            for run in (self.runs[n] for n in woken if self.runs[n]["state"] not in ENDED):
                run["inbox"] += 1
                self.wake(run)
        return done
