"""The program of the small world: what each place commits, and where code stands after replaying a journal.

    one -> (charge) -> intent -> effect -> outcome -> wait -> signal | timer -> two -> end

A place is known by the entries its commit writes. `stand` asks the real `Replay`, call by call, like an executor.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests.exploration.world import DUE_AT, RUN_ID
from torpor.core.commit import Proposal
from torpor.core.effect import Safety
from torpor.core.journal import Entry, Kind, Stored
from torpor.core.replay import Call, CallKind, Record, call_key
from torpor.core.run import State
from torpor.core.wait import Open, Signal, WaitKind

if TYPE_CHECKING:
    from tests.exploration.rules import Rules
    from tests.exploration.world import Configuration

ONE = Call(CallKind.STEP, "one")
EFFECT = Call(CallKind.EFFECT, "pay", b"args")
GO = Call(CallKind.MESSAGE, "go")
TIMER = Call(CallKind.TIMER, "sleep")
TWO = {winner: Call(CallKind.STEP, f"two-{winner}") for winner in ("signal", "timer", "")}
EFFECT_KEY = call_key(EFFECT, 1)

ENTRIES: dict[str, Entry] = {
    "one": Entry(Kind.OUTCOME, call_key(ONE, 1), b"1"),
    "charge": Entry(Kind.NOTE, None, b"charge"),
    "intent": Entry(Kind.INTENT, EFFECT_KEY, b"args"),
    "outcome": Entry(Kind.OUTCOME, EFFECT_KEY, b"paid"),
    "unknown": Entry(Kind.WAIT, EFFECT_KEY, b"unknown"),
    "again": Entry(Kind.NOTE, EFFECT_KEY, b"again"),
    "wait-go": Entry(Kind.WAIT, call_key(GO, 1), None),
    "wait-timer": Entry(Kind.WAIT, call_key(TIMER, 1), None),
    "signal": Entry(Kind.CONSUMED, call_key(GO, 1), b"go"),
    "timer": Entry(Kind.CONSUMED, call_key(TIMER, 1), None),
    **{f"two-{winner}": Entry(Kind.OUTCOME, call_key(call, 1), b"2") for winner, call in TWO.items()},
    **{place: Entry(Kind.NOTE, None, place.encode()) for place in ("park", "end", "cancel", "fail")},
}
CODES = {place: (place,) for place in ENTRIES} | {"wait": ("wait-go", "wait-timer"), "open": ("wait-go", "wait-timer")}
BARE = frozenset({"charge", "park", "end", "cancel", "fail"})
"""Commits that write an entry only because a rule demands one."""
AFTER = {
    "wait": State.WAITING,
    "park": State.WAITING,
    "unknown": State.WAITING,
    "end": State.COMPLETED,
    "cancel": State.CANCELLED,
    "fail": State.FAILED,
}
"""What the run is after a commit that ends the stretch; `parked_as` decides about the first three."""
RESOLVING = frozenset(code for code, entry in ENTRIES.items() if entry.kind in {Kind.OUTCOME, Kind.CONSUMED})

WAITS = (
    Open(call_key(GO, 1), WaitKind.MESSAGE, name="go"),
    Open(call_key(TIMER, 1), WaitKind.TIMER, due_at=DUE_AT),
)


@cache
def stored(seq: int, epoch: int, code: str) -> Stored:
    """Return a journal entry as the core sees it."""
    return Stored(seq, 0, epoch, *ENTRIES[code])


def rows(journal: tuple[tuple[int, str], ...], after: int = 0) -> list[Stored]:
    """Return the entries above `after`."""
    return [stored(n, *row) for n, row in enumerate(journal[after:], start=after + 1)]


@cache
def signals(unread: tuple[tuple[int, bool], ...], seen: int) -> tuple[Signal, ...]:
    """Return the unread signals an executor that has `seen` so much knows of."""
    return tuple(Signal(seq, DUE_AT + 1 if late else DUE_AT - 1, "go", b"go") for seq, late in unread if seq <= seen)


class Stand(NamedTuple):
    """Where code stands after replay: `at` is a place, `effect` (its record decides) or `race` (a delivery decides)."""

    at: str
    intent_epoch: int = 0
    asked_person: bool = False
    diverged: bool = False


class Program:
    """The program under some rules. Answers are remembered: they depend on nothing else."""

    def __init__(self, configuration: Configuration, rules: Rules) -> None:
        """Work out what each place commits, asking the rules about each proposal."""
        self._parts = configuration.parts
        self._rules = rules
        self._transactional = configuration.safety is Safety.TRANSACTIONAL
        self._stands: dict[tuple[tuple[int, str], ...], Stand] = {}
        self.codes = {place: self._content(place) for place in CODES}
        self.refused_once_cancelled = {
            place: rules.refused_once_cancelled(self._proposal(place, codes)) for place, codes in self.codes.items()
        }
        self.entries = {place: [ENTRIES[code] for code in codes] for place, codes in self.codes.items()}

    def _content(self, place: str) -> tuple[str, ...]:
        codes = CODES[place]
        if place in BARE and self._rules.broken_rule(self._proposal(place, ())) is None:
            return ()
        broken = self._rules.broken_rule(self._proposal(place, codes))
        assert broken is None, broken
        return codes

    def _proposal(self, place: str, codes: tuple[str, ...]) -> Proposal:
        entries = [ENTRIES[code] for code in codes]
        proposal = Proposal(RUN_ID, 1, 1, 0, entries, after=AFTER.get(place, State.RUNNING))
        proposal.transactional = self._transactional and place == "outcome"
        proposal.not_before = DUE_AT if place == "timer" else 0
        return proposal

    def stand(self, journal: tuple[tuple[int, str], ...]) -> Stand:
        """Return where the code stands after this journal."""
        found = self._stands.get(journal)
        if found is None:
            found = self._stands[journal] = self._replayed(journal)
        return found

    def _replayed(self, journal: tuple[tuple[int, str], ...]) -> Stand:
        replay = self._rules.replay(rows(journal))

        def ask(*calls: Call) -> list[Record | None]:
            """Ask, then take what is delivered: one after the other, as far as the calls so far allow."""
            records = [replay.ask(call).record for call in calls]
            while replay.next() is not None:
                pass
            return [record if record is not None and record.delivered else None for record in records]

        if ask(ONE) == [None]:
            return Stand("one")
        if "charge" in self._parts and not any(code == "charge" for _, code in journal):
            return Stand("charge")
        if "effect" in self._parts:
            asked = replay.ask(EFFECT).record
            if replay.next() is None:
                return self._at_effect(asked)
        winner = ""
        if "race" in self._parts:
            if not any(code == "wait-go" for _, code in journal):
                return Stand("wait")
            signal, timer = ask(GO, TIMER)
            if signal is None and timer is None:
                return Stand("race")
            winner = "timer" if signal is None else "signal"
        if "two" in self._parts and ask(TWO[winner]) == [None]:
            return Stand(f"two-{winner}", diverged=replay.left_behind() is not None)
        return Stand("end", diverged=replay.left_behind() is not None)

    @staticmethod
    def _at_effect(record: Record | None) -> Stand:
        if record is None or not record.intents:
            return Stand("effect")
        intent = record.intents[-1]
        if record.notes and record.notes[-1].seq > intent.seq:  # a person gave leave to do it again
            return Stand("effect")
        asked_person = record.wait is not None and record.wait.seq > intent.seq
        return Stand("effect", intent_epoch=intent.epoch, asked_person=asked_person)
