"""One run's stream, while a worker has it: what was emitted and not written yet, whose it is, and what becomes of it.

    emitted -> written (loose) -> kept with the outcome's commit
                               -> retracted: the attempt failed, was cancelled, or the turn or stretch ended without it

A call's entries decide: an OUTCOME keeps what its last attempt emitted, in the commit of that entry and not before; any
other entry drops it, as soon as it is gathered. What a worker cannot drop any more, because it is dead, is retracted by
whoever ends its lease.

What the flow itself emits is not written before its commit, because replay knows from that commit's entry that it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torpor.core.journal import Kind
from torpor.core.run import State
from torpor.core.stream import FLOW, NewPart, PartKind, StreamWrite
from torpor.engine.streams import Said
from torpor.worker.streams import VIEW_SECONDS
from torpor.worker.unsaid import parted
from torpor.worker.voice import TEXT_LETTERS, Voice, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torpor.core.commit import Proposal
    from torpor.core.journal import Entry
    from torpor.engine.commit import Reply
    from torpor.worker.roles import Executor


class _Sent(NamedTuple):
    """What a write that is under way has taken: so much of the buffer, these voices, these parts of the flow, this view."""

    taken: int
    settled: list[Voice]
    flow: list[str]
    view: bytes | None


class Stream:
    """The stream of one executor (streams.Speaking)."""

    def __init__(self, executor: Executor) -> None:
        """Begin with nothing said; the counter is not known before the first write."""
        self._executor = executor
        self._streams = executor.worker.streams
        self._secrets = executor.worker.secrets
        self._strike = self._secrets.strike
        self._n: int | None = None
        self._count = 0
        self._buffer: list[tuple[Voice, PartKind, str | bytes]] = []
        self._waits = 0
        """So much of the buffer, at its end, waits for what follows: it may be the beginning of a secret."""
        self._voices: dict[str, Voice] = {}
        self._dropped: list[Voice] = []
        self._flow: dict[str, list[NewPart]] = {}
        self._view: bytes | None = None
        self._viewed_at = 0.0
        self._sent: _Sent | None = None
        self._asked = False
        """Whether it was asked to hold the commits, and has not built what is to be written."""

    # what is said

    def voice(self, key: str) -> Voice:
        """Return the voice of an attempt that begins."""
        return Voice(key, self._executor.worker.loop, self._heard, self._strike, self._ended)

    def _heard(self, voice: Voice, kind: PartKind, said: str | bytes) -> None:
        if self._executor.ended or voice.done or voice.over:
            return
        if not voice.number:
            before = self._voices.get(voice.key)
            if before is not None:
                self._drop(before)
            self._count += 1
            voice.number = self._count
            self._voices[voice.key] = voice
        self._buffer.append((voice, kind, said))
        self._streams.stir(self)

    def _ended(self, voice: Voice, cancelled: bool) -> None:  # noqa: FBT001 - Voice.ended names it
        """Take note that an attempt has ended; one that was cancelled has no outcome."""
        voice.over = True
        if cancelled and self._voices.get(voice.key) is voice:
            self._drop(voice)

    def failed(self, key: str) -> None:
        """Drop what the last attempt of a call emitted: something else than its outcome is recorded of it."""
        voice = self._voices.get(key)
        if voice is not None:
            self._drop(voice)

    def _drop(self, voice: Voice) -> None:
        voice.done = True
        del self._voices[voice.key]
        self._dropped.append(voice)
        self._streams.stir(self)

    def from_flow(self, key: str, kind: PartKind, said: str | bytes) -> None:
        """Take what the flow emitted: it is written by the commit of the entry with this key."""
        bodies = texts_of(said, self._strike) if isinstance(said, str) else [said]
        self._flow[key] = [NewPart(FLOW, kind, body) for body in bodies]

    def show(self, body: bytes) -> None:
        """Overwrite what the run shows of itself, with the next commit or soon."""
        self._view = body
        self._streams.stir(self, VIEW_SECONDS)

    # what is written

    def travel(self, proposal: Proposal) -> None:
        """Put what there is to say into a commit, and what its entries keep and drop (G11)."""
        if not (self._voices or self._buffer or self._dropped or self._flow or self._view is not None):
            return
        ends = proposal.after is not State.RUNNING or proposal.state_body is not None
        proposal.stream = self._write(proposal.entries, ends=ends)
        proposal.view = self._view_now(ends=ends)
        if self._sent is not None:
            self._sent = self._sent._replace(view=proposal.view)

    def _view_now(self, *, ends: bool) -> bytes | None:
        late = self._executor.worker.loop.time() - self._viewed_at >= VIEW_SECONDS / 2
        return self._view if ends or late else None

    def _write(self, entries: Sequence[Entry], *, ends: bool) -> StreamWrite | None:
        kept: list[Voice] = []
        gone = list(self._dropped)
        flow: list[str] = []
        for entry in entries:
            key = entry.key or ""
            voice = self._voices.get(key)
            if voice is not None and entry.kind is Kind.OUTCOME and voice not in kept:
                kept.append(voice)
            if key in self._flow:
                flow.append(key)
        if ends:
            gone += [voice for voice in self._voices.values() if voice not in kept and voice not in gone]
        parts = [part for key in flow for part in self._flow[key]]
        now = self._part(kept, gone)
        parts += _joined(((v, kind, said) for v, kind, said in now if v not in gone), self._strike)
        self._sent = _Sent(len(now), [*kept, *gone], flow, None)
        keeps, drops = _numbers(kept, parts), _numbers(gone, ())
        if not (parts or keeps or drops):
            return None
        for voice, _, _ in now:
            voice.written = True
        return StreamWrite(self._n, parts, keeps, drops, ends)

    def _part(self, kept: list[Voice], gone: list[Voice]) -> list[tuple[Voice, PartKind, str | bytes]]:
        """Return what of the buffer is to be written now."""
        if not self._secrets.any_known:
            return self._buffer[:]
        now, later = parted(self._buffer, [*kept, *gone], self._secrets.begun)
        self._buffer, self._waits = [*now, *later], len(later)
        return now

    def answered(self, reply: Reply) -> None:
        """Take the reply to the commit that took it along."""
        if reply.refused is not None or reply.answered or reply.early:
            self.not_written()
        else:
            self.written(reply.n)

    def written(self, n: int) -> None:
        """Take note that what was under way is written; `n` is the counter, 0 if nothing of it was for the stream."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        if n:
            self._n = n
        del self._buffer[: sent.taken]
        for voice in sent.settled:
            voice.done = True
            if self._voices.get(voice.key) is voice:
                del self._voices[voice.key]
        self._dropped = [voice for voice in self._dropped if voice not in sent.settled]
        for key in sent.flow:
            self._flow.pop(key, None)
        if sent.view is not None:
            self._viewed_at = self._executor.worker.loop.time()
            if self._view is sent.view:
                self._view = None
        if len(self._buffer) > self._waits or self._dropped:
            self._streams.stir(self)
        if self._view is not None:
            self._streams.stir(self, VIEW_SECONDS)

    def not_written(self) -> None:
        """Take note that nothing of it was written: it goes with the next."""
        self._sent = None

    # between two commits (streams.Speaking)

    def hold(self, quiet: Callable[[], None]) -> None:
        """Let no commit of the run go meanwhile.

        What is emitted while a commit is waited for asks again, every few tens of milliseconds: `build` takes it along.
        Called back for each of these it would send the same parts as often, and the fence takes the second for a
        copy's (G2).
        """
        if not self._asked:
            self._asked = True
            self._executor.commits.hold(quiet)

    def build(self) -> Said | None:
        """Return what is to be written between two commits; None if a commit is about to take it along."""
        self._asked = False
        executor = self._executor
        said = None
        if not executor.ended and not self._flow:
            write, view = self._write((), ends=False), self._view_now(ends=False)
            if write is not None or view is not None:
                said = Said(executor.run.id, executor.lease.token, executor.lease.epoch, write, view)
                self._sent = self._sent._replace(view=view) if self._sent is not None else None
            else:
                self.written(0)
        if said is None:
            executor.commits.release()
        return said

    def said(self, n: int | None) -> None:
        """Take the answer."""
        executor = self._executor
        if executor.ended:
            return
        if n is None:
            self._sent = None
            executor.lost("its stream was written by somebody else, or cannot be written")
        else:
            self.written(n)
        executor.commits.release()


def _numbers(voices: Iterable[Voice], parts: Sequence[NewPart]) -> list[int]:
    """Return the numbers of voices the store knows, or is about to."""
    new = {part.voice for part in parts}
    return [voice.number for voice in voices if voice.written or voice.number in new]


def _joined(said: Iterable[tuple[Voice, PartKind, str | bytes]], strike: Callable[[bytes], bytes]) -> list[NewPart]:
    """Return parts, neighbouring texts of one voice in one."""
    parts: list[NewPart] = []
    texts: list[str] = []
    last = letters = 0

    def end_text() -> None:
        parts.extend(NewPart(last, PartKind.TEXT, body) for body in texts_of("".join(texts), strike))
        texts.clear()

    for voice, kind, what in said:
        if texts and (voice.number != last or kind is not PartKind.TEXT or letters >= TEXT_LETTERS):
            end_text()
        if isinstance(what, str):
            letters = letters + len(what) if texts else len(what)
            last = voice.number
            texts.append(what)
        else:
            parts.append(NewPart(voice.number, kind, what))
    if texts:
        end_text()
    return parts
