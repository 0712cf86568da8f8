"""Verbs on SQLite: budgets, reservations, rate buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.budget import Lost, Short
from torpor.store import texts
from torpor.store.rows import BucketRow, BudgetRow, HoldRow, ShortRow
from torpor.store.sqlite.begun import Begun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import BudgetChange, NewBudget

_COLUMNS = "id, run_id, name, parent, most, spent, held, short"
_CHANGE = """UPDATE budgets SET spent = spent + ?, held = held + ?, most = most + ?, short = coalesce(?, short)
    WHERE id = ?"""
_PUT_SHORT = """INSERT INTO shorts (run_id, key, budget, at, wants) VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id, key)
    DO UPDATE SET budget = excluded.budget, wants = excluded.wants, woken = 0"""
_SHORTS = """SELECT run_id, key, budget, at, wants FROM shorts INDEXED BY shorts_queue
    WHERE budget = ? AND woken = 0 ORDER BY at, run_id LIMIT ?"""
_BUCKET = "name, most, per, burst, promised, used, late"


def _budget(row: Sequence[Any]) -> BudgetRow:
    return BudgetRow._make((*row[:7], Short(row[7])))


class BudgetVerbs(Begun):
    """Budgets, reservations, buckets. One transaction writes at a time, so nothing is locked by itself."""

    def add_budgets(self, budgets: Sequence[NewBudget]) -> None:
        """Write budgets that are not there."""
        texts.check((budget.name for budget in budgets), "a budget's name")
        self._db.executemany(
            "INSERT INTO budgets (run_id, name, parent, most) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", budgets
        )

    def limit_budgets(self, limits: Sequence[tuple[int, int]]) -> None:
        """Change limits."""
        self._db.executemany("UPDATE budgets SET most = ?2 WHERE id = ?1", limits)

    def budgets(self, ids: Sequence[int], *, lock: bool = False) -> list[BudgetRow]:
        """Return budgets by number."""
        del lock
        return [_budget(row) for row in self._many(f"SELECT {_COLUMNS} FROM budgets WHERE id IN", ids, "ORDER BY id")]

    def budgets_of(self, runs: Sequence[int]) -> dict[int, BudgetRow]:
        """Return the budgets of runs."""
        rows = self._many(f"SELECT {_COLUMNS} FROM budgets WHERE run_id IN", runs)
        return {row[1]: _budget(row) for row in rows}

    def named_budgets(self, names: Sequence[str]) -> dict[str, BudgetRow]:
        """Return budgets by name."""
        statement = f"SELECT {_COLUMNS} FROM budgets WHERE name = ?"
        rows = [self._db.execute(statement, (name,)).fetchone() for name in names]
        return {row[2]: _budget(row) for row in rows if row is not None}

    def change_budgets(self, changes: Sequence[BudgetChange]) -> None:
        """Apply changes."""
        self._db.executemany(_CHANGE, [(c.spent, c.held, c.more, c.short, c.id) for c in changes])

    def stirred_budgets(self, *, limit: int) -> list[int]:
        """Return budgets whose waiters should be looked at."""
        statement = "SELECT id FROM budgets INDEXED BY budgets_stirred WHERE short = 2 ORDER BY id LIMIT ?"
        return [row[0] for row in self._db.execute(statement, (limit,))]

    def put_holds(self, holds: Sequence[HoldRow]) -> None:
        """Write reservations."""
        self._db.executemany(
            "INSERT OR REPLACE INTO holds (run_id, key, amount, lost, budgets) VALUES (?, ?, ?, ?, ?)",
            [(*hold[:4], " ".join(map(str, hold.budgets))) for hold in holds],
        )

    def holds(self, runs: Sequence[int]) -> list[HoldRow]:
        """Return reservations."""
        rows = self._many(
            "SELECT run_id, key, amount, lost, budgets FROM holds WHERE run_id IN", runs, "ORDER BY run_id, key"
        )
        return [HoldRow._make((*row[:3], Lost(row[3]), tuple(map(int, row[4].split())))) for row in rows]

    def drop_holds(self, keys: Sequence[tuple[int, str]]) -> None:
        """Remove reservations."""
        self._db.executemany("DELETE FROM holds WHERE run_id = ? AND key = ?", keys)

    def put_shorts(self, shorts: Sequence[ShortRow]) -> None:
        """Write who waits."""
        self._db.executemany(_PUT_SHORT, shorts)

    def shorts(self, budget: int, *, limit: int) -> list[ShortRow]:
        """Return who waits."""
        return [ShortRow(*row) for row in self._db.execute(_SHORTS, (budget, limit))]

    def wake_shorts(self, keys: Sequence[tuple[int, str]]) -> None:
        """Note who was woken."""
        self._db.executemany("UPDATE shorts SET woken = 1 WHERE run_id = ? AND key = ?", keys)

    def drop_shorts(self, keys: Sequence[tuple[int, str]]) -> None:
        """Remove who waits no more."""
        self._db.executemany("DELETE FROM shorts WHERE run_id = ?1 AND (key = ?2 OR ?2 = '')", keys)

    def bucket(self, row: BucketRow) -> BucketRow:
        """Return a bucket, written if it is not there."""
        texts.check([row.name], "a bucket's name")
        self._db.execute(f"INSERT INTO buckets ({_BUCKET}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
        return self.find_bucket(row.name) or row

    def tenant_name(self, number: int) -> str:
        """Return a tenant's name."""
        row = self._db.execute("SELECT name FROM tenants WHERE id = ?", (number,)).fetchone()
        return "" if row is None else str(row[0])

    def find_bucket(self, name: str) -> BucketRow | None:
        """Return a bucket, if it is there."""
        found = self._db.execute(f"SELECT {_BUCKET} FROM buckets WHERE name = ?", (name,)).fetchone()
        return None if found is None else BucketRow(*found)

    def put_bucket(self, row: BucketRow) -> None:
        """Change a bucket."""
        self._db.execute(f"INSERT OR REPLACE INTO buckets ({_BUCKET}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def buckets(self, *, limit: int) -> list[BucketRow]:
        """Return buckets."""
        rows = self._db.execute(f"SELECT {_BUCKET} FROM buckets ORDER BY name LIMIT ?", (limit,))
        return [BucketRow(*row) for row in rows]
