"""Budgets: money reserved and settled inside commits, as a tree; what was short is looked at again when something is free.

* A reservation, its settlement and the entry that records it are one transaction (`effects.commit_inside`), so a crash or
  a lost answer can neither charge twice nor forget (G3, G6).
* A reservation is made in every budget above its run, or in none. Which these are is kept with it: a budget that is
  added later changes nothing that was reserved before.
* What is never settled ends with its turn, in the commit that ends the turn: as spent or as free, as its author said.
  A run that waits for a person about trouble keeps its reservations.
* What does not fit is a wait for a person. Its run also stands in the queue of the budget that was short; whoever gives
  something back stirs that budget, and a sweep wakes, in the order in which they came, as many as now fit (G20). A woken
  run asks again; the wait of a person stays until it succeeds.

The order of locks: runs, leases, then budgets, all that are needed at once, by number. The sweep alone holds a budget
when it asks for runs, and skips those that somebody holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.core.budget import Lost, Short
from torpor.core.money import dollars
from torpor.core.run import State
from torpor.engine.sweeps import Swept
from torpor.errors import NotFound, UsageError
from torpor.store.rows import BudgetChange, HoldRow, NewBudget, RunChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.protocol import Tx
    from torpor.store.rows import BudgetRow, RunRow, ShortRow

SWEEP = 20
"""At most so many budgets in one transaction of the sweep, and the waiters below."""
WAKE = 100
_GENERATIONS = 100


# the tree


def path(tx: Tx, run: RunRow) -> list[int]:
    """Return the numbers of every budget that a run spends from; one without any limit is made if it has none.

    The nearest of the run and its ancestors that has one, those above it, its program's and its tenant's. What a family
    without a budget spends is counted at its root.
    """
    own, top = None, run
    for _ in range(_GENERATIONS):
        own = tx.budgets_of([top.id]).get(top.id)
        above = tx.get_runs([top.parent]).get(top.parent) if own is None and top.parent is not None else None
        if above is None:
            break
        top = above
    if own is None:
        tx.add_budgets([NewBudget(top.id)])
        own = tx.budgets_of([top.id])[top.id]
    found = [own.id]
    while own.parent is not None and own.parent not in found:
        own = tx.budgets([own.parent])[0]
        found.append(own.id)
    named = tx.named_budgets(_roots(tx, run))
    return sorted({*found, *(budget.id for budget in named.values())})


def _roots(tx: Tx, run: RunRow) -> list[str]:
    program = next((f"program:{row.name}" for row in tx.programs() if row.id == run.program), "")
    return [name for name in (program, f"tenant:{run.tenant}") if name]


def set_root(tx: Tx, name: str, most: int) -> BudgetRow:
    """Give a tenant (`tenant:acme`) or a program (`program:refunds`) a budget, or its budget another limit.

    It holds for all runs of it from now on, those that are under way included. Raises UsageError for other names.
    """
    kind, _, whose = name.partition(":")
    if kind == "tenant" and whose:
        name = f"tenant:{tx.intern_tenants([whose])[0]}"
    elif kind != "program" or whose not in {row.name for row in tx.programs()}:
        raise UsageError(f"{name!r} is no tenant and no known program", hint="tenant:NAME, or program:NAME")
    tx.add_budgets([NewBudget(name=name, most=most)])
    row = tx.budgets([tx.named_budgets([name])[name].id], lock=True)[0]
    tx.limit_budgets([(row.id, most)])
    _stir(tx, [row])
    return row._replace(most=most)


def carve(tx: Tx, run_id: int, parent: int, most: int) -> None:
    """Give a child a budget of its own below its parent's: what it spends counts in both, and fits into both.

    Raises UsageError if it is more than the whole budget of the nearest ancestor that has one.
    """
    above = tx.get_runs([parent]).get(parent)
    if above is None:
        raise NotFound("the parent is not there", hint="torpor ps lists runs")
    put_below(tx, run_id, room_below(tx, above, most), most)


def begin(tx: Tx, run: RunRow, most: int) -> None:
    """Give a run that is under way a budget of its own; none if it is a child and its parent's is smaller."""
    above = None if run.parent is None else tx.get_runs([run.parent]).get(run.parent)
    if above is None:
        give(tx, [(run.id, most)])
        return
    try:
        room = room_below(tx, above, most)
    except UsageError:
        return
    put_below(tx, run.id, room, most)


def put_below(tx: Tx, run_id: int, above: int, most: int) -> None:
    """Give a run a budget below another, as `room_below` found it."""
    tx.add_budgets([NewBudget(run_id, parent=above, most=most)])


def room_below(tx: Tx, parent: RunRow, most: int) -> int:
    """Return the number of the budget below which a child of a run could have one of its own.

    Raises UsageError if it is more than the whole budget of an ancestor.
    """
    chain = tx.budgets(path(tx, parent))
    own = [row for row in chain if row.run_id is not None]
    tightest = min((row.most for row in own if row.most is not None), default=None)
    if tightest is not None and most > tightest:
        raise UsageError(
            f"a child's budget of {dollars(most)} does not fit below {dollars(tightest)}",
            hint="give it less, or nothing: then it spends from its parent's",
        )
    ancestors = {row.run_id: row for row in own}
    return next(ancestors[n] for n in _line(tx, parent) if n in ancestors).id


def _line(tx: Tx, run: RunRow) -> list[int]:
    """Return a run and its ancestors, nearest first."""
    found = [run.id]
    while run.parent is not None and len(found) < _GENERATIONS:
        above = tx.get_runs([run.parent]).get(run.parent)
        if above is None:
            break
        run = above
        found.append(run.id)
    return found


