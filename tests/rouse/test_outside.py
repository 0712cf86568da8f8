"""Detectors outside the process, each on the nearest thing to the real one that a test may have."""

from __future__ import annotations

import errno
import inspect
import os
import select
import socket
import stat
import struct
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.clocks_by_hand import ClocksByHand
from torpor.rouse import Kind
from torpor.rouse.detectors import outside, timerfd, vmclock
from torpor.rouse.detectors.host import HostFile, HostSocket
from torpor.rouse.detectors.kmsg import LINE, Kmsg
from torpor.rouse.detectors.timerfd import Timerfd
from torpor.rouse.detectors.vmclock import Vmclock

if TYPE_CHECKING:
    from pathlib import Path

    from torpor import rouse

NOW = ClocksByHand().clocks.read()


def look(detector: rouse.Detector) -> rouse.Finding | None:
    """Ask it now; the clocks stand still."""
    return detector(NOW, NOW)


def kind_of(finding: rouse.Finding | None) -> Kind | None:
    """What it found."""
    return None if finding is None else finding.kind


def write_whole(path: Path, text: str) -> None:
    """As the host should: never half a text."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_the_host_file(tmp_path: Path) -> None:
    """Told once per text; away, empty or unchanged it says nothing."""
    path = tmp_path / "generation"
    detector = HostFile(path)
    assert look(detector) is None
    write_whole(path, "generation 1\n")
    finding = look(detector)
    assert finding is not None
    assert (finding.kind, finding.certain, finding.notice) == (Kind.COPIED, True, "host: generation 1")
    assert look(detector) is None
    path.write_text("")
    assert look(detector) is None
    path.unlink()
    assert look(detector) is None
    write_whole(path, '{"event": 2, "kind": "slept", "away_seconds": 3.5}')
    finding = look(detector)
    assert finding is not None
    assert (finding.kind, finding.away_seconds, finding.notice) == (Kind.SLEPT, 3.5, "host: 2")
    assert look(HostFile(path)) is None


@pytest.mark.parametrize("text", ['{"kind": "eaten"}', "[1]", "null", '{"away_seconds": []}', "\udcff"])
def test_words_that_mean_nothing_are_still_an_event(tmp_path: Path, text: str) -> None:
    """That the host spoke is enough for the gravest."""
    path = tmp_path / "generation"
    detector = HostFile(path)
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert kind_of(look(detector)) is Kind.COPIED


def test_a_host_file_without_a_place_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder must be there."""
    monkeypatch.setenv("ROUSE_HOST_FILE", str(tmp_path / "nowhere" / "generation"))
    with pytest.raises(OSError, match="is not there"):
        HostFile()


@pytest.mark.parametrize(
    ("place", "why"),
    [("file", "is not a socket"), ("", "is not a socket"), ("x" * 200, "bytes, and a socket's at most 107")],
)
def test_why_the_host_socket_cannot_be_listened_to(tmp_path: Path, place: str, why: str) -> None:
    """A file or a folder in the way is not another listener; it stays."""
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OSError, match=why):
        HostSocket(tmp_path / place)
    assert (tmp_path / "file").read_text() == "kept"


