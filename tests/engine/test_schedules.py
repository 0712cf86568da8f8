"""Schedules on every store: registering, firing, what people do, and two schedulers that meet at each commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.conformance.meeting import Beside, Held
from tests.engine.world import hand
from tests.stores import START_AT
from torpor.core.journal import BLOB_BYTES
from torpor.core.schedule import SECOND, Fate, Missed, Rule
from torpor.engine import schedules
from torpor.engine.queries.schedules import schedule_line, troubled
from torpor.errors import NotFound, UsageError
from torpor.store import values
from torpor.store.rows import RunFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment, Place
    from torpor.engine.queries.schedules import ScheduleLine
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import RunRow

HOUR = 3600 * SECOND
HOURLY = Rule(cron="0 * * * *")
NIGHTLY = Rule(cron="0 3 * * *", zone="Europe/Berlin")


def wanted(rule: Rule = HOURLY, name: str = "tidy", **more: Any) -> schedules.Definition:
    """Return a definition."""
    return schedules.Definition(name, "shop", rule, values.encode({"n": 1}), **more)


class Desk(NamedTuple):
    """A store with a program and schedules, driven by hand."""

    store: Store

    def register(self, *definitions: schedules.Definition) -> list[schedules.Registered]:
        """Register."""
        return self.store.transact_now(schedules.register, definitions)

    def plans(self) -> list[schedules.Plan]:
        """Return plans for what is due."""
        rows, now = self.store.transact_now(schedules.due)
        return [schedules.plan(row, now) for row in rows]

    def fire(self) -> schedules.Fired:
        """Do one round, as a waker does."""
        return self.store.transact_now(schedules.fire, self.plans())

    def line(self, name: str = "tidy") -> ScheduleLine:
        """Return what people see."""
        return self.store.transact_now(schedule_line, name)

    def runs(self) -> list[RunRow]:
        """Return every run, oldest first."""
        found: list[RunRow] = self.store.transact_now(lambda tx: tx.list_runs(RunFilter(limit=10_000)))
        return found[::-1]


@pytest.fixture
def desk(store: Store) -> Desk:
    """Return a store that knows the program `shop`."""
    hand(store)
    return Desk(store)


def test_registering_again_changes_nothing(desk: Desk, moment: Moment) -> None:
    """Made once; a changed definition says what changed; two of one name and unknown programs are refused whole."""
    assert desk.register(wanted()) == [("tidy", "created", ())]
    before = desk.store.transact_now(lambda tx: tx.get_schedules(["tidy"]))
    moment.advance(1800)
    assert desk.register(wanted()) == [("tidy", "unchanged", ())]
    assert desk.store.transact_now(lambda tx: tx.get_schedules(["tidy"])) == before
    changed = wanted(Rule(cron="0 * * * *", missed=Missed.SKIP, grace_micros=5 * SECOND), priority=3)
    assert desk.register(changed) == [("tidy", "changed", ("missed", "grace", "priority"))]
    assert desk.line().next_at == START_AT + HOUR
    with pytest.raises(UsageError, match="two schedules have one name"):
        desk.register(wanted(), wanted())
    with pytest.raises(UsageError, match='no program named "nothing"'):
        desk.register(wanted(name="other"), wanted()._replace(program="nothing"))
    with pytest.raises(UsageError, match="at most"):
        desk.register(wanted()._replace(body=b"x" * (BLOB_BYTES + 1)))
    with pytest.raises(NotFound, match="no schedule"):
        desk.line("other")


def test_a_slot_fires_once_and_not_early(desk: Desk, moment: Moment) -> None:
    """Not a microsecond before its moment by the store's clock; then one run, with its input, and the next slot (G8)."""
    desk.register(wanted(tenant="acme", priority=2))
    moment.advance(3599.999999)
    assert desk.plans() == []
    moment.advance(0.000001)
    assert desk.fire() == (1, 1, False)
    assert desk.fire() == (0, 0, False)
    [run] = desk.runs()
    assert run.priority == 2
    assert run.tenant != 1
    state = desk.store.transact_now(lambda tx: tx.states([run.id]))[run.id]
    assert values.decode(state.body) == {"n": 1}
    line = desk.line()
    assert (line.strip, line.next_at, line.slots[0].slot_at) == ("#", START_AT + 2 * HOUR, START_AT + HOUR)


