"""Budgets as a tree: never overdrawn, settled once, woken in order, on every store; and forced races on a server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.world import hand, proposal
from torpor.core.budget import Lost, Short, Standing
from torpor.core.journal import Kind
from torpor.core.run import State
from torpor.engine import budgets, runs, spending
from torpor.engine.effects import commit_inside
from torpor.errors import UsageError
from torpor.store import values
from torpor.store.rows import NewRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.world import Hand
    from tests.stores import Moment, Place
    from torpor.core.commit import Proposal
    from torpor.core.lease import Lease
    from torpor.engine.commit import Reply
    from torpor.engine.effects import Inside
    from torpor.store.protocol import Store, Tx

KEY = "b:reserve#1"


def wish(run: int, amount: int, key: str = KEY, *, lost: Lost = Lost.SPENT, **more: Any) -> spending.Wish:
    """Return a reservation that is asked for."""
    return spending.Wish(run, key, amount, lost, 0)._replace(**more)


def family(one: Hand, most: int | None, children: int = 1) -> tuple[int, list[int]]:
    """Return a run with a budget, and children of it without any."""
    started = one.do(runs.start, [runs.Start("shop", values.encode(0), budget=most)])[0].run_id
    new = [NewRun(one.programs[0], 1, b"input", parent=started)] * children
    return started, one.do(lambda tx: tx.insert_runs(new))


def standing(one: Hand, run: int) -> Standing:
    """Return how the budget of a run stands."""
    found: Standing = one.do(lambda tx: tx.budgets_of([run]))[run].standing
    return found


def reserve(one: Hand, wanted: spending.Wish) -> Kind:
    """Reserve, and return the kind of the last entry that it is recorded with."""
    inside: Inside | None = one.do(spending.reserve, wanted)
    assert inside is not None
    return inside.entries[-1].kind


def test_a_child_spends_from_its_nearest_ancestor(store: Store) -> None:
    """Also over a generation that has no budget, and not beyond it."""
    one = hand(store)
    top, (child, _) = family(one, 10, 2)
    (grandchild,) = one.do(lambda tx: tx.insert_runs([NewRun(one.programs[0], 1, b"input", parent=child)]))
    assert reserve(one, wish(grandchild, 7)) is Kind.OUTCOME
    assert reserve(one, wish(top, 3)) is Kind.OUTCOME
    assert reserve(one, wish(child, 1)) is Kind.WAIT
    assert standing(one, top) == Standing(10, 0, 10)


def test_a_carved_budget_counts_in_both(store: Store) -> None:
    """Its own limit holds, and its parent's; more than the parent has is refused (bad input changes nothing)."""
    one = hand(store)
    top, (child, other) = family(one, 10, 2)
    one.do(budgets.carve, child, top, 6)
    assert reserve(one, wish(child, 7)) is Kind.WAIT
    assert reserve(one, wish(child, 5)) is Kind.OUTCOME
    assert (standing(one, top), standing(one, child)) == (Standing(10, 0, 5), Standing(6, 0, 5))
    assert reserve(one, wish(other, 5)) is Kind.OUTCOME
    assert reserve(one, wish(child, 1, "b:reserve#2")) is Kind.WAIT
    with pytest.raises(UsageError, match="does not fit below"):
        one.do(budgets.carve, other, top, 11)
    assert one.do(lambda tx: tx.budgets_of([other])) == {}


def test_without_a_budget_spending_is_counted_at_the_root(store: Store) -> None:
    """Nothing is short, and `left` has no answer."""
    one = hand(store)
    top, (child,) = family(one, None)
    assert reserve(one, wish(child, 10**12)) is Kind.OUTCOME
    one.do(spending.settle, child, "b:settle#1", KEY, 5)
    assert standing(one, top) == Standing(None, 5, 0)
    assert one.do(spending.left, child, "b:left#1").entries[0].body == values.encode(None)


