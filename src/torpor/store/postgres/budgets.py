"""Verbs on PostgreSQL: budgets, reservations, rate buckets. Rows of one kind are locked in order, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.budget import Lost, Short
from torpor.store import texts
from torpor.store.postgres.arrays import TextArray, longs
from torpor.store.postgres.begun import Begun
from torpor.store.rows import BucketRow, BudgetRow, HoldRow, ShortRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import BudgetChange, NewBudget

_COLUMNS = "id, run_id, name, parent, most, spent, held, short"
_ADD = """INSERT INTO budgets (run_id, name, parent, most) SELECT run_id, name, parent, most
    FROM unnest(%(runs)s::bigint[], %(names)s::text[], %(parents)s::bigint[], %(mosts)s::bigint[])
    WITH ORDINALITY AS b(run_id, name, parent, most, n) ORDER BY n ON CONFLICT DO NOTHING"""
_LIMIT = """UPDATE budgets b SET most = c.most FROM unnest(%(ids)s::bigint[], %(mosts)s::bigint[]) AS c(id, most)
    WHERE b.id = c.id"""
_CHANGE = """UPDATE budgets b SET spent = b.spent + c.spent, held = b.held + c.held, most = b.most + c.more,
    short = coalesce(c.short, b.short) FROM unnest(%(ids)s::bigint[], %(spents)s::bigint[], %(helds)s::bigint[],
    %(mores)s::bigint[], %(shorts)s::smallint[]) AS c(id, spent, held, more, short) WHERE b.id = c.id"""
_PUT_HOLDS = """INSERT INTO holds (run_id, key, amount, lost, budgets) SELECT * FROM unnest(%(runs)s::bigint[],
    %(keys)s::text[], %(amounts)s::bigint[], %(losts)s::smallint[], %(budgets)s::text[])
    ON CONFLICT (run_id, key) DO UPDATE SET amount = excluded.amount, lost = excluded.lost, budgets = excluded.budgets"""
_DROP_HOLDS = """DELETE FROM holds h USING unnest(%(runs)s::bigint[], %(keys)s::text[]) AS k(run_id, key)
    WHERE h.run_id = k.run_id AND h.key = k.key"""
_PUT_SHORTS = """INSERT INTO shorts (run_id, key, budget, at, wants) SELECT * FROM unnest(%(runs)s::bigint[],
    %(keys)s::text[], %(budgets)s::bigint[], %(ats)s::bigint[], %(wants)s::bigint[])
    ON CONFLICT (run_id, key) DO UPDATE SET budget = excluded.budget, wants = excluded.wants, woken = 0"""
_SHORTS = """SELECT run_id, key, budget, at, wants FROM shorts WHERE budget = %(budget)s AND woken = 0
    ORDER BY at, run_id LIMIT %(limit)s"""
_WAKE_SHORTS = """UPDATE shorts s SET woken = 1 FROM unnest(%(runs)s::bigint[], %(keys)s::text[]) AS k(run_id, key)
    WHERE s.run_id = k.run_id AND s.key = k.key"""
_DROP_SHORTS = """DELETE FROM shorts s USING unnest(%(runs)s::bigint[], %(keys)s::text[]) AS k(run_id, key)
    WHERE s.run_id = k.run_id AND (s.key = k.key OR k.key = '')"""
_BUCKET = "name, most, per, burst, promised, used, late"
_ADD_BUCKET = f"""INSERT INTO buckets ({_BUCKET}) VALUES (%(name)s, %(most)s, %(per)s, %(burst)s, %(promised)s, %(used)s,
    %(late)s) ON CONFLICT DO NOTHING"""
_PUT_BUCKET = """UPDATE buckets SET most = %(most)s, per = %(per)s, burst = %(burst)s, promised = %(promised)s,
    used = %(used)s, late = %(late)s WHERE name = %(name)s"""


def _budget(row: Sequence[Any]) -> BudgetRow:
    return BudgetRow._make((*row[:7], Short(row[7])))


class BudgetVerbs(Begun):
    """Budgets, reservations, buckets."""

    def add_budgets(self, budgets: Sequence[NewBudget]) -> None:
        """Write budgets that are not there, in order."""
        texts.check((budget.name for budget in budgets), "a budget's name")
        self._tell(
            _ADD,
            runs=longs([b.run_id for b in budgets]),
            names=TextArray([b.name for b in budgets]),
            parents=longs([b.parent for b in budgets]),
            mosts=longs([b.most for b in budgets]),
        )

    def limit_budgets(self, limits: Sequence[tuple[int, int]]) -> None:
        """Change limits."""
        self._tell(_LIMIT, ids=longs([one[0] for one in limits]), mosts=longs([one[1] for one in limits]))

    def budgets(self, ids: Sequence[int], *, lock: bool = False) -> list[BudgetRow]:
        """Return budgets, locked in order of number."""
        how = "FOR UPDATE" if lock else ""
        statement = f"SELECT {_COLUMNS} FROM budgets WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id {how}"
        return [_budget(row) for row in self._ask(statement, ids=longs(ids))]

    def budgets_of(self, runs: Sequence[int]) -> dict[int, BudgetRow]:
        """Return the budgets of runs."""
        rows = self._ask(
            f"SELECT {_COLUMNS} FROM budgets WHERE run_id = ANY(%(runs)s::bigint[]) ORDER BY id", runs=longs(runs)
        )
        return {row[1]: _budget(row) for row in rows}

    def named_budgets(self, names: Sequence[str]) -> dict[str, BudgetRow]:
        """Return budgets by name."""
        rows = self._ask(
            f"SELECT {_COLUMNS} FROM budgets WHERE name = ANY(%(names)s::text[]) ORDER BY id", names=TextArray(names)
        )
        return {row[2]: _budget(row) for row in rows}

    def change_budgets(self, changes: Sequence[BudgetChange]) -> None:
        """Apply changes."""
        self._tell(
            _CHANGE,
            ids=longs([c.id for c in changes]),
            spents=longs([c.spent for c in changes]),
            helds=longs([c.held for c in changes]),
            mores=longs([c.more for c in changes]),
            shorts=longs([c.short for c in changes]),
        )

    def stirred_budgets(self, *, limit: int) -> list[int]:
        """Return budgets whose waiters should be looked at."""
        rows = self._ask("SELECT id FROM budgets WHERE short = 2 ORDER BY id LIMIT %(limit)s", limit=limit)
        return [row[0] for row in rows]

    def put_holds(self, holds: Sequence[HoldRow]) -> None:
        """Write reservations."""
        self._tell(
            _PUT_HOLDS,
            runs=longs([h.run_id for h in holds]),
            keys=TextArray([h.key for h in holds]),
            amounts=longs([h.amount for h in holds]),
            losts=longs([h.lost for h in holds]),
            budgets=TextArray([" ".join(map(str, h.budgets)) for h in holds]),
        )

    def holds(self, runs: Sequence[int]) -> list[HoldRow]:
        """Return reservations."""
        rows = self._ask(
            """SELECT run_id, key, amount, lost, budgets FROM holds WHERE run_id = ANY(%(runs)s::bigint[])
            ORDER BY run_id, key""",
            runs=longs(runs),
        )
        return [HoldRow._make((*row[:3], Lost(row[3]), tuple(map(int, row[4].split())))) for row in rows]

    def drop_holds(self, keys: Sequence[tuple[int, str]]) -> None:
        """Remove reservations."""
        self._tell(_DROP_HOLDS, **_keys(keys))

    def put_shorts(self, shorts: Sequence[ShortRow]) -> None:
        """Write who waits."""
        self._tell(
            _PUT_SHORTS,
            runs=longs([s.run_id for s in shorts]),
            keys=TextArray([s.key for s in shorts]),
            budgets=longs([s.budget for s in shorts]),
            ats=longs([s.at for s in shorts]),
            wants=longs([s.wants for s in shorts]),
        )

    def shorts(self, budget: int, *, limit: int) -> list[ShortRow]:
        """Return who waits."""
        return [ShortRow(*row) for row in self._ask(_SHORTS, budget=budget, limit=limit)]

    def wake_shorts(self, keys: Sequence[tuple[int, str]]) -> None:
        """Note who was woken."""
        self._tell(_WAKE_SHORTS, **_keys(keys))

    def drop_shorts(self, keys: Sequence[tuple[int, str]]) -> None:
        """Remove who waits no more."""
        self._tell(_DROP_SHORTS, **_keys(keys))

    def bucket(self, row: BucketRow) -> BucketRow:
        """Return a bucket, locked, written if it is not there."""
        texts.check([row.name], "a bucket's name")
        self._tell(_ADD_BUCKET, **row._asdict())
        return self.find_bucket(row.name) or row

    def tenant_name(self, number: int) -> str:
        """Return a tenant's name."""
        rows = self._ask("SELECT name FROM tenants WHERE id = %(number)s", number=number)
        return str(rows[0][0]) if rows else ""

    def find_bucket(self, name: str) -> BucketRow | None:
        """Return a bucket, locked, if it is there."""
        rows = self._ask(f"SELECT {_BUCKET} FROM buckets WHERE name = %(name)s FOR UPDATE", name=name)
        return BucketRow(*rows[0]) if rows else None

    def put_bucket(self, row: BucketRow) -> None:
        """Change a bucket."""
        self._tell(_PUT_BUCKET, **row._asdict())

    def buckets(self, *, limit: int) -> list[BucketRow]:
        """Return buckets."""
        return [
            BucketRow(*row) for row in self._ask(f"SELECT {_BUCKET} FROM buckets ORDER BY name LIMIT %(n)s", n=limit)
        ]


def _keys(keys: Sequence[tuple[int, str]]) -> dict[str, Any]:
    return {"runs": longs([run for run, _ in keys]), "keys": TextArray([key for _, key in keys])}
