"""Stores that older torpors made, migrated by today's: every run goes on to its right end, nothing is lost or repeated.

The databases are in `tests/fixtures/schema-N`, one folder for each schema that was ever released (docs/development.md).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import program
from tests.patience import PATIENCE_SECONDS
from tests.stores import START_AT
from torpor import RunCancelled, RunFailed
from torpor.client import Client
from torpor.engine import runs
from torpor.errors import SchemaMismatch
from torpor.store import migrate, values
from torpor.store.opening import open_store
from torpor.store.postgres import PostgresStore
from torpor.store.sqlite import SqliteStore
from torpor.testing import Lab
from torpor.testing.lab import run_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment, Place

FIXTURES = Path(__file__).parents[1] / "fixtures"
SCHEMAS = sorted(int(folder.name.removeprefix("schema-")) for folder in FIXTURES.glob("schema-*"))
KINDS = ("sqlite", "postgres")


class Old:
    """A database as an older torpor left it."""

    def __init__(self, place: Place, schema: int) -> None:
        """Load it in place of what is there, and go to its moment."""
        folder = FIXTURES / f"schema-{schema}"
        self.place, self.schema = place, schema
        self.begun = json.loads((folder / "begun.json").read_text("utf-8"))
        text = (folder / f"{place.kind}.sql").read_text("utf-8")
        if place.kind == "sqlite":
            with closing(sqlite3.connect(self.file)) as db, db:
                db.executescript(text)
            db.close()
        else:
            place.remake(text)
        place.moment.advance((self.begun["at"] - START_AT) / 1e6)

    @property
    def file(self) -> Path:
        """The database's file."""
        return Path(self.place.url.removeprefix("sqlite:///"))

    def unopened(self) -> SqliteStore | PostgresStore:
        """Return a store that looks at no schema."""
        url = self.place.url
        return PostgresStore(url) if self.place.on_server else SqliteStore(str(self.file), clock=self.place.moment.now)

    def migrated(self) -> None:
        """Migrate it."""
        store = self.unopened()
        assert store.schema() == self.schema
        assert store.migrate() == migrate.newest(store.kind)
        store.close_now()