# the end of reservations


def close(tx: Tx, runs: Sequence[int]) -> None:
    """End what turns or runs leave unsettled, each as its author said, and forget that they wait for a budget."""
    unsettled = tx.holds(runs)
    tx.drop_shorts([(run_id, "") for run_id in runs])
    end(tx, [(hold, hold.kept) for hold in unsettled])


def settle(tx: Tx, settled: Sequence[tuple[int, str, int]]) -> None:
    """Settle reservations of runs (run, hold, cost): what each really cost; the rest is free again.

    More than was reserved is spent all the same. So is what a copied run spends on a reservation that its original made: it
    has none of its own.
    """
    known = {(row.run_id, row.key): row for row in tx.holds(sorted({run_id for run_id, _, _ in settled}))}
    ends = []
    for run_id, hold, cost in settled:
        found = known.get((run_id, hold))
        if found is None:
            above = path(tx, tx.get_runs([run_id])[run_id])
            found = HoldRow(run_id, hold, 0, Lost.SPENT, tuple(above))
        ends.append((found, cost))
    end(tx, ends)


def end(tx: Tx, ends: Sequence[tuple[HoldRow, int]]) -> None:
    """End reservations at what each cost."""
    if not ends:
        return
    spent: dict[int, int] = {}
    held: dict[int, int] = {}
    for hold, cost in ends:
        for budget in hold.budgets:
            spent[budget] = spent.get(budget, 0) + cost
            held[budget] = held.get(budget, 0) + hold.amount
    rows = tx.budgets(list(held), lock=True)
    tx.change_budgets([BudgetChange(row.id, spent=spent[row.id], held=-held[row.id]) for row in rows])
    tx.drop_holds([(hold.run_id, hold.key) for hold, _ in ends])
    _stir(tx, [row for row in rows if held[row.id] > spent[row.id]])


# people


def raise_limit(tx: Tx, budget: int, more: int) -> None:
    """Raise a budget's limit. Whoever waits for it is looked at."""
    rows = tx.budgets([budget], lock=True)
    tx.change_budgets([BudgetChange(row.id, more=more) for row in rows])
    _stir(tx, rows)


def give(tx: Tx, limits: Sequence[tuple[int, int]]) -> None:
    """Give new runs (run, limit) budgets of their own."""
    tx.add_budgets([NewBudget(run_id, most=most) for run_id, most in limits])


# the queue


def _stir(tx: Tx, rows: Sequence[BudgetRow]) -> None:
    stirred = [BudgetChange(row.id, short=Short.STIRRED) for row in rows if row.short is Short.WAITS]
    if stirred:
        tx.change_budgets(stirred)
        tx.hint("budgets")


def wake(tx: Tx, *, limit: int = SWEEP, most: int = WAKE) -> Swept:
    """Wake runs that wait for a budget and now fit, in the order in which they came, a bounded number of them (G20)."""
    done, more = 0, False
    ids = tx.stirred_budgets(limit=limit)
    for budget in ids:
        row = tx.budgets([budget], lock=True)[0]
        if row.short is not Short.STIRRED:
            continue
        fitting = _fitting(row, tx.shorts(budget, limit=most))
        woken = _awaken(tx, fitting)
        done += woken
        if woken == len(fitting) < most:
            tx.change_budgets([BudgetChange(budget, short=Short.WAITS)])
        else:  # somebody held a run, or more may fit
            more = more or woken > 0
    return Swept(done, more or len(ids) >= limit > 0 < done)


def _fitting(row: BudgetRow, waiting: Sequence[ShortRow]) -> list[ShortRow]:
    """Return who fits, one after the other: the first that does not ends it, so that a large one is not passed by."""
    standing, found = row.standing, []
    for one in waiting:
        if standing.lacks(one.wants):
            break
        standing = standing._replace(held=standing.held + one.wants)
        found.append(one)
    return found


def _awaken(tx: Tx, fitting: Sequence[ShortRow]) -> int:
    """Make runs ready whose rows nobody holds; return how many calls were looked after.

    A running one is told by its `inbox`, so it looks again before it is put away (G7).
    """
    if not fitting:
        return 0
    runs = tx.get_runs(sorted({one.run_id for one in fitting}), lock=True, skip_locked=True)
    alive = [run for run in runs.values() if not run.state.final]
    tx.change_runs([_ready(run, tx.now()) for run in alive])
    for run in alive:
        if run.state is State.RUNNING:
            tx.hint(f"run:{run.id}")
    tx.hint("ready")
    woken = [(one.run_id, one.key) for one in fitting if one.run_id in runs]
    tx.wake_shorts(woken)
    return len(woken)


def _ready(run: RunRow, now: int) -> RunChange:
    return RunChange(run.id, State.READY, now, inbox=1) if run.state is State.WAITING else RunChange(run.id, inbox=1)


def budget_of(tx: Tx, run: RunRow) -> list[BudgetRow]:
    """Return every budget that a run spends from, by number, without making one."""
    chain = [row for n in _line(tx, run) if (row := tx.budgets_of([n]).get(n)) is not None][:1]
    while chain and (parent := chain[-1].parent) is not None:
        chain += tx.budgets([parent])
    return sorted({*chain, *tx.named_budgets(_roots(tx, run)).values()})


def whose(tx: Tx, row: BudgetRow) -> str:
    """Return whose budget it is, `tenant acme`; nothing for one of a run."""
    kind, _, name = (row.name or "").partition(":")
    return f"tenant {tx.tenant_name(int(name))}" if kind == "tenant" else f"{kind} {name}".strip()
