"""The host's word in every shape: whatever it says, it spoke, and that is the event. Nothing is lost and nothing breaks."""

from __future__ import annotations

import math
import os
import socket
from typing import TYPE_CHECKING

import pytest

from tests.rouse.test_outside import look, write_whole
from torpor import rouse
from torpor.rouse import Kind, ticks
from torpor.rouse.detectors import host
from torpor.rouse.detectors.host import HostFile, HostSocket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ODD = {
    "endless number": b'{"event": "copy 17", "kind": "copied", "away_seconds": %s}' % (b"9" * 400),
    "longer number": b'{"event": "copy 17", "away_seconds": %s}' % (b"9" * 5000),
    "deep list": b"[" * 3000,
    "deep object": b'{"a":' * 800,
    "deep name": b'{"event": %s1%s, "kind": "copied"}' % (b"[" * 900, b"]" * 900),
    "half a pair": b'{"event": "\\ud800", "kind": "copied"}',
    "no text": b"\xff\xfe",
    "odd kind": b'{"event": "x", "kind": []}',
    "no kind": b'{"event": "x", "kind": "nope"}',
    "no time": b'{"event": "x", "away_seconds": "y"}',
}


@pytest.mark.parametrize("word", ODD)
@pytest.mark.parametrize("way", ["file", "socket"])
def test_an_odd_word_is_an_event_and_a_good_one_after_it_too(tmp_path: Path, word: str, way: str) -> None:
    """As by `rouse.watch()`: the registry tells it, the detector goes on, and it can be written down."""
    path = tmp_path / "host"
    detector = HostFile(path) if way == "file" else HostSocket(path)

    def say(text: bytes) -> None:
        if isinstance(detector, HostFile):
            path.with_suffix(".new").write_bytes(text)
            path.with_suffix(".new").replace(path)
        else:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(text, str(path))

    registry, told = rouse.Registry(), list[rouse.Rousal]()
    registry.detectors = (detector,)
    registry.on_rousal(told.append)
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=3600.0), registry=registry)
    for text, count in ((ODD[word], 1), (b"good", 2)):
        say(text)
        assert watcher.check() is not None
        assert watcher.check() is None
        assert len(told) == count
    assert (told[0].kind, told[0].certain, told[1].kind) == (Kind.COPIED, True, Kind.COPIED)
    assert math.isfinite(told[0].away_seconds)
    evidence = "".join(told[0].evidence)
    assert len(evidence.encode()) < 500  # a log is UTF-8, and for people
    if isinstance(detector, HostSocket):
        detector.close()


def test_a_word_whose_reading_broke_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is known only once it was told: a look that broke in the middle (no memory, say) loses nothing."""
    path = tmp_path / "generation"
    detector = HostFile(path)
    write_whole(path, "generation 1")

    def breaks(*_given: object) -> rouse.Finding:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(host, "said_by_host", breaks)
        with pytest.raises(MemoryError):
            look(detector)
    finding = look(detector)
    assert finding is not None
    assert finding.notice == "host: generation 1"
    assert look(detector) is None


def test_a_pipe_in_its_place_holds_nobody(tmp_path: Path) -> None:
    """Nobody writes into it: a look that waited would hold a worker's last one for ever."""
    path = tmp_path / "generation"
    os.mkfifo(path)
    assert look(HostFile(path)) is None


@pytest.mark.parametrize("away", ["NaN", "Infinity", "-Infinity", "-5", "1e999", "1e300", "9" * 400])
def test_a_time_away_that_is_none_is_unknown(tmp_path: Path, away: str) -> None:
    """0.0 is what nobody tells; the kind is what the host says."""
    path = tmp_path / "generation"
    detector = HostFile(path)
    write_whole(path, f'{{"event": 1, "kind": "slept", "away_seconds": {away}}}')
    finding = look(detector)
    assert finding is not None
    assert (finding.kind, finding.away_seconds, finding.notice) == (Kind.SLEPT, 0.0, "host: 1")


@pytest.mark.parametrize("make", [lambda end: "y" * 5000 + end, lambda end: "y" * 300_000 + end])
def test_long_texts_that_differ_at_their_end_are_two(tmp_path: Path, make: Callable[[str], str]) -> None:
    """A name has no greatest length, and each is told once."""
    path = tmp_path / "generation"
    detector = HostFile(path)
    notices = set[str]()
    for end in ("1", "2"):
        write_whole(path, make(end))
        finding = look(detector)
        assert finding is not None
        assert len(finding.evidence) < 500
        notices.add(finding.notice)
        assert look(detector) is None
        assert look(HostFile(path)) is None
    assert len(notices) == 2


def test_long_datagrams_that_differ_at_their_end_are_two(tmp_path: Path) -> None:
    """The same by the socket."""
    path = tmp_path / "host"
    detector = HostSocket(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for end in ("1", "2"):
            sender.sendto(("y" * 50_000 + end).encode(), str(path))
    first, second = look(detector), look(detector)
    detector.close()
    assert first is not None
    assert second is not None
    assert first.notice != second.notice


@pytest.mark.parametrize(("first", "second"), [("file", "socket"), ("socket", "file")])
def test_two_words_by_two_ways_are_two_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    """Within five seconds; the same word by both is one."""
    monkeypatch.setenv("ROUSE_HOST_FILE", str(tmp_path / "generation"))
    monkeypatch.setenv("ROUSE_HOST_SOCKET", str(tmp_path / "host"))

    def say(way: str, text: str) -> None:
        if way == "file":
            write_whole(tmp_path / "generation", text)
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(text.encode(), str(tmp_path / "host"))

    registry, told = rouse.Registry(), list[Kind]()
    registry.on_rousal(lambda rousal: told.append(rousal.kind))
    with ticks.outside(registry):
        watcher = rouse.Watcher(rouse.Limits(tick_seconds=3600.0), registry=registry)
        for way in (first, second):
            say(way, '{"event": "S1", "kind": "copied"}')
            watcher.check()
        assert told == [Kind.COPIED]
        say(second, '{"event": "S2", "kind": "slept"}')
        watcher.check()
        assert told == [Kind.COPIED, Kind.SLEPT]
        say(first, '{"event": "S3", "kind": "slept"}')
        watcher.check()
        assert told == [Kind.COPIED, Kind.SLEPT, Kind.SLEPT]
