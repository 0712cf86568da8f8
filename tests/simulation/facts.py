"""What a world left behind: read once when it rests, for the invariants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.programs import TABLE
from torpor.client import Client
from torpor.core.ids import run_name
from torpor.core.run import State
from torpor.errors import RunCancelled, RunFailed
from torpor.store.rows import RunFilter
from torpor.testing.showing import Line, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.plans import Wanted
    from tests.simulation.world import World
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow, WaitRow


@dataclass
class Ended:
    """A run as it was left."""

    row: RunRow
    name: str
    journal: list[Line]
    waits: Sequence[WaitRow]
    keys: dict[int, str]
    """The whole key of each entry."""
    result: Any = None
    text: str = ""
    spent: int = 0
    wanted: Wanted | None = None
    """What it was started for; None for a child."""
    copy: bool = False
    """Whether it is a fork."""


@dataclass
class Facts:
    """All of it."""

    runs: dict[int, Ended] = field(default_factory=dict)
    booked: Sequence[tuple[str, int]] = ()
    doctor: Any = None


def collect(world: World) -> Facts:
    """Read everything."""
    facts = Facts(world.database.look(_runs))
    by_name = {ended.name: ended for ended in facts.runs.values()}
    for number, name in world.people.runs.items():
        by_name[name].wanted = world.plan.wanted[number]
    for number, name in world.people.forks:
        by_name[name].wanted, by_name[name].copy = world.plan.wanted[number], True
    people = world.people_link.process
    asking = people.enter(lambda: people.create_task(_ask(Client(world.people_link), facts)))
    while not asking.done() and world.machines.schedule.step():
        pass
    asking.result()
    return facts


def _runs(tx: Tx) -> dict[int, Ended]:
    programs = {row.id: row.name for row in tx.programs()}
    found = {}
    for row in sorted(tx.list_runs(RunFilter(limit=1000))):
        keys = {entry.seq: entry.key or "" for entry in tx.journal(row.id)}
        found[row.id] = Ended(row, run_name(programs[row.program], row.id), lines(tx, row.id), tx.waits([row.id]), keys)
    return found


async def _ask(client: Client, facts: Facts) -> None:
    """Ask as a person would."""
    for ended in facts.runs.values():
        if ended.row.state.final:
            try:
                ended.result = await client.result(ended.name)
            except (RunCancelled, RunFailed) as error:
                ended.result = error
        if ended.row.state is State.COMPLETED and ended.wanted is not None:
            ended.text = await client.text(ended.name)
            for budget in await client.budgets(ended.name):
                if budget.of == ended.name:
                    ended.spent = round(budget.spent * 1_000_000)
    facts.doctor = await client.doctor(check=False)


def make_table(tx: Any) -> None:
    """Make the author's own table, for transactional effects, and take chance out of the store."""
    statement = f"CREATE TABLE {TABLE} (tag text, n bigint)"
    with tx.lend() as connection:
        connection.execute(statement)
    tx.put_meta("token_key", "00" * 32)  # which a store draws for itself: tokens of callbacks would differ


def booked(tx: Any) -> Sequence[tuple[str, int]]:
    """Return what is in it."""
    with tx.lend() as connection:
        found = connection.execute(f"SELECT tag, n FROM {TABLE} ORDER BY tag").fetchall()  # noqa: S608 - made here
    return [(row[0], row[1]) for row in found]