def test_a_clock_that_stepped_back(desk: Desk, moment: Moment) -> None:
    """A plan made before the clock was set back is not carried out early (G8)."""
    desk.register(wanted())
    moment.advance(3600)
    plans = desk.plans()
    moment.advance(-10)
    assert desk.store.transact_now(schedules.fire, plans).settled == 0
    assert desk.runs() == []


@pytest.mark.parametrize(
    ("rule", "strip"),
    [
        (HOURLY, "++#"),
        (Rule(cron="0 * * * *", missed=Missed.SKIP), "---"),
        (Rule(cron="0 * * * *", missed=Missed.ALL, up_to=2), "-##"),
        (Rule(cron="0 * * * *", grace_micros=60 * SECOND), "---"),
    ],
)
def test_missed_slots(desk: Desk, moment: Moment, rule: Rule, strip: str) -> None:
    """Nobody was there for hours: the policy decides, and every slot has a row with a reason."""
    desk.register(wanted(rule))
    moment.advance(3 * 3600 + 1800)
    desk.fire()
    line = desk.line()
    assert line.strip == strip
    assert len(desk.runs()) == strip.count("#")
    assert all(slot.reason for slot in line.slots)
    assert line.next_at == START_AT + 4 * HOUR


def test_ten_thousand_missed_slots_are_few_rows(desk: Desk, moment: Moment) -> None:
    """One row says how many; the newest have their own; one run (G20)."""
    desk.register(wanted(Rule(every_micros=60 * SECOND)))
    moment.advance(10_000 * 60)
    assert desk.fire().started == 1
    row = desk.store.transact_now(lambda tx: tx.get_schedules(["tidy"]))["tidy"]
    slots = desk.store.transact_now(lambda tx: tx.newest_slots([row.id], limit=20_000))[row.id]
    assert sum(slot.many for slot in slots) == 10_000
    assert len(slots) <= 201
    assert slots[-1].many > 9_000
    assert (slots[0].fate, slots[-1].fate) == (Fate.FIRED, Fate.COALESCED)


def test_more_than_a_look_can_count(desk: Desk, moment: Moment) -> None:
    """A line that fires every minute, gone for a month: several rounds, one run, every slot counted."""
    desk.register(wanted(Rule(cron="* * * * *")))
    moment.advance(30 * 86_400)
    rounds = [desk.fire()]
    while rounds[-1].more:
        rounds.append(desk.fire())
    assert len(rounds) == 3
    assert sum(one.started for one in rounds) == 1
    row = desk.store.transact_now(lambda tx: tx.get_schedules(["tidy"]))["tidy"]
    slots = desk.store.transact_now(lambda tx: tx.newest_slots([row.id], limit=1_000))[row.id]
    assert sum(slot.many for slot in slots) == 30 * 1_440


def test_pause_and_resume(desk: Desk, moment: Moment) -> None:
    """Nothing starts meanwhile, registering does not wake it, and what was passed over says why."""
    desk.register(wanted())
    pause: Callable[..., bool] = desk.store.transact_now
    assert pause(schedules.pause, "tidy", by="ada")
    assert not pause(schedules.pause, "tidy", by="bob")
    moment.advance(5 * 3600 + 60)
    desk.register(wanted(Rule(cron="0 * * * *", missed=Missed.ALL)))
    assert desk.fire().settled == 0
    assert (desk.line().state, desk.line().reason, desk.line().next_at) == ("paused", "by ada", None)
    assert desk.store.transact_now(schedules.resume, "tidy")
    assert not desk.store.transact_now(schedules.resume, "tidy")
    [slot] = desk.line().slots
    assert (slot.sign, slot.many, slot.reason, slot.last_at) == ("-", 5, "paused by ada", START_AT + 5 * HOUR)
    assert desk.line().next_at == START_AT + 6 * HOUR
    moment.advance(3600)
    assert desk.fire().started == 1


def test_resume_before_anything_was_missed(desk: Desk, moment: Moment) -> None:
    """The next slot is as it was."""
    desk.register(wanted())
    desk.store.transact_now(schedules.pause, "tidy")
    desk.store.transact_now(schedules.resume, "tidy")
    moment.advance(3600)
    assert desk.fire().started == 1
    assert desk.line().strip == "#"


