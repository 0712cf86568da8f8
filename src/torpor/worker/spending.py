"""Calls about what runs share: reservations of money and places in rate buckets, each done inside the commit that records it.

Such a call is sent as a commit of its own (`Commits.alone`) whose transaction does the work and adds what came of it:

    an outcome      reserved, settled, granted: the code goes on
    a wait          a person is asked for money; their decision, or money that was given back, makes the run ask again
    a note          a place in a rate bucket: the moment at which the run asks again

While one is under way it stands among the effects that are going, so that nothing is put away meanwhile; it is not past a
gate, so a cancel does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from torpor.clock import micros
from torpor.core.budget import Lost
from torpor.core.journal import Entry, Kind
from torpor.core.replay import CallKind
from torpor.core.wait import Open, WaitKind
from torpor.engine import effects, rates, spending
from torpor.errors import RateLimited, StoreUnavailable
from torpor.store.protocol import Lane
from torpor.worker.call import Call, Stage
from torpor.worker.calls import described
from torpor.worker.linger import LINGER_SECONDS

if TYPE_CHECKING:
    from torpor.core.commit import Proposal
    from torpor.core.replay import Record
    from torpor.core.wait import Delivery
    from torpor.engine.commit import Reply
    from torpor.engine.effects import Inside
    from torpor.sdk.port import Request
    from torpor.store.protocol import Tx
    from torpor.worker.roles import Executor, Progress

SHARED = frozenset({CallKind.BUDGET, CallKind.RATE})
Doing = Callable[["Proposal"], "Callable[[Tx], Inside | None]"]


class Spending:
    """The calls of one turn about budgets and rates."""

    def __init__(self, executor: Executor, progress: Progress) -> None:
        """Begin with none."""
        self._executor = executor
        self._worker = executor.worker
        self._progress = progress
        self._looked: dict[str, int] = {}
        """How much of the inbox was seen when a call asked last for money that was short."""

    # beginning

    def begin(self, request: Request, record: Record | None) -> None:
        """Put a call where the journal says it was, or ask as soon as the body's own loop is left."""
        key = request.key
        if request.kind is CallKind.RATE and record is not None and record.notes:
            due_at = int(self._executor.bodies.decode(record.notes[-1].body)["due_at"])
            self._progress.waiting[key] = Open(key, WaitKind.RATE, request.name, due_at)
            return
        row = None
        if record is not None and record.wait is not None:
            row = next((row for row in self._executor.rows.values() if row.seq == record.wait.seq), None)
        if row is None:
            self._progress.pending.append(Call(request, 1, Stage.GATE))
        else:
            self._progress.waiting[key] = Open(key, WaitKind.BUDGET, row.title, slot=row.slot)

    def start(self, call: Call) -> None:
        """Ask for the first time."""
        request = call.request
        if request.name == "reserve" and request.kind is CallKind.BUDGET:
            self._reserve(call)
        elif request.kind is CallKind.BUDGET:
            self._send(call, lambda _: partial(self._budget_call, request))
        elif request.rate is not None:
            self._take(call, waited=False)
        else:
            pause = int(request.values["pause"])
            self._send(call, lambda _: lambda tx: rates.push(tx, request.key, request.name, pause))

    def _budget_call(self, request: Request, tx: Tx) -> Inside:
        run, values = self._executor.run.id, request.values
        if request.name == "left":
            return spending.left(tx, run, request.key)
        if request.name == "limit":
            return spending.limit(tx, run, request.key, int(values["micros"]))
        return spending.settle(tx, run, request.key, str(values["hold"]), int(values["micros"]))

    def _take(self, call: Call, *, waited: bool) -> None:
        request = call.request
        if request.rate is not None:
            taker = rates.Taker(request.key, request.name, int(request.values["n"]), request.rate, waited)
            self._send(call, lambda _: lambda tx: rates.take(tx, taker))

    def _reserve(self, call: Call, **more: Any) -> None:
        executor, request = self._executor, call.request
        executor.spends = True
        self._looked[request.key] = executor.seen
        amount, lost = int(request.values["micros"]), Lost[str(request.values["lost"]).upper()]
        more["why"] = str(request.values.get("why", ""))

        def doing(proposal: Proposal) -> Callable[[Tx], Inside | None]:
            taken = {*executor.rows, *(wait.slot for wait in proposal.waits)}
            slot = next(n for n in range(len(taken) + 1) if n not in taken)
            wish = spending.Wish(executor.run.id, request.key, amount, lost, slot, **more)
            return lambda tx: spending.reserve(tx, wish)

        self._send(call, doing, more.get("asked"))

    # asking again

    def look_again(self) -> None:
        """Ask again for money that was short, if the run was woken since it asked, or has just been taken up."""
        for wait in list(self._progress.waiting.values()):
            if wait.kind is not WaitKind.BUDGET or wait.key in self._progress.effects.going:
                continue
            row = self._executor.rows.get(wait.slot)
            request = self._request(wait.key)
            fresh = self._looked.get(wait.key, -1) < self._executor.seen
            if row is not None and row.answered_at is None and request is not None and fresh:
                self._reserve(Call(request, 1, Stage.GATE), asked=(row.slot, row.seq))

    def decided(self, wait: Open, delivery: Delivery) -> None:
        """Come to one's place in a rate bucket, or take what a person said about money."""
        request = self._request(wait.key)
        self._progress.waiting.pop(wait.key, None)
        if request is None:
            return
        call = Call(request, 1, Stage.GATE)
        if wait.kind is WaitKind.RATE:
            self._take(call, waited=True)
            return
        answer = self._executor.bodies.decode(delivery.wait.answer) if delivery.decided else {}
        if "fail" in answer:
            self._refused(wait, answer)
            return
        note = self._executor.bodies.encode({"note": "decided", **answer}, "decision")
        self._reserve(call, answered=wait.slot, note=note, once=bool(answer.get("once")))

    def _refused(self, wait: Open, answer: dict[str, Any]) -> None:
        by, why = str(answer.get("by", "a person")), str(answer.get("fail") or "")
        detail = f"{wait.name}; {by} said no{f': {why}' if why else ''}"
        body = self._executor.bodies.encode({"kind": "BudgetExceeded", "detail": detail}, "error")
        self._executor.commits.record(Entry(Kind.FAILURE, wait.key, body))
        self._executor.commits.draft.over = (*self._executor.commits.draft.over, wait.slot)

    def _request(self, key: str) -> Request | None:
        turn = self._executor.turn
        return turn.open.get(key) if turn is not None else None

    # a provider said: not now

    def limited(self, call: Call, error: RateLimited) -> None:
        """Try a call again when its provider allows, without the loss of an attempt, and let others wait as well."""
        request, key = call.request, call.request.key
        attempts = call.attempt - 1
        pause = micros(error.retry_after)
        note = {"note": "attempt", "attempt": attempts, **described(error)}
        self._progress.attempts[key] = attempts
        if error.bucket:
            again = Call(request, call.attempt, Stage.GATE)
            self._send(again, lambda _: lambda tx: rates.limited(tx, key, error.bucket, pause, note))
            return
        again_at = self._worker.now() + pause
        self._progress.effects.going.pop(key, None)
        body = self._executor.bodies.encode({**note, "again_at": again_at}, "note")
        self._executor.commits.record(Entry(Kind.NOTE, key, body))
        self._progress.waiting[key] = Open(key, WaitKind.RETRY, request.name, due_at=again_at)

    # sending

    def _send(self, call: Call, doing: Doing, closing: tuple[int, int] | None = None) -> None:
        self._progress.effects.going[call.request.key] = call
        self._executor.commits.alone(lambda: self._worker.outside.spawn(self._commit(call, doing, closing)))

    async def _commit(self, call: Call, doing: Doing, closing: tuple[int, int] | None) -> None:
        executor, worker = self._executor, self._worker
        if executor.ended or not await worker.standing.stands():
            return
        if executor.progress.effects.going.get(call.request.key) is not call:
            return  # the run was cancelled meanwhile, and what it undoes commits by itself
        proposal = executor.commits.build(alone=True)
        if proposal is None:
            return
        try:
            with worker.standing.sending.of("something shared"):
                whole, reply = await worker.store.transact(
                    effects.commit_inside, proposal, doing(proposal), closing, lane=Lane.COMMIT
                )
        except StoreUnavailable:
            worker.loop.call_soon(executor.lost, "the store was lost while something shared was asked for")
        except Exception as error:  # noqa: BLE001 - a defect of this commit's own, as in the committer
            worker.loop.call_soon(executor.commits.broken, proposal, error)
        else:
            worker.loop.call_soon(self._answered, call, doing, closing, whole, reply)

    def _answered(
        self, call: Call, doing: Doing, closing: tuple[int, int] | None, whole: Proposal, reply: Reply | None
    ) -> None:
        executor, key = self._executor, call.request.key
        if executor.ended:
            return
        if reply is None:  # as short as it was
            self._progress.effects.going.pop(key, None)
            executor.commits.take_back()
            executor.resubmit()
        elif reply.early or (reply.answered and closing is None):
            executor.commits.committed(whole, reply)
            self._worker.loop.call_later(LINGER_SECONDS, self._again, call, doing)
        else:
            self._progress.effects.going.pop(key, None)
            if reply.refused is None and not reply.answered:
                self._take_note(call, whole)
            executor.commits.committed(whole, reply)

    def _again(self, call: Call, doing: Doing) -> None:
        if self._executor.ended or self._request(call.request.key) is not call.request:
            return  # its turn is over
        if self._progress.effects.going.get(call.request.key) is call:
            self._executor.commits.alone(lambda: self._worker.outside.spawn(self._commit(call, doing, None)))

    def _take_note(self, call: Call, whole: Proposal) -> None:
        """Wait as the last entry of a call says, unless the code waits for it no more."""
        request, key = call.request, call.request.key
        last = next(entry for entry in reversed(whole.entries) if entry.key == key)
        said: Any = self._executor.bodies.decode(last.body) if last.body is not None else None
        if isinstance(said, dict) and "was" in said:
            limit, per, burst = said["was"]
            now = request.rate
            self._worker.log.warning(
                "a rate's limit changed", rate=request.name, was=(limit, per / 1e6, burst), now=now
            )
        if last.kind is Kind.WAIT:
            slot = whole.waits[-1].slot
            self._progress.waiting[key] = Open(key, WaitKind.BUDGET, whole.waits[-1].title, slot=slot)
            if self._request(key) is None:
                self._progress.withdrawn(request)
        elif last.kind is Kind.NOTE and self._request(key) is not None:
            kind = WaitKind.RATE if request.kind is CallKind.RATE else WaitKind.RETRY
            due_at = int(said["due_at" if kind is WaitKind.RATE else "again_at"])
            self._progress.waiting[key] = Open(key, kind, request.name, due_at)
