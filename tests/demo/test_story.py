"""The freeze: a worker that was frozen in the middle of a transaction is thawed and frozen again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from torpor.client import Client
from torpor.demo.crew import Crew, Event, Member
from torpor.demo.folder import Folder
from torpor.demo.place import Place
from torpor.demo.screen import Silent
from torpor.demo.story import Story, writable
from torpor.store.opening import open_store
from torpor.store.sqlite.turnstile import Turnstile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Frozen(Crew):
    """A crew whose first freeze hits a worker that has the turn to write, and keeps it."""

    def __init__(self, place: Place, path: Path) -> None:
        """Freeze nothing yet."""
        super().__init__(place)
        self.turnstile = Turnstile(str(path))
        self.done: list[str] = []

    def freeze(self, member: Member) -> float:
        """Take the turn, the first time."""
        if not self.done:
            self.turnstile.__enter__()
        self.done.append(f"freeze {member.name}")
        return 1.0

    def thaw(self, member: Member) -> float:
        """Give the turn back."""
        self.done.append(f"thaw {member.name}")
        self.turnstile.__exit__()
        return 2.0

    async def event(self, wanted: Callable[[Event], bool], *, seconds: float = 60.0) -> Event:
        """Say that another worker has taken the run."""
        del seconds
        event = {"who": "w2", "event": "awake", "run": "audit-7Q3D", "at": 9.0}
        assert wanted(event)
        return event


def test_a_freeze_that_stops_the_store_is_tried_again(tmp_path: Path) -> None:
    """It would stop everybody, and no lease would ever be taken over."""
    path = tmp_path / "x.db"
    store = open_store(f"sqlite:///{path}")
    place = Place(tmp_path, store.url, fresh=True)
    crew = Frozen(place, path)
    story = Story(Client(store), crew, Silent(), place, Folder(tmp_path, "x", [], []))
    story.run_name = "audit-7Q3D"
    frozen_at, taken = asyncio.run(story.frozen_until_taken(Member("w1", cast("Any", None), tmp_path), 1.0))
    assert crew.done == ["freeze w1", "thaw w1", "freeze w1"]
    assert (frozen_at, taken["who"]) == (1.0, "w2")
    crew.turnstile.close()
    store.close_now()


def test_a_store_that_can_be_written(tmp_path: Path) -> None:
    """Whether somebody keeps the turn is found out by asking for it."""
    store = open_store(f"sqlite:///{tmp_path / 'x.db'}")
    turnstile = Turnstile(str(tmp_path / "x.db"))

    async def asked() -> tuple[bool, bool]:
        with turnstile:
            kept = await writable(store, 0.05)
        return kept, await writable(store, 30)

    assert asyncio.run(asked()) == (False, True)
    turnstile.close()
    store.close_now()