def test_a_tenant_and_a_program_are_roots(store: Store) -> None:
    """Set while runs are under way they hold at once; what was reserved before is settled where it was reserved."""
    one = hand(store)
    top, _ = family(one, 100)
    assert reserve(one, wish(top, 10)) is Kind.OUTCOME
    tenant = one.do(budgets.set_root, "tenant:default", 50).id
    program = one.do(budgets.set_root, "program:shop", 30).id
    assert reserve(one, wish(top, 31, "b:reserve#2")) is Kind.WAIT
    assert reserve(one, wish(top, 30, "b:reserve#3")) is Kind.OUTCOME
    one.do(spending.settle, top, "b:settle#1", KEY, 4)
    one.do(spending.settle, top, "b:settle#2", "b:reserve#3", 20)
    assert [row.standing for row in one.do(lambda tx: tx.budgets([tenant, program]))] == [
        Standing(50, 20, 0),
        Standing(30, 20, 0),
    ]
    assert standing(one, top) == Standing(100, 24, 0)
    assert one.do(budgets.set_root, "program:shop", 40).id == program
    for name in ("program:none", "tenant:", "run:1", "shop"):
        with pytest.raises(UsageError, match="no tenant and no known program"):
            one.do(budgets.set_root, name, 5)


def test_what_was_spent_is_spent(store: Store) -> None:
    """More than reserved counts, though it goes over the limit; so does what a copied run spends without a reservation."""
    one = hand(store)
    top, _ = family(one, 10)
    reserve(one, wish(top, 5))
    assert one.do(spending.settle, top, "b:settle#1", KEY, 12).entries[0].kind is Kind.OUTCOME
    assert standing(one, top) == Standing(10, 12, 0)
    assert one.do(spending.settle, top, "b:settle#2", KEY, 1).entries[0].kind is Kind.OUTCOME
    assert standing(one, top) == Standing(10, 13, 0)


@pytest.mark.parametrize(("lost", "spent"), [(Lost.FREE, 0), (Lost.SPENT, 5)])
def test_a_reservation_of_a_rewound_history_ends(store: Store, lost: Lost, spent: int) -> None:
    """The same call reserves again: what it held before ends as its author said, and nothing stays held for ever."""
    one = hand(store)
    top, _ = family(one, 20)
    reserve(one, wish(top, 5, lost=lost))
    assert reserve(one, wish(top, 4)) is Kind.OUTCOME
    assert standing(one, top) == Standing(20, spent, 4)


def test_a_turn_ends_what_it_left_unsettled(store: Store) -> None:
    """In the commit that ends it, as spent or as free; other runs keep theirs, and so does one that waits for a person."""
    one = hand(store)
    first, second = one.start(2)
    leases = {claimed.run.id: claimed.lease for claimed in one.claim()}
    for run in (first, second):
        reserve(one, wish(run, 5))
        reserve(one, wish(run, 3, "b:reserve#2", lost=Lost.FREE))
    one.commit(
        proposal(leases[first], after=State.COMPLETED, spends=True),
        proposal(leases[second], after=State.WAITING, needs_person=True),
    )
    assert (standing(one, first), standing(one, second)) == (Standing(None, 5, 0), Standing(None, 0, 8))
    assert [hold.run_id for hold in one.do(lambda tx: tx.holds([first, second]))] == [second, second]


def inside(one: Hand, lease: Lease, work: Callable[[Tx], Inside | None]) -> Reply | None:
    """Do something inside a commit of a leaseholder."""
    reply: Reply | None = one.do(commit_inside, _bare(lease), work)[1]
    return reply


def _bare(lease: Lease) -> Proposal:
    bare = proposal(lease, transactional=True)
    bare.entries = []
    return bare


def test_a_refused_commit_reserves_nothing(store: Store) -> None:
    """A stale lease, or a cancel that was acknowledged: neither the entry nor the money is there (G1, G12)."""
    one = hand(store)
    (run,) = one.start()
    lease = one.claim()[0].lease
    stale = inside(one, lease._replace(epoch=9), lambda tx: spending.reserve(tx, wish(run, 5)))
    assert stale is not None
    assert stale.refused is not None
    one.do(runs.cancel, run)
    cancelled = inside(one, lease, lambda tx: spending.reserve(tx, wish(run, 5)))
    assert cancelled is not None
    assert cancelled.refused is not None
    assert one.do(lambda tx: tx.holds([run])) == []


def short_runs(one: Hand, number: int, wants: int) -> tuple[int, list[int]]:
    """Return a run whose budget of 10 is used up, and children that wait for it, put away."""
    top, children = family(one, 10, number)
    assert reserve(one, wish(top, 10)) is Kind.OUTCOME
    leases = {claimed.run.id: claimed.lease for claimed in one.claim(limit=number + 1)}
    for child in children:
        assert reserve(one, wish(child, wants)) is Kind.WAIT
        one.commit(proposal(leases[child], after=State.WAITING))
    return top, children