def test_a_changed_rule_settles_what_the_old_one_had(desk: Desk, moment: Moment) -> None:
    """A slot that was due and not fired is not lost in silence; a paused schedule says that it was paused."""
    desk.register(wanted(), wanted(name="other"))
    desk.store.transact_now(schedules.pause, "other", by="ada")
    moment.advance(2 * 3600 + 60)
    answers = desk.register(wanted(NIGHTLY), wanted(NIGHTLY, name="other"))
    assert [answer.what for answer in answers] == [("cron", "zone"), ("cron", "zone")]
    for name, reason in (("tidy", "the schedule was changed before it started"), ("other", "paused by ada")):
        [slot] = desk.line(name).slots
        assert (slot.sign, slot.many, slot.reason) == ("-", 2, reason)
    assert desk.line().upcoming[0] == "2030-01-02T03:00:00+01:00"
    assert desk.line("other").state == "paused"


def test_run_now_is_an_extra_slot(desk: Desk, moment: Moment) -> None:
    """It leaves the schedule's own slots alone, even at the same moment; it works while paused."""
    desk.register(wanted())
    moment.advance(3600)
    first = desk.store.transact_now(schedules.run_now, "tidy", by="ada")
    second = desk.store.transact_now(schedules.run_now, "tidy")
    assert first.run_id != second.run_id
    assert desk.fire().started == 1
    slots = desk.line().slots
    assert [(slot.extra, slot.reason) for slot in slots] == [(False, ""), (True, "run by ada"), (True, "run by hand")]
    desk.store.transact_now(schedules.pause, "tidy")
    assert desk.store.transact_now(schedules.run_now, "tidy").created


def test_a_removed_schedule_never_fires_a_slot_again(desk: Desk, moment: Moment) -> None:
    """Its runs stay; made again it begins with the next slot."""
    desk.register(wanted())
    moment.advance(3600)
    plans = desk.plans()
    desk.store.transact_now(schedules.fire, plans)
    desk.store.transact_now(schedules.remove, "tidy")
    with pytest.raises(NotFound):
        desk.store.transact_now(schedules.remove, "tidy")
    desk.register(wanted())
    assert desk.store.transact_now(schedules.fire, plans).settled == 0
    assert len(desk.runs()) == 1
    assert desk.line().next_at == START_AT + 2 * HOUR


def test_a_start_that_fails_is_on_record(desk: Desk, moment: Moment) -> None:
    """A program that went: the slot says so, others fire, and the doctor's query names it (G13)."""
    desk.register(wanted(), wanted(name="well"))

    def lose(tx: Tx) -> None:
        row = tx.get_schedules(["tidy"])["tidy"]
        tx.change_schedules([row._replace(program="gone")])

    desk.store.transact_now(lose)
    moment.advance(3600)
    assert desk.fire().started == 1
    [slot] = desk.line().slots
    assert (slot.sign, slot.reason) == ("x", 'no program named "gone" in the store')
    [found] = desk.store.transact_now(troubled)
    assert (found.schedule, found.trouble) == ("tidy", "failed")
    moment.advance(2 * 3600)
    assert {(one.schedule, one.trouble) for one in desk.store.transact_now(troubled)} == {
        ("tidy", "overdue"),
        ("well", "overdue"),
        ("tidy", "failed"),
    }
    assert desk.line("well").state == "overdue"


