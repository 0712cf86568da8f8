"""C18: a viewer leaves, the provider breaks, the worker dies.

Two viewers look on. The provider breaks after 20 pieces and is asked again; the first viewer drops at piece 10 and returns
from its last position; the worker is killed at piece 30 of the second attempt; the second viewer stays. Right: the run ends
without any viewer needed, and both end with exactly the saved text: a dropped attempt is clearly replaced, nothing is
missing or doubled.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.client import Client
from torpor.core.ids import run_name
from torpor.core.stream import Kept
from torpor.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cases.world import World
    from torpor.client import Part


class Viewer:
    """Somebody who reads a run's stream from another place, on a store of their own, in a thread."""

    def __init__(self, world: World, run: str, *, until: Callable[[Viewer], bool] = lambda _: False) -> None:
        """Read from the start; leave when `until` says so."""
        self._world = world
        self._run = run
        self.kept = Kept()
        self.seen: list[Part] = []
        self._until = until
        self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()))
        self._thread.start()

    async def _read(self) -> None:
        store = open_store(self._world.url, create=False)
        try:
            async for part in Client(store).stream(self._run, self.kept.n):
                self.seen.append(part)
                self.kept.take(part.n, part.kind, part.body)
                if self._until(self):
                    return
        finally:
            await store.close()

    def left(self) -> None:
        """Wait until it has left, or the run has ended."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def come_back(self) -> None:
        """Go on from the last position, to the end."""
        self._until = lambda _: False
        self._begin()


@pytest.mark.slow
def test_both_viewers_end_with_the_saved_text(world: World) -> None:
    """With real processes: one that is killed, one that goes on."""
    world.outside.hold("piece")
    first_worker = world.worker("speaking", name="w1")
    number = world.start("answers")
    run = run_name("answers", number)
    asked = 0

    def say(*pieces: str | None) -> None:
        nonlocal asked
        for piece in pieces:
            asked += 1
            world.outside.next("piece", asked).answer(piece)

    leaver = Viewer(world, run, until=lambda viewer: "a10 " in viewer.kept.text)
    stayer = Viewer(world, run)
    say(*(f"a{n} " for n in range(1, 11)))
    leaver.left()
    say(*(f"a{n} " for n in range(11, 21)))
    world.until(lambda: "a20 " in stayer.kept.text, "the first attempt was seen")
    say(None)
    say(*(f"b{n} " for n in range(1, 31)))
    world.until(lambda: "b30 " in stayer.kept.text, "the second attempt was seen")
    assert "a" not in stayer.kept.text.removeprefix("Answer: "), "the first attempt was taken back before"
    asked += 1  # the killed worker asks for one more piece, and nobody answers
    world.outside.next("piece", asked)
    first_worker.kill()
    leaver.come_back()
    world.worker("speaking", name="w2")
    say(*(f"c{n} " for n in range(1, 41)), "end")
    saved = world.result(number)
    assert saved == "Answer: " + "".join(f"c{n} " for n in range(1, 41))
    for viewer in (leaver, stayer):
        viewer.left()
        assert viewer.kept.text == saved
        assert [part.n for part in viewer.seen] == list(range(1, viewer.kept.n + 1)), "none missed, none twice"
    late = Viewer(world, run)
    late.left()
    assert (late.kept.text, late.kept.n) == (saved, stayer.kept.n)
    assert [part.kind for part in late.seen].count("retract") == 2
    assert "a20 " in "".join(part.body for part in late.seen if part.kind == "text"), "what was said is on record"


@pytest.mark.slow
def test_no_viewer_is_needed(world: World) -> None:
    """The run ends with nobody looking, and who comes afterwards reads the same."""
    world.outside.hold("piece")
    world.worker("speaking")
    number = world.start("answers")
    for count, piece in enumerate(("a ", None, "b ", "end"), start=1):
        world.outside.next("piece", count).answer(piece)
    assert world.result(number) == "Answer: b "
    viewer = Viewer(world, run_name("answers", number))
    viewer.left()
    assert viewer.kept.text == "Answer: b "