@pytest.fixture(params=[(kind, schema) for kind in KINDS for schema in SCHEMAS], ids=lambda one: f"{one[0]}-{one[1]}")
def old(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Old:
    """Return each old database on each store."""
    kind, schema = request.param
    return Old(make_place(kind), schema)


STATES = {
    **dict.fromkeys(
        ("version 1", "version 2", "asleep", "unread", "message", "told", "late unread", "rows"), "waiting"
    ),
    **dict.fromkeys(("open approval", "unknown"), "waiting"),
    **dict.fromkeys(("answered approval", "ready"), "ready"),
    **dict.fromkeys(("completed", "denied approval", "teller"), "completed"),
    "failed": "failed",
    "cancelled": "cancelled",
    "killed": "running",
}
RESULTS: dict[str, Any] = {
    "version 1": [40, 2],
    "version 2": [41, 3],
    "asleep": "saw asleep after",
    "unread": ["plain", "keyed", "other", "last"],
    "message": 7,
    "told": "from afar",
    "open approval": "paid open",
    "denied approval": "denied by ben",
    "answered approval": "paid answered",
    "rows": [len(program.LARGE), [f"found {n}" for n in range(9)]],
    "completed": "saw done",
    "unknown": "paid by hand",
    "late unread": ["early", "keyed early", "last"],
    "teller": "told",
    "killed": "saw killed one, posted killed, saw killed three",
    "ready": "saw last",
}
REPEATED = {"post killed": 2}
"""Its worker died after it had acted: it acts again, under the same key."""


def test_every_run_goes_on_to_its_right_end(old: Old, moment: Moment) -> None:
    """Runs in every state: what slept, waited, was killed or lay unread under the old schema ends under today's (G3)."""
    old.migrated()

    async def main() -> None:
        async with Lab(program.app, store=old.place.open(), clock=moment, name="w1") as lab:
            client = Client(lab.store)
            names: dict[str, str] = old.begun["runs"]
            found = {name: (await client.show(run)).line.state for name, run in names.items()}
            assert found == STATES
            again = await lab.store.transact(runs.start, [runs.Start("looks", values.encode("last"), "order-2")])
            assert again[0].name == names["ready"], "a run's key still finds it"
            await people_and_time(lab, {name: run_of(run) for name, run in names.items()})
            for name, wanted in RESULTS.items():
                assert await lab.result(run_of(names[name])) == wanted, name
            with pytest.raises(RunFailed, match="ValueError: bad"):
                await lab.result(run_of(names["failed"]))
            with pytest.raises(RunCancelled):
                await lab.result(run_of(names["cancelled"]))
            told = await client.doctor()
            assert (told.errors, told.counts["waiting"], told.counts["ready"]) == (0, 0, 0)

    program.CALLS[:] = old.begun["calls"]
    asyncio.run(main())
    calls = Counter(program.CALLS)
    assert {call: count for call, count in calls.items() if count != 1} == REPEATED
    assert set(calls) >= {"look asleep after", "pay open", "pay answered", "look killed three", "look last"}


async def people_and_time(lab: Lab, runs_of: dict[str, Any]) -> None:
    """Do what people, the world and time do."""
    lab.advance(60)  # the killed worker was of another machine: only its lease's end shows that it is gone
    await lab.settle()
    await lab.approve("Pay open?", by="ada")
    await lab.answer(runs_of["unknown"], happened="paid by hand")
    await lab.signal(runs_of["message"], "go", 7)
    assert not await lab.signal(runs_of["unread"], "note", "keyed", key="a"), "a consumed key is still known"
    for name in ("unread", "late unread"):
        await lab.signal(runs_of[name], "note", "last")
    await lab.pass_time(4000)


def test_an_older_store_is_refused_and_keeps_a_copy(old: Old) -> None:
    """Nothing works on it before it was migrated; beside a file its copy stays, whole and of the old schema."""
    with pytest.raises(SchemaMismatch, match=f"schema is {old.schema}, this torpor needs"):
        open_store(old.place.url)
    old.migrated()
    if old.place.kind == "sqlite":
        copy = old.file.with_name(f"{old.file.name}.schema-{old.schema}")
        with closing(sqlite3.connect(copy)) as db, db:
            assert db.execute("PRAGMA user_version").fetchone()[0] == old.schema
            assert db.execute("SELECT count(*) FROM runs").fetchone()[0] == len(old.begun["runs"])
            assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        db.close()
        assert not list(old.file.parent.glob("*.copying"))


KILLED = """
import os, signal, sys
from torpor.store import migrate
from torpor.store.sqlite import SqliteStore
known = migrate.migrations("sqlite")
migrate.migrations = lambda kind: known[:-1] + ((known[-1][0], known[-1][1] + "SELECT die();"),)
store = SqliteStore(sys.argv[1])
store._seat("writer").db.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
store.migrate()
"""


def test_a_kill_in_the_middle_leaves_the_old_schema(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when every statement was done but nothing committed: the store is as it was, and migrates the next time."""
    if old.place.kind == "sqlite":
        ended = subprocess.run([sys.executable, "-c", KILLED, str(old.file)], check=False, capture_output=True)
        assert ended.returncode == -9, ended.stderr.decode()
    else:
        known = migrate.migrations("postgres")
        last = known[-1][0], known[-1][1] + "SELECT pg_terminate_backend(pg_backend_pid());"
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "migrations", lambda _kind: (*known[:-1], last))
            store = old.unopened()
            with pytest.raises(Exception, match=r"terminat|closed|connection"):
                store.migrate()
            store.close_now()
    with pytest.raises(SchemaMismatch, match=f"schema is {old.schema}, this torpor needs"):
        open_store(old.place.url)
    old.migrated()


def test_two_processes_migrate_at_once(old: Old) -> None:
    """Both succeed, one does it, and one copy is kept."""
    command = [sys.executable, "-m", "torpor", "migrate", "--json", "--store", old.place.url]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE_SECONDS) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert {json.loads(out)["after"] for out, _ in said} == {migrate.newest(old.place.kind)}
    store = open_store(old.place.url)
    found = store.transact_now(lambda tx: tx.get_runs([run_of(run).number for run in old.begun["runs"].values()]))
    store.close_now()
    assert len(found) == len(old.begun["runs"])
    if old.place.kind == "sqlite":
        assert len(list(old.file.parent.glob("*.schema-*"))) == 1
