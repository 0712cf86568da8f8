"""Verbs about budgets, reservations and rate buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import BucketRow, BudgetChange, BudgetRow, HoldRow, NewBudget, ShortRow


class BudgetVerbs(Protocol):
    """Budgets, reservations, buckets. Whoever locks budgets has locked its runs before, and locks them all at once."""

    def add_budgets(self, budgets: Sequence[NewBudget]) -> None:
        """Write budgets, in order; one whose run or name has a budget already changes nothing."""

    def limit_budgets(self, limits: Sequence[tuple[int, int]]) -> None:
        """Give (budget, limit) another limit."""

    def budgets(self, ids: Sequence[int], *, lock: bool = False) -> list[BudgetRow]:
        """Return budgets by number; with `lock`, locked in that order until the transaction ends."""

    def budgets_of(self, runs: Sequence[int]) -> dict[int, BudgetRow]:
        """Return the budgets that runs have of their own, by run."""

    def named_budgets(self, names: Sequence[str]) -> dict[str, BudgetRow]:
        """Return budgets by name."""

    def change_budgets(self, changes: Sequence[BudgetChange]) -> None:
        """Apply changes to budgets that this transaction has locked."""

    def stirred_budgets(self, *, limit: int) -> list[int]:
        """Return the budgets that somebody waits for and that were given something since, by number."""

    def put_holds(self, holds: Sequence[HoldRow]) -> None:
        """Write reservations, over those of the same call."""

    def holds(self, runs: Sequence[int]) -> list[HoldRow]:
        """Return the open reservations of runs, by run and key."""

    def drop_holds(self, keys: Sequence[tuple[int, str]]) -> None:
        """Remove reservations by (run, key)."""

    def put_shorts(self, shorts: Sequence[ShortRow]) -> None:
        """Say that calls wait for a budget. One that waited before keeps its `at`, and is looked at again."""

    def shorts(self, budget: int, *, limit: int) -> list[ShortRow]:
        """Return who waits for a budget and was not woken since it asked, in the order in which they came."""

    def wake_shorts(self, keys: Sequence[tuple[int, str]]) -> None:
        """Say that (run, key) was woken."""

    def drop_shorts(self, keys: Sequence[tuple[int, str]]) -> None:
        """Say that (run, key) waits no more; an empty key: no call of the run does."""

    def bucket(self, row: BucketRow) -> BucketRow:
        """Return the bucket of that name as it is, locked until the transaction ends; write the given one if there is none."""

    def tenant_name(self, number: int) -> str:
        """Return the name of a tenant, empty for a number that is none."""

    def find_bucket(self, name: str) -> BucketRow | None:
        """Return a bucket, locked, or None."""

    def put_bucket(self, row: BucketRow) -> None:
        """Change a bucket that this transaction has locked."""

    def buckets(self, *, limit: int) -> list[BucketRow]:
        """Return buckets by name, for people."""
