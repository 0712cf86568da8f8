"""Resumed, copied or rolled back: told by somebody outside, in a file and over HTTP."""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

import pytest

from torpor import rouse
from torpor.rouse import FileBeacon, Kind, Mark, Place
from torpor.rouse.beacon_http import BeaconServer, HttpBeacon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torpor.rouse import Beacon

MACHINE = "agent/7 of Zoë"
WORD = "sesame"


@pytest.fixture(params=["file", "http"])
def beacon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Beacon]:
    """Each that stands alone."""
    kept = FileBeacon(tmp_path / "marks")
    if request.param == "file":
        yield kept
        return
    with BeaconServer(kept, token=WORD) as url:
        yield HttpBeacon(url, token=WORD)


def wakes(place: Place) -> Place:
    """Another memory in the same state: a copy, or a snapshot that is kept."""
    return copy.copy(place)


def test_a_mark_is_set_only_where_it_was_expected(beacon: Beacon) -> None:
    """Compare and set, on lineage and counter; what was set is read."""
    assert beacon.read(MACHINE) is None
    first = Mark("1-a")
    assert not beacon.compare_and_set(MACHINE, first, first.beaten())
    assert beacon.compare_and_set(MACHINE, None, first)
    assert not beacon.compare_and_set(MACHINE, None, first)
    second = first.child("b")
    assert beacon.compare_and_set(MACHINE, first, second)
    assert not beacon.compare_and_set(MACHINE, first, first.beaten())
    assert beacon.read(MACHINE) == second
    assert beacon.read("another") is None


def test_alone_it_resumed(beacon: Beacon) -> None:
    """After a pause in which nobody else woke. As often as it happens."""
    place = Place(beacon, MACHINE)
    place.take_over()
    for _ in range(3):
        place.beat()
        verdict = place.ask()
        assert (verdict.current, verdict.kind) == (True, None)
        place.confirm()


def test_of_two_copies_one_goes_on(beacon: Beacon) -> None:
    """Whoever asks first; the other is told, again and again, whatever the first does later (C01)."""
    place = Place(beacon, MACHINE)
    place.take_over()
    place.beat()
    other = wakes(place)
    assert place.ask().current
    for _ in range(3):
        verdict = other.ask()
        assert (verdict.current, verdict.kind) == (False, Kind.COPIED), verdict
        place.beat()
        place.ask()
    with pytest.raises(rouse.NotCurrent, match=r"(?s)another copy woke where we did.*hint: stop") as raised:
        other.beat()
    assert raised.value.kind == "copied"


def test_an_older_state_is_told_that_it_was_rolled_back(beacon: Beacon) -> None:
    """Its lineage lived on after it was saved: in beats, and in other lineages after those."""
    place = Place(beacon, MACHINE)
    place.take_over()
    saved = wakes(place)
    place.beat()
    assert (saved.ask().kind, wakes(saved).ask().kind) == (Kind.ROLLED_BACK, Kind.ROLLED_BACK)
    place.ask()
    place.beat()
    place.ask()
    verdict = saved.ask()
    assert (verdict.current, verdict.kind) == (False, Kind.ROLLED_BACK)
    assert "lived on to 1" in verdict.evidence
    with pytest.raises(rouse.NotCurrent) as raised:
        saved.confirm()
    assert raised.value.kind == "rolled_back"


def test_a_new_process_takes_over_and_the_old_memory_is_told(beacon: Beacon) -> None:
    """A restart: whoever wakes from before it is not current."""
    old = Place(beacon, MACHINE)
    with pytest.raises(rouse.NotCurrent, match="take_over"):
        old.beat()
    old.take_over()
    new = Place(beacon, MACHINE)
    new.take_over()
    assert old.ask().kind is Kind.COPIED
    assert new.ask().current


