"""What an executor needs that takes its time: reading rows, asking `verify`, effects inside a commit, settling late."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from torpor import rouse
from torpor.blobs.rows import unpack
from torpor.core.lease import Proof
from torpor.engine import cancels, effects, waits
from torpor.engine.follow_ups import joinable
from torpor.errors import NotDone, StoreError, StoreUnavailable
from torpor.sdk.steps import CANNOT_TELL, NOT_DONE, Answer, done
from torpor.store.protocol import Lane
from torpor.worker.acting import context_of, span_of
from torpor.worker.linger import LINGER_SECONDS
from torpor.worker.roused import MOST_AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from torpor.core.commit import Proposal
    from torpor.core.journal import Stored
    from torpor.engine.cancels import ToUndo
    from torpor.engine.commit import Reply
    from torpor.engine.family import Joinable
    from torpor.store.rows import WorkerRow
    from torpor.worker.call import Call
    from torpor.worker.roles import Executor, Worker

_PAUSE = 0.2
_LATE = "a late outcome"


class Outside:
    """Runs such things beside the executors of one worker."""

    def __init__(self, worker: Worker) -> None:
        """Serve one worker."""
        self._worker = worker
        self._store = worker.store
        self._going: set[asyncio.Task[None]] = set()
        self._acting: dict[int, set[asyncio.Future[Any]]] = {}
        self._delivering = self._to_deliver = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the executors; an error in it is logged."""
        going = self._worker.loop.create_task(work)
        self._going.add(going)
        going.add_done_callback(self._ended)

    def _ended(self, going: asyncio.Task[None]) -> None:
        self._going.discard(going)
        if not going.cancelled() and (error := going.exception()) is not None:
            self._worker.log.error("something beside the executors failed", error=repr(error), exc_info=error)

    def keep(self, run_id: int, call: Call) -> None:
        """Remember an effect that goes on acting although its executor ended: its run's holder is not gone yet."""
        if call.running is None:
            return
        acting = self._acting.setdefault(run_id, set())
        acting.add(call.running)
        call.running.add_done_callback(lambda ended: self._stopped(run_id, ended))

    @property
    def acting(self) -> bool:
        """Whether an effect acts although its executor ended."""
        return bool(self._acting)

    def _stopped(self, run_id: int, ended: asyncio.Future[Any]) -> None:
        acting = self._acting.get(run_id, set())
        acting.discard(ended)
        if not acting:
            self._acting.pop(run_id, None)

    # rows

    def read_rows(
        self, executor: Executor, field: str, first: int, most: int, here: Callable[[list[bytes] | Exception], None]
    ) -> None:
        """Read rows; `here` gets them or the error, from a plain callback of the loop."""
        self.spawn(self._read_rows(executor, field, first, most, here))

    async def _read_rows(
        self, executor: Executor, field: str, first: int, most: int, here: Callable[[list[bytes] | Exception], None]
    ) -> None:
        found: list[bytes] | Exception
        try:
            rows, blobs = await self._store.transact(_rows, executor.run.id, field, first, most)
            executor.bodies.learn(blobs)
            found = [unpack(body, f"element {n} of {field} of {executor.name}") for n, body in enumerate(rows, first)]
        except StoreError as error:
            found = error
        self._worker.loop.call_soon(here, found)

    # other runs

    def deliver(self) -> None:
        """Take messages that were just committed to their runs: at once, for the waker would need a hint or a tick."""
        self._to_deliver = True
        if not self._delivering:
            self._delivering = True
            self.spawn(self._deliver())

    async def _deliver(self) -> None:
        try:
            with suppress(StoreUnavailable):  # the wakers have them
                while self._to_deliver and self._worker.standing.ok():  # else the wakers have them, too
                    self._to_deliver = False
                    with self._worker.standing.sending.of("messages"):
                        swept = await self._store.transact(waits.deliver)
                    self._to_deliver = self._to_deliver or swept.more
        finally:
            self._delivering = False

    def ask_joinable(
        self, executor: Executor, children: Sequence[int], here: Callable[[Mapping[int, Joinable] | StoreError], None]
    ) -> None:
        """Ask which runs may be joined; `here` gets the answer or the error, from a plain callback of the loop."""
        self.spawn(self._ask_joinable(executor, children, here))

    async def _ask_joinable(
        self, executor: Executor, children: Sequence[int], here: Callable[[Mapping[int, Joinable] | StoreError], None]
    ) -> None:
        found: Mapping[int, Joinable] | StoreError
        try:
            found = await self._store.transact(joinable, executor.run.id, children)
        except StoreError as error:
            found = error
        self._worker.loop.call_soon(here, found)

    # cancel

    def to_undo(self, executor: Executor, here: Callable[[ToUndo | StoreError], None]) -> None:
        """Read what a cancelled run is to undo; `here` gets it or the error, from a plain callback of the loop."""
        self.spawn(self._to_undo(executor, here))

    async def _to_undo(self, executor: Executor, here: Callable[[ToUndo | StoreError], None]) -> None:
        found: ToUndo | StoreError
        try:
            found = await self._store.transact(cancels.to_undo, executor.run.id)
        except StoreError as error:
            found = error
        self._worker.loop.call_soon(here, found)

    # verify

    def ask_verify(self, executor: Executor, call: Call, left: Stored | BaseException) -> None:
        """Ask `verify` about an intent that was left behind, or about an attempt of ours that raised."""
        self.spawn(self._ask_verify(executor, call, left))

    async def _ask_verify(self, executor: Executor, call: Call, left: Stored | BaseException) -> None:
        """Tell the executor what `verify` says.

        An intent is asked about only when the worker that wrote it is truly gone: else it may be about to start.
        """
        definition = call.request.definition
        error = left if isinstance(left, BaseException) else None
        answer, why = CANNOT_TELL, "the worker that began it may still be alive, so looking proves nothing"
        if isinstance(left, BaseException):
            gone = True
        else:
            gone = await self._gone(executor.run.id, int(executor.bodies.decode(left.body).get("worker", 0)))
        if gone and definition is not None and definition.verify is not None:
            key, arguments = context_of(executor, call).key, call.request.values["args"]
            told = await self._ask(partial(self._call, definition.verify, key, *arguments))
            if told is None:
                return  # the worker is gone, and says so to all its runs
            answer, why = told
        self._worker.loop.call_soon(self._verified, executor, call, answer, why, error)

    async def _ask(self, verify: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Answer, str] | None:
        """Return what `verify` says, asked again if this process was away in it; None if this worker is gone."""
        standing = self._worker.standing
        for left in reversed(range(1 + MOST_AGAIN)):
            if not (standing.look() or await standing.restore()):
                return None
            life = rouse.incarnation()
            try:
                return _answer(await verify()), "its verify function cannot tell"
            except Exception as raised:  # noqa: BLE001 - whatever the author's function raises, nobody knows now
                standing.look()
                if rouse.incarnation() == life or left == 0:
                    return CANNOT_TELL, f"its verify function raised {type(raised).__name__}: {raised}"
        raise AssertionError  # the last time returns

    def _verified(self, executor: Executor, call: Call, answer: Answer, why: str, error: BaseException | None) -> None:
        if not executor.ended:
            executor.progress.effects.verified(call, answer, why, error)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        return await self._worker.calls.in_thread(partial(function, *args))

    async def _gone(self, run_id: int, worker: int) -> bool:
        """Whether the worker that wrote an intent is proven gone.

        A row of `workers` is removed only when the death is proven or the worker reported that it let everything go, so
        a missing one is proof.
        """
        if worker == self._worker.number:
            return run_id not in self._acting
        rows: list[WorkerRow] | None = None
        while rows is None:
            try:
                rows = await self._store.transact(lambda tx: tx.workers())
            except StoreUnavailable:
                await asyncio.sleep(_PAUSE)
        row = next((row for row in rows if row.id == worker), None)
        return row is None or await asyncio.to_thread(self._store.prove_death, row) is Proof.PROCESS_GONE

    # inside the commit

    def transactional(self, executor: Executor, call: Call) -> None:
        """Run a transactional effect inside a commit of its own, as soon as no other of its run is under way."""
        if not executor.ended:
            executor.commits.alone(lambda: self.spawn(self._transactional(executor, call)), acts=True)

    async def _transactional(self, executor: Executor, call: Call) -> None:
        """Run the effect in the transaction that records it, never in a shared batch (G6)."""
        if executor.ended or not await self._worker.standing.stands():
            return
        if executor.progress.effects.going.get(call.request.key) is not call:
            return  # the run was cancelled meanwhile
        proposal = executor.commits.build(alone=True)
        if proposal is None:
            return
        definition, request = call.request.definition, call.request
        call.life = rouse.incarnation()

        def effect(connection: Any) -> bytes:
            if definition is None:
                return b""
            arguments = request.values["args"]
            given = (context_of(executor, call), *arguments) if definition.takes_context else arguments
            act, trace = (
                partial(definition.function, connection, *given, **request.values.get("more", {})),
                executor.trace,
            )
            result = act() if trace is None else trace.inside(span_of(executor, call), act)
            return executor.bodies.encode(result, f"the result of {request.name}")

        try:
            with self._worker.standing.sending.of("a transactional effect"):
                whole, reply = await self._store.transact(
                    effects.commit_with, proposal, request.key, effect, lane=Lane.COMMIT
                )
        except StoreUnavailable:
            self._worker.loop.call_soon(executor.lost, "the store was lost inside a transactional effect")
        except Exception as error:  # noqa: BLE001 - the author's, rolled back with everything
            self._worker.loop.call_soon(self._raised, executor, call, error)
        else:
            self._worker.loop.call_soon(self._done_inside, executor, call, whole, reply)

    def _done_inside(self, executor: Executor, call: Call, whole: Proposal, reply: Reply) -> None:
        """Take the reply. One that was refused did not begin: nobody waits for its end (G12), or it is tried again."""
        if reply.refused is not None:
            executor.progress.effects.going.pop(call.request.key, None)
        elif reply.answered or reply.early:
            self._worker.loop.call_later(LINGER_SECONDS, self.transactional, executor, call)
        executor.commits.committed(whole, reply)

    def _raised(self, executor: Executor, call: Call, error: Exception) -> None:
        if not executor.ended:
            executor.commits.take_back()
            executor.progress.failed(call, error)
            executor.go_on()

    # late

    def settle_late(self, executor: Executor, call: Call, result: Any, error: BaseException | None) -> None:
        """Settle the unknown that an attempt left behind."""
        self._worker.standing.sending.begin(_LATE)  # from here on: the effect does not count as acting any more
        self.spawn(self._settle_late(executor, call, result, error))

    async def _settle_late(self, executor: Executor, call: Call, result: Any, error: BaseException | None) -> None:
        """Tell what became of an effect whose lease was lost while it acted: it answers the question it left (G18)."""
        try:
            await self._settle(executor, call, result, error)
        finally:
            self._worker.standing.sending.end(_LATE)

    async def _settle(self, executor: Executor, call: Call, result: Any, error: BaseException | None) -> None:
        by = f"worker {self._worker.name}, late"
        if error is None:
            answer = {"happened": result, "by": by}
        elif isinstance(error, NotDone):
            answer = {"again": True, "by": by, "note": str(error)}
        else:
            return
        try:
            body = executor.bodies.told(answer, f"the result of {call.request.name}")
            settled = await self._store.transact(effects.settle_late, executor.run.id, call.intent_seq, body)
        except StoreError as trouble:
            self._worker.log.warning(
                "an effect that ended late could not be settled", run=executor.name, error=str(trouble)
            )
        else:
            self._worker.log.info("an effect ended late", run=executor.name, effect=call.request.name, settled=settled)


def _rows(tx: Any, run_id: int, field: str, first: int, most: int) -> tuple[list[bytes], dict[bytes, bytes]]:
    rows = tx.get_rows(run_id, field, after=first, limit=most)
    named = sorted({body[1:] for body in rows if body[:1] == b"\x00"})
    return rows, tx.get_blobs(named, later=True) if named else {}


def _answer(said: Any) -> Answer:
    if isinstance(said, Answer):
        return said
    if said is True:
        return done()
    return NOT_DONE if said is False else CANNOT_TELL
