"""What a run does with money, each inside the commit that records it (`effects.commit_inside`): reserve, settle, ask.

The rules of budgets, and in which order they are locked, are in `engine.budgets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.budget import Lost, Short, least_left, wish
from torpor.core.commit import NewWait
from torpor.core.journal import Entry, Kind
from torpor.core.money import dollars
from torpor.core.wait import WaitKind
from torpor.engine import budgets
from torpor.engine.effects import Inside
from torpor.store import values
from torpor.store.rows import BudgetChange, HoldRow, ShortRow

if TYPE_CHECKING:
    from torpor.store.protocol import Tx
    from torpor.store.rows import BudgetRow

_NOTHING = values.encode(None)


class Wish(NamedTuple):
    """A reservation that a run asks for, by the key of its call.

    `asked` is the open wait (slot, seq) of an earlier attempt, `answered` the slot of one that a person decided, `note`
    what they said; with `once` it is made although it does not fit. `slot` is free for a wait of its own.
    """

    run_id: int
    key: str
    amount: int
    lost: Lost
    slot: int
    asked: tuple[int, int] | None = None
    answered: int | None = None
    note: bytes | None = None
    once: bool = False
    why: str = ""
    """What a person is told of a reservation whose amount says nothing."""


def reserve(tx: Tx, wanted: Wish) -> Inside | None:
    """Reserve in every budget above a run, or ask a person. None: it is short as it was, and somebody is asked already."""
    run = tx.get_runs([wanted.run_id])[wanted.run_id]
    stale = [hold for hold in tx.holds([run.id]) if hold.key == wanted.key]  # of a history that was rewound
    mine = budgets.path(tx, run)
    locked = tx.budgets(sorted({*mine, *(n for hold in stale for n in hold.budgets)}), lock=True)
    if stale:
        budgets.end(tx, [(hold, hold.kept) for hold in stale])
        locked = tx.budgets([row.id for row in locked], lock=True)
    rows = [row for row in locked if row.id in mine]
    noted = [] if wanted.note is None else [Entry(Kind.NOTE, wanted.key, wanted.note)]
    over = [] if wanted.answered is None else [wanted.answered]
    tightest = max(rows, key=lambda row: row.standing.lacks(wanted.amount))
    short = tightest if tightest.standing.lacks(wanted.amount) and not wanted.once else None
    if short is not None:
        tx.put_shorts([ShortRow(run.id, wanted.key, short.id, tx.now(), wanted.amount)])
        tx.change_budgets([BudgetChange(short.id, short=Short.WAITS)])
        if wanted.asked is not None:
            return None
        title = wish(short.standing, wanted.amount, budgets.whose(tx, short), wanted.why)
        entry = Entry(Kind.WAIT, wanted.key, values.encode(_question(short, wanted, title)))
        question = NewWait(wanted.slot, len(noted) + 1, WaitKind.BUDGET, None, title)
        return Inside([*noted, entry], [question], over=over)
    if wanted.amount:
        ids = tuple(row.id for row in rows)
        tx.change_budgets([BudgetChange(row.id, held=wanted.amount) for row in rows])
        tx.put_holds([HoldRow(run.id, wanted.key, wanted.amount, wanted.lost, ids)])
    if wanted.asked is not None or wanted.answered is not None:
        tx.drop_shorts([(run.id, wanted.key)])
    outcome = values.encode({"hold": wanted.key, "micros": wanted.amount})
    closes = [] if wanted.asked is None else [wanted.asked]
    return Inside([*noted, Entry(Kind.OUTCOME, wanted.key, outcome)], closes=closes, over=over)


def _question(short: BudgetRow, wanted: Wish, title: str) -> dict[str, Any]:
    return {
        "title": title,
        "budget": short.id,
        "wants": dollars(wanted.amount),
        "lacks": dollars(short.standing.lacks(wanted.amount)),
        "limit": dollars(short.most or 0),
        "spent": dollars(short.spent),
        "reserved": dollars(short.held),
    }


def settle(tx: Tx, run_id: int, call: str, hold: str, cost: int) -> Inside:
    """Say what a reservation really cost; the rest is free again. More than was reserved is spent all the same.

    So is what a copied run spends on a reservation that its original made: it has none of its own.
    """
    budgets.settle(tx, [(run_id, hold, cost)])
    return Inside([Entry(Kind.OUTCOME, call, _NOTHING)])


def limit(tx: Tx, run_id: int, call: str, most: int) -> Inside:
    """Give a run a budget of its own, unless it has one with a limit; a child's must fit below its parent's."""
    run = tx.get_runs([run_id])[run_id]
    own = tx.budgets_of([run_id]).get(run_id)
    if own is None:
        budgets.begin(tx, run, most)
    elif own.most is None:
        tx.limit_budgets([(own.id, most)])
    return Inside([Entry(Kind.OUTCOME, call, _NOTHING)])


def left(tx: Tx, run_id: int, call: str) -> Inside:
    """Record what a run may still reserve: the least of all budgets above it; nothing if none has a limit."""
    rows = tx.budgets(budgets.path(tx, tx.get_runs([run_id])[run_id]))
    return Inside([Entry(Kind.OUTCOME, call, values.encode(least_left(row.standing for row in rows)))])
