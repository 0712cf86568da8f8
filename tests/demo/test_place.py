"""The demo's folder and store: its own while it lasts, and nobody else's runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torpor.core.run import State
from torpor.demo.place import Place, cancel_unfinished, refuse_others, taken
from torpor.demo.program import app
from torpor.engine import runs
from torpor.errors import Conflict, UsageError
from torpor.store import values
from torpor.store.life import host_identity
from torpor.store.opening import open_store
from torpor.store.rows import NewWorker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.store.protocol import Store

OURS = ("audit", 1, app.flows["audit"].source)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store."""
    opened = open_store(f"sqlite:///{tmp_path / 'x.db'}")
    yield opened
    opened.close_now()


def test_one_demo_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is taken for one demo; the next one finds an empty store of its own."""
    monkeypatch.chdir(tmp_path)
    with taken(None) as place:
        assert (place.url, place.fresh) == ("sqlite:///.torpor/demo.db", True)
        Path(".torpor/demo.db").write_bytes(b"old")
        with pytest.raises(Conflict, match="a demo is running in"), taken(None):
            pass
    with taken(None):
        assert not Path(".torpor/demo.db").exists()
    with taken("sqlite:///other.db") as place:
        assert (place.url, place.fresh) == ("sqlite:///other.db", False)


def test_a_store_in_memory_is_refused() -> None:
    """Three workers cannot share it."""
    for url in (":memory:", "sqlite://", "sqlite:///:memory:"):
        with pytest.raises(UsageError, match="belongs to one process"), taken(url):
            pass


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear error with the folder's name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".torpor").write_bytes(b"a file")
    with pytest.raises(UsageError, match=r"cannot write to .*\.torpor"), taken(None):
        pass


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    """Neither on the terminal nor in the JSON."""
    shown = {
        "postgresql://me:secret@host:5/db?x=1": "postgresql://me@host:5/db?x=1",
        "postgresql://host/db?password=secret&x=1": "postgresql://host/db?x=1",
        "sqlite:///a.db": "sqlite:///a.db",
        "a.db": "a.db",
    }
    assert {url: Place(tmp_path, url, fresh=False).shown for url in shown} == shown


def test_somebody_elses_program_is_left_alone(store: Store) -> None:
    """A store whose own program is called `audit` is refused: the demo's workers would take its runs."""
    store.transact_now(runs.register, [("audit", 1, "mine:audit")])
    with pytest.raises(Conflict, match=r"has a program named .audit. of its own \(mine:audit\)"):
        refuse_others(store)


def test_another_demo_on_the_store_is_left_alone(store: Store) -> None:
    """The demo kills who holds its run; a living worker of another demo would be next."""
    number = store.transact_now(runs.register, [OURS])[0]
    refuse_others(store)
    lock = store.life_lock("w1")
    row = NewWorker("w1", host_identity(), 1, lock.name, f"[{number}]")
    store.transact_now(lambda tx: tx.put_worker(row))
    store.transact_now(lambda tx: tx.put_worker(row._replace(name="other", programs=f"[{number + 10}]")))
    with pytest.raises(Conflict, match=r"another demo works on this store: w1 \(process 1\)"):
        refuse_others(store)
    lock.release()


def test_what_an_interrupted_demo_left_is_cancelled(store: Store) -> None:
    """Its service is gone, so it could never end; runs of other programs are not touched."""
    store.transact_now(runs.register, [OURS, ("other", 1, "x:other")])
    body = values.encode(None, path="state")
    started = store.transact_now(runs.start, [runs.Start("audit", body), runs.Start("other", body)])
    assert store.transact_now(cancel_unfinished) == 1
    found = store.transact_now(lambda tx: tx.get_runs([one.run_id for one in started]))
    assert [bool(found[one.run_id].flags) for one in started] == [True, False]
    assert found[started[1].run_id].state is State.READY
