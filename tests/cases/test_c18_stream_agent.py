"""C18 with an agent and a provider over real HTTP: a viewer leaves, the provider breaks, the worker dies.

Two viewers look on. The provider's connection breaks after 20 words and the model is asked again; the first viewer drops at
word 10 and returns from its last position; the worker is killed at word 30 of the second attempt; the second viewer stays.
Right: the run ends without any viewer needed, and both end with exactly the saved text: a dropped attempt is clearly
replaced, nothing is missing or doubled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.provider.openai_stub import Gate, Paced, Says, serving
from tests.cases.test_c18_stream import Viewer
from tests.patience import PATIENCE_SECONDS
from torpor.core.ids import run_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agent.provider.openai_stub import Provider
    from tests.cases.world import World

pytestmark = pytest.mark.slow


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Return a provider that the workers of the test ask."""
    with serving() as provider:
        monkeypatch.setenv("TORPOR_CASES_PROVIDER", provider.url)
        yield provider


def words(letter: str, count: int) -> str:
    """Return so many words of one attempt."""
    return " ".join(f"{letter}{n}" for n in range(1, count + 1))


def test_both_viewers_end_with_the_saved_text(world: World, provider: Provider) -> None:
    """With real processes and real connections: what was said before is taken back as a whole, twice."""
    tenth, twentieth, thirtieth = Gate(), Gate(), Gate()
    provider.say(
        Paced(Says(words("a", 40)), {10: tenth, 20: twentieth}, cut=20),
        Paced(Says(words("b", 40)), {30: thirtieth}),
        Says(words("c", 40)),
    )
    first_worker = world.worker("answering", name="w1")
    number = world.start("answers", "go")
    run = run_name("answers", number)
    leaver = Viewer(world, run, until=lambda viewer: "a10 " in viewer.kept.text)
    stayer = Viewer(world, run)
    leaver.left()
    assert "a11" not in leaver.kept.text
    tenth.opened.set()
    world.until(lambda: "a20 " in stayer.kept.text, "the first attempt was seen")
    twentieth.opened.set()
    world.until(lambda: "b30 " in stayer.kept.text, "the second attempt was seen")
    assert "a" not in stayer.kept.text, "the first attempt was taken back before"
    first_worker.kill()
    thirtieth.opened.set()
    leaver.come_back()
    world.worker("answering", name="w2")
    saved = world.result(number)
    assert saved.split() == words("c", 40).split()
    for viewer in (leaver, stayer):
        viewer.left()
        assert viewer.kept.text == saved
        assert [part.n for part in viewer.seen] == list(range(1, viewer.kept.n + 1)), "none missed, none twice"
    late = Viewer(world, run)
    late.left()
    assert (late.kept.text, late.kept.n) == (saved, stayer.kept.n)
    assert [part.kind for part in late.seen].count("retract") == 2
    assert "a20 " in "".join(part.body for part in late.seen if part.kind == "text"), "what was said is on record"
    assert len(provider.requests) == 3


def test_no_viewer_is_needed(world: World, provider: Provider) -> None:
    """The run ends with nobody looking, and who comes afterwards reads the same."""
    gate = Gate()
    provider.say(Paced(Says(words("a", 9)), {5: gate}, cut=5), Says(words("b", 9)))
    world.worker("answering")
    number = world.start("answers", "go")
    assert gate.reached.wait(PATIENCE_SECONDS)
    gate.opened.set()
    saved = world.result(number)
    viewer = Viewer(world, run_name("answers", number))
    viewer.left()
    assert viewer.kept.text == saved
    assert saved.split() == words("b", 9).split()