def test_copies_that_draw_the_same_random_bytes_are_told_apart(beacon: Beacon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without VMGENID both copies of a machine draw the same name: it is the compare-and-set that counts."""
    place = Place(beacon, MACHINE)
    place.take_over()
    other = wakes(place)
    monkeypatch.setattr("torpor.rouse.beacon._name", lambda: "the same")
    assert place.ask().current
    assert not other.ask().current
    again = wakes(place)
    assert place.ask().current
    assert not again.ask().current


def test_a_trail_that_does_not_lead_to_us_is_taken_for_a_copy(beacon: Beacon, monkeypatch: pytest.MonkeyPatch) -> None:
    """After more wakes than a mark remembers."""
    monkeypatch.setattr("torpor.rouse.beacon.TRAIL", 3)
    place = Place(beacon, MACHINE)
    place.take_over()
    saved = wakes(place)
    for _ in range(5):
        place.beat()
        assert place.ask().current
    verdict = saved.ask()
    assert (verdict.current, verdict.kind) == (False, Kind.COPIED)
    assert "does not come from us" in verdict.evidence


@pytest.mark.slow
def test_of_many_that_ask_at_once_exactly_one_goes_on(beacon: Beacon) -> None:
    """All at the same barrier, three times."""
    place, count = Place(beacon, MACHINE), 8
    place.take_over()
    for _ in range(3):
        barrier, verdicts = threading.Barrier(count), list[tuple[rouse.Verdict, Place]]()

        def ask(one: Place, barrier: threading.Barrier, verdicts: list[tuple[rouse.Verdict, Place]]) -> None:
            barrier.wait()
            verdicts.append((one.ask(), one))

        threads = [threading.Thread(target=ask, args=(wakes(place), barrier, verdicts)) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (place,) = [one for verdict, one in verdicts if verdict.current]


def test_as_a_callback_it_keeps_the_gate_closed() -> None:
    """A beacon that does not answer is no yes; once it answers, mending asks again."""

    class Silent:
        """A beacon that may be out of reach."""

        def __init__(self) -> None:
            """In reach."""
            self.mark: Mark | None = None
            self.reached = True

        def read(self, _machine: str) -> Mark | None:
            """Its only mark."""
            return self.mark

        def compare_and_set(self, _machine: str, expected: Mark | None, new: Mark) -> bool:
            """In memory."""
            if not self.reached:
                raise OSError("no route")
            fits = self.mark is None if expected is None else expected.is_at(self.mark)
            if fits:
                self.mark = new
            return fits

    silent, registry = Silent(), rouse.Registry()
    place = Place(silent, MACHINE)
    place.take_over()
    registry.on_rousal(place.confirm)
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=3600.0), registry=registry)
    silent.reached = False
    with pytest.raises(rouse.RousalFailed, match="no route"):
        watcher.hear(rouse.Finding(Kind.FROZEN, "by hand"))
    silent.reached = True
    registry.mend()
    registry.pass_gate()


def test_the_server_refuses_what_it_must(tmp_path: Path) -> None:
    """Another token, another answer, another scheme; nobody there."""
    server = BeaconServer(FileBeacon(tmp_path), token=WORD)
    with server as url:
        for asking in (HttpBeacon(url), HttpBeacon(url, token=f"not {WORD}")):
            with pytest.raises(OSError, match="401"):
                asking.read(MACHINE)
            with pytest.raises(OSError, match="401"):
                asking.compare_and_set(MACHINE, None, Mark("1-a"))
        broken: Any = Mark("1-a", trail=(1,))  # type: ignore[arg-type]
        with pytest.raises(OSError, match="400"):
            HttpBeacon(url, token=WORD).compare_and_set(MACHINE, None, broken)
    with pytest.raises(OSError, match="refused"):
        HttpBeacon(url, answer_seconds=1.0).read(MACHINE)
    with pytest.raises(ValueError, match="http"):
        HttpBeacon("file:///etc/passwd")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lineage": 1, "counter": null, "began": 1, "trail": []}'])
def test_what_is_no_mark_is_refused(text: str) -> None:
    """Half a file is no state to go on from."""
    with pytest.raises(ValueError, match=r"."):
        Mark.from_json(text)
