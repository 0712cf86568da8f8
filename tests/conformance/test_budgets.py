"""Budgets, reservations, rate buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torpor.core.budget import Lost, Short
from torpor.errors import UsageError
from torpor.store.rows import BucketRow, BudgetChange, BudgetRow, HoldRow, NewBudget, ShortRow

if TYPE_CHECKING:
    from torpor.store.protocol import Store


def budgets(store: Store, *new: NewBudget) -> list[BudgetRow]:
    """Write budgets and return all there are."""
    store.transact_now(lambda tx: tx.add_budgets(new))
    found: list[BudgetRow] = store.transact_now(lambda tx: tx.budgets(range(1, 20)))
    return found


def test_a_budget_is_written_once(store: Store) -> None:
    """Another one for the same run or name changes nothing."""
    first, second = budgets(store, NewBudget(7, most=5), NewBudget(name="tenant:1", most=9))
    assert first == BudgetRow(first.id, 7, None, None, 5, 0, 0, Short.NOBODY)
    assert second == BudgetRow(second.id, None, "tenant:1", None, 9, 0, 0, Short.NOBODY)
    same = NewBudget(7, parent=second.id, most=6), NewBudget(name="tenant:1", most=10)
    after = budgets(store, *same, NewBudget(8, parent=first.id))
    assert [row[1:] for row in after[:2]] == [first[1:], second[1:]]
    assert after[2][1:5] == (8, None, first.id, None)
    do = store.transact_now
    assert do(lambda tx: tx.budgets_of([8, 7, 9])) == {7: after[0], 8: after[2]}
    assert do(lambda tx: tx.named_budgets(["tenant:1", "tenant:2"])) == {"tenant:1": after[1]}
    assert do(lambda tx: tx.budgets([after[2].id, first.id, 99], lock=True)) == [after[0], after[2]]


def test_changes_add_up(store: Store) -> None:
    """What is spent, held and raised is added; a budget without a limit keeps none; None leaves `short` alone."""
    first, second = budgets(store, NewBudget(7, most=5), NewBudget(8))
    do = store.transact_now
    do(lambda tx: tx.change_budgets([BudgetChange(first.id, 1, 2, 3, Short.WAITS), BudgetChange(second.id, more=3)]))
    do(lambda tx: tx.change_budgets([BudgetChange(first.id, held=-1)]))
    after = budgets(store)
    assert after[0][4:] == (8, 1, 1, Short.WAITS)
    assert after[1][4:] == (None, 0, 0, Short.NOBODY)
    do(lambda tx: tx.limit_budgets([(second.id, 4)]))
    assert budgets(store)[1].most == 4


def test_stirred_budgets_are_found(store: Store) -> None:
    """Those that were given something while somebody waits, by number, up to a limit."""
    rows = budgets(store, *(NewBudget(n) for n in (5, 6, 7, 8)))
    shorts = (Short.STIRRED, Short.WAITS, Short.STIRRED, Short.STIRRED)
    changes = [BudgetChange(row.id, short=short) for row, short in zip(rows, shorts, strict=True)]
    store.transact_now(lambda tx: tx.change_budgets(changes))
    assert store.transact_now(lambda tx: tx.stirred_budgets(limit=2)) == [rows[0].id, rows[2].id]


def test_reservations_by_run_and_call(store: Store) -> None:
    """Written over those of the same call; read by run and key; dropped one by one."""
    do = store.transact_now
    one, two = HoldRow(3, "b:reserve#1", 5, Lost.SPENT, (1, 4)), HoldRow(2, "b:reserve#1", 6, Lost.FREE, (1,))
    do(lambda tx: tx.put_holds([one._replace(amount=1), two]))
    do(lambda tx: tx.put_holds([one, one._replace(key="b:reserve#2")]))
    assert do(lambda tx: tx.holds([3, 2, 9])) == [two, one, one._replace(key="b:reserve#2")]
    do(lambda tx: tx.drop_holds([(3, "b:reserve#1"), (9, "b:reserve#1")]))
    assert do(lambda tx: tx.holds([3])) == [one._replace(key="b:reserve#2")]


def test_who_waits_is_woken_in_order(store: Store) -> None:
    """The first that came is the first; who was woken is not seen before it asks again, and keeps its place."""
    do = store.transact_now
    rows = [ShortRow(n, "b:reserve#1", 1, 100 - n, n) for n in (3, 4, 5)] + [ShortRow(6, "b:reserve#1", 2, 1, 1)]
    do(lambda tx: tx.put_shorts(rows))
    assert do(lambda tx: tx.shorts(1, limit=9)) == rows[2::-1]
    assert do(lambda tx: tx.shorts(1, limit=1)) == rows[2:3]
    do(lambda tx: tx.wake_shorts([(5, "b:reserve#1"), (9, "b:reserve#1")]))
    assert do(lambda tx: tx.shorts(1, limit=9)) == [rows[1], rows[0]]
    do(lambda tx: tx.put_shorts([rows[2]._replace(at=999, wants=8)]))
    assert do(lambda tx: tx.shorts(1, limit=9))[0] == rows[2]._replace(wants=8)
    do(lambda tx: tx.drop_shorts([(4, "b:reserve#1"), (3, "b:reserve#2"), (6, "")]))
    assert do(lambda tx: tx.shorts(1, limit=9)) == [rows[2]._replace(wants=8), rows[0]]
    assert do(lambda tx: tx.shorts(2, limit=9)) == []


def test_a_bucket_is_written_by_who_comes_first(store: Store) -> None:
    """Who comes later gets what is there; a name that cannot be stored is refused."""
    do = store.transact_now
    mail = BucketRow("mail", 10, 60, 1, 2, 3, 4)
    assert do(lambda tx: tx.find_bucket("mail")) is None
    assert do(lambda tx: tx.bucket(mail)) == mail
    assert do(lambda tx: tx.bucket(BucketRow("mail", 1, 1, 1))) == mail
    do(lambda tx: tx.put_bucket(mail._replace(used=9, most=11)))
    do(lambda tx: tx.bucket(BucketRow("api", 1, 1, 1)))
    assert do(lambda tx: tx.buckets(limit=9)) == [BucketRow("api", 1, 1, 1), mail._replace(used=9, most=11)]
    with pytest.raises(UsageError, match="bucket"):
        do(lambda tx: tx.bucket(mail._replace(name="a\0b")))


def test_tenants_have_names(store: Store) -> None:
    """By number."""
    number = store.transact_now(lambda tx: tx.intern_tenants(["acme"]))[0]
    assert store.transact_now(lambda tx: tx.tenant_name(number)) == "acme"
    assert store.transact_now(lambda tx: tx.tenant_name(99)) == ""