def test_the_host_socket(tmp_path: Path) -> None:
    """A datagram is an event; only this user may send; a second listener does not take the socket away."""
    path = tmp_path / "host"
    detector = HostSocket(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert look(detector) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        for text in ("one", "two"):
            host.sendto(text.encode(), str(path))
    assert select.select([detector], [], [], PATIENCE_SECONDS)[0]
    with pytest.raises(OSError, match="another process listens"):
        HostSocket(path)
    assert [finding and finding.notice for finding in (look(detector), look(detector), look(detector))] == [
        "host: one", "host: two", None
    ]  # fmt: skip
    pid = os.fork()
    if pid == 0:
        os._exit(detector.fileno() == -1 and look(detector) is None)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    detector.close()
    assert not path.exists()
    left_by_a_dead_one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    left_by_a_dead_one.bind(str(path))
    left_by_a_dead_one.close()
    HostSocket(path).close()


def test_the_host_socket_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no place where everybody may write."""
    monkeypatch.delenv("ROUSE_HOST_SOCKET", raising=False)
    with pytest.raises(OSError, match="ROUSE_HOST_SOCKET is not set"):
        HostSocket()


class Page:
    """The hypervisor's page, in a file."""

    def __init__(self, path: Path) -> None:
        """One that counts generations."""
        self.path = path
        path.write_bytes(bytes(4096))
        self.put("<I", 0, vmclock.MAGIC)
        self.put("<Q", 0x18, vmclock.GENERATION_PRESENT | 1)
        self.put("<Q", 0x68, 41)

    def put(self, form: str, at: int, value: int) -> None:
        """Write as the hypervisor does, into the page itself."""
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(struct.pack(form, value))


def test_vmclock(tmp_path: Path) -> None:
    """A new generation is a copy for certain, a disruption alone a move."""
    page = Page(tmp_path / "vmclock0")
    detector = Vmclock(str(page.path))
    assert look(detector) is None
    page.put("<Q", 0x68, 42)
    page.put("<Q", 0x10, 1)
    finding = look(detector)
    assert finding is not None
    assert (finding.kind, finding.certain) == (Kind.COPIED, True)
    assert "from 41 to 42" in finding.evidence
    assert look(detector) is None
    page.put("<Q", 0x10, 2)
    assert kind_of(look(detector)) is Kind.MOVED
    page.put("<I", 0x0C, 7)  # the hypervisor is writing, and does not come to an end
    page.put("<Q", 0x68, 43)
    assert kind_of(look(detector)) is Kind.COPIED
    detector.close()


def test_vmclock_reads_again_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sequence changed between the first read and the last: what lay between may be half of each."""
    page = Page(tmp_path / "vmclock0")
    detector = Vmclock(str(page.path))
    usual, reads = Vmclock._number, list[int]()  # noqa: SLF001 - the race is forced there

    def number(self: Vmclock, form: str, at: int) -> int:
        reads.append(at)
        if len(reads) == 3:
            page.put("<Q", 0x68, 99)
            page.put("<I", 0x0C, 2)
        return usual(self, form, at)

    monkeypatch.setattr(Vmclock, "_number", number)
    finding = look(detector)
    assert finding is not None
    assert "from 41 to 99" in finding.evidence
    assert len(reads) == 8


@pytest.mark.parametrize(("at", "value"), [(0, 1), (0x18, 1)])
def test_a_vmclock_that_counts_no_generations_is_refused(tmp_path: Path, at: int, value: int) -> None:
    """Another device, or an older hypervisor's."""
    page = Page(tmp_path / "vmclock0")
    page.put("<Q", at, value)
    with pytest.raises(OSError, match="counts no generations"):
        Vmclock(str(page.path))
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(OSError, match="no vmclock"):
        Vmclock(str(tmp_path / "short"))


def test_kmsg(tmp_path: Path) -> None:
    """The kernel's own line, among others; not the same words from somebody else."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    detector = Kmsg(str(path))
    kernel = os.open(path, os.O_WRONLY)
    assert look(detector) is None
    os.write(kernel, b"12,1,99,-;" + LINE + b"\n6,2,100,-;random: something else\n")
    assert look(detector) is None
    os.write(kernel, b"5,3,101,-;random: " + LINE + b"\n6,4,102,-;eth0: link up\n SUBSYSTEM=net\n")
    assert select.select([detector], [], [], PATIENCE_SECONDS)[0]
    finding = look(detector)
    assert finding is not None
    assert (finding.kind, finding.certain) == (Kind.COPIED, True)
    assert finding.evidence == f"the kernel's log says: random: {LINE.decode()}"
    assert look(detector) is None
    os.close(kernel)
    detector.close()


def test_kmsg_goes_on_after_lost_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says EPIPE once, and gives the oldest line it still has."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    detector = Kmsg(str(path))
    answers: list[bytes | OSError] = [BrokenPipeError(), b"5,3,101,-;random: " + LINE + b"\n", BlockingIOError()]

    def read(_opened: int, _most: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(os, "read", read)
    assert kind_of(look(detector)) is Kind.COPIED
    monkeypatch.undo()
    detector.close()


def test_a_timer_that_nobody_cancelled_says_nothing() -> None:
    """A real one, set both ways: by Python where it can, and by hand."""
    detector = Timerfd()
    by_hand = timerfd._set_timer_by_hand()  # noqa: SLF001 - what an older Python does
    try:
        assert look(detector) is None
        with pytest.raises(BlockingIOError):
            os.read(by_hand, 8)
        assert select.select([detector.fileno(), by_hand], [], [], 0)[0] == []
    finally:
        os.close(by_hand)
        detector.close()


def test_a_timer_that_was_cancelled_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this machine is not a test's to set, so the answer is given by hand; the clocks tell by how much."""
    clocks, detector = ClocksByHand(), Timerfd()
    before = clocks.clocks.read()
    clocks.pass_time(1.0)
    clocks.step(-0.25)

    def cancelled(_timer: int, _most: int) -> bytes:
        raise OSError(errno.ECANCELED, "cancelled")

    monkeypatch.setattr(os, "read", cancelled)
    finding = detector(before, clocks.clocks.read())
    monkeypatch.undo()
    detector.close()
    assert finding is not None
    assert finding.kind is Kind.CLOCK_STEP
    assert "-0.250 s" in finding.evidence


@pytest.mark.parametrize("make", outside.ALL, ids=lambda make: make.name)
def test_each_says_what_it_sees_and_what_it_cannot(make: Any) -> None:
    """In its docstring, a line each; `explain` prints them."""
    lines = (inspect.getdoc(make) or "").splitlines()
    assert [line.partition(":")[0] for line in lines[2:]] == list(outside.PARAGRAPHS)


def test_explain_knows_what_works_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A reason for each that does not."""
    monkeypatch.setenv("ROUSE_HOST_FILE", str(tmp_path / "generation"))
    monkeypatch.delenv("ROUSE_HOST_SOCKET", raising=False)
    found = {about.name: about for about in outside.explain()}
    assert len(found) == len(outside.ALL)
    assert found["host file"].works
    assert found["host socket"].why_not == "$ROUSE_HOST_SOCKET is not set"
    assert all(about.works == (not about.why_not) for about in found.values())
    assert all(all(about.paragraphs.values()) for about in found.values())