def test_starts_are_spread(desk: Desk, moment: Moment) -> None:
    """With jitter a slot is due later than its moment, by the same lot for everybody; its row names the moment."""
    names = [f"s{n}" for n in range(20)]
    desk.register(*(wanted(Rule(cron="0 * * * *", jitter_micros=HOUR // 2), name=name) for name in names))
    rows = desk.store.transact_now(lambda tx: tx.get_schedules(names))
    dues = {row.due_at for row in rows.values()}
    assert len(dues) == 20
    assert {row.next_at for row in rows.values()} == {START_AT + HOUR}
    moment.advance(3600 + 1799)
    assert desk.fire().started == 20
    assert {desk.line(name).slots[0].slot_at for name in names} == {START_AT + HOUR}


def test_a_round_is_bounded(desk: Desk, moment: Moment) -> None:
    """More schedules than one round takes, each with many runs: rounds, each with a bounded number of runs (G20)."""
    rule = Rule(every_micros=60 * SECOND, missed=Missed.ALL, up_to=100)
    desk.register(*(wanted(rule, name=f"s{n:03}") for n in range(12)))
    moment.advance(100 * 60)
    rounds = [desk.fire()]
    while rounds[-1].more:
        rounds.append(desk.fire())
    assert [one.started for one in rounds] == [500, 500, 200]


# two schedulers


def test_two_schedulers_with_one_plan(place: Place, moment: Moment) -> None:
    """Both worked it out before either wrote: the second one's is no longer the truth, and changes nothing."""
    one, two = Desk(place.open()), Desk(place.open())
    hand(one.store)
    one.register(wanted())
    moment.advance(3600)
    plans = one.plans(), two.plans()
    assert one.store.transact_now(schedules.fire, plans[0]).started == 1
    assert two.store.transact_now(schedules.fire, plans[1]) == (0, 0, False)
    assert len(one.runs()) == 1


VERBS = ("get_schedules", "programs", "insert_runs", "claim_keys", "add_slots", "change_schedules")


class Halting:
    """A transaction in which something happens after one of its verbs."""

    def __init__(self, tx: Tx, verb: str, then: Callable[[], None]) -> None:
        """Halt after a verb."""
        self._tx, self._verb, self._then = tx, verb, then

    def __getattr__(self, name: str) -> Any:
        """Be the transaction."""
        original = getattr(self._tx, name)
        if name != self._verb:
            return original

        def call(*args: Any, **more: Any) -> Any:
            answer = original(*args, **more)
            self._then()
            return answer

        return call


@pytest.mark.parametrize("verb", VERBS)
def test_two_schedulers_meet_at_every_point(make_place: Callable[[str], Place], moment: Moment, verb: str) -> None:
    """The first stands in the middle of its transaction, after each of its verbs, when the second comes: one run."""
    place = make_place("postgres")
    one, two = Desk(place.open()), Desk(place.open())
    hand(one.store)
    one.register(wanted())
    moment.advance(3600)
    mine, other = one.plans(), two.plans()
    second: list[schedules.Fired] = []

    def fire(tx: Tx) -> schedules.Fired:
        def then() -> None:
            second.append(two.store.transact_now(schedules.fire, other))

        halting: Any = Halting(tx, verb, then)
        return schedules.fire(halting, mine)

    assert one.store.transact_now(fire).started == 1
    assert set(second) == {(0, 0, False)}
    assert len(one.runs()) == 1
    assert one.line().strip == "#"


def test_one_waits_for_the_other(place: Place, moment: Moment) -> None:
    """On a file the second comes when the first has committed, and finds that all is done."""
    one, two = Desk(place.open()), Desk(place.open())
    hand(one.store)
    one.register(wanted())
    moment.advance(3600)
    mine, other = one.plans(), two.plans()
    held = Held(one.store, lambda tx: schedules.fire(tx, mine))
    beside = Beside(lambda: two.store.transact_now(schedules.fire, other))
    assert held.result().started == 1
    assert beside.result().started == 0
    assert len(one.runs()) == 1


@pytest.mark.parametrize("verb", VERBS)
def test_killed_between(desk: Desk, moment: Moment, verb: str) -> None:
    """Whoever dies after any verb leaves nothing; the next scheduler fires the slot, once."""
    desk.register(wanted())
    moment.advance(3600)
    plans = desk.plans()

    def dies(tx: Tx) -> schedules.Fired:
        def then() -> None:
            raise ZeroDivisionError

        halting: Any = Halting(tx, verb, then)
        return schedules.fire(halting, plans)

    with pytest.raises(ZeroDivisionError):
        desk.store.transact_now(dies)
    assert desk.runs() == []
    assert desk.line().slots == []
    assert desk.fire().started == 1
    assert (desk.line().strip, len(desk.runs())) == ("#", 1)


def test_two_workers_register_at_once(make_place: Callable[[str], Place]) -> None:
    """The second waits for the first, and finds the schedule as it wants it."""
    place = make_place("postgres")
    one, two = Desk(place.open()), Desk(place.open())
    hand(one.store)
    held = Held(one.store, lambda tx: schedules.register(tx, [wanted()]))
    beside = Beside(lambda: two.register(wanted()))
    place.blocked()
    assert held.result()[0].outcome == "created"
    assert beside.result()[0].outcome == "unchanged"