def ready(one: Hand, ids: list[int]) -> list[int]:
    """Return those of some runs that are ready."""
    found = one.do(lambda tx: tx.get_runs(ids))
    return [run for run in ids if found[run].state is State.READY]


def test_what_comes_free_wakes_as_many_as_fit(store: Store, moment: Moment) -> None:
    """In the order in which they came, once; those who do not fit sleep on (G20)."""
    one = hand(store)
    del moment
    top, children = short_runs(one, 5, 4)
    assert one.do(budgets.wake).done == 0
    one.do(spending.settle, top, "b:settle#1", KEY, 1)
    assert one.do(budgets.wake).done == 2
    assert ready(one, children) == children[:2]
    assert one.do(budgets.wake).done == 0
    one.do(lambda tx: budgets.raise_limit(tx, tx.budgets_of([top])[top].id, 4))
    assert one.do(budgets.wake).done == 3
    assert one.do(lambda tx: tx.budgets_of([top]))[top].short is Short.WAITS


def test_waking_is_bounded(store: Store) -> None:
    """A batch at a time, until all were woken; each once."""
    one = hand(store)
    top, children = short_runs(one, 5, 1)
    one.do(spending.settle, top, "b:settle#1", KEY, 0)
    swept = [one.do(budgets.wake, most=2) for _ in range(4)]
    assert [(one.done, one.more) for one in swept] == [(2, True), (2, True), (1, False), (0, False)]
    assert ready(one, children) == children


def test_a_running_run_is_told(store: Store) -> None:
    """One that has asked and is not put away yet does not sleep over what comes free (G7)."""
    one = hand(store)
    top, (child,) = family(one, 10)
    lease = next(claimed.lease for claimed in one.claim() if claimed.run.id == child)
    reserve(one, wish(top, 10))
    assert reserve(one, wish(child, 4)) is Kind.WAIT
    one.do(spending.settle, top, "b:settle#1", KEY, 0)
    assert one.do(budgets.wake).done == 1
    assert one.commit(proposal(lease, after=State.WAITING))[0].state is State.READY


def test_asking_again_asks_nobody_twice(store: Store) -> None:
    """Short as before: nothing to record; enough: the person's wait is closed with the reservation."""
    one = hand(store)
    top, (child,) = family(one, 10)
    reserve(one, wish(top, 10))
    assert reserve(one, wish(child, 4)) is Kind.WAIT
    again = wish(child, 4, asked=(0, 1))
    assert one.do(spending.reserve, again) is None
    one.do(spending.settle, top, "b:settle#1", KEY, 0)
    inside: Inside = one.do(spending.reserve, again)
    assert inside.closes == [(0, 1)]
    assert inside.entries[-1].kind is Kind.OUTCOME
    assert one.do(budgets.wake).done == 0


def test_fifty_at_once_never_overdraw(place: Place) -> None:
    """Fifty runs of one tree, in threads of several stores: what is held and spent never exceeds the root (no deadlock)."""
    stores = [place.open() for _ in range(1 if place.kind == "memory" else 3)]
    one = hand(stores[0])
    top, children = family(one, 100, 50)
    for n, child in enumerate(children[::2]):
        one.do(budgets.carve, child, top, 5 + n % 3)
    one.do(budgets.set_root, "tenant:default", 90)

    def spend(n: int) -> int:
        store, child, kept = stores[n % len(stores)], children[n], 0
        for turn in range(4):
            key = f"b:reserve#{turn + 1}"
            inside: Inside | None = store.transact_now(spending.reserve, wish(child, 3, key))
            assert inside is not None
            if inside.entries[-1].kind is Kind.OUTCOME:
                cost = turn % 3 + 1
                store.transact_now(spending.settle, child, f"b:settle#{turn + 1}", key, cost)
                kept += cost
        return kept

    with ThreadPoolExecutor(12) as threads:
        spent = sum(threads.map(spend, range(50)))
    (root,) = one.do(lambda tx: tx.named_budgets(["tenant:1"])).values()
    assert standing(one, top) == Standing(100, spent, 0)
    assert root.standing == Standing(90, spent, 0)
    assert 80 < spent <= 90
    own = one.do(lambda tx: tx.budgets_of(children[::2])).values()
    assert all(row.spent <= row.most and row.held == 0 for row in own)
