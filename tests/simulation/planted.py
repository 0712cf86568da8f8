"""Bugs planted on purpose, one layer after the other: each takes away one thing that the promises rest on.

A simulation that does not find these proves nothing by finding none. They are put in the place of what is right while a world
lives, and taken out again.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

from torpor import rouse, waker
from torpor.client import waking
from torpor.core.effect import Gate, Resume
from torpor.core.wait import next_delivery
from torpor.engine import commit, effects, family, follow_ups
from torpor.store.rows import NewSignal
from torpor.store.sqlite import hot
from torpor.store.sqlite.tx import SqliteTx
from torpor.worker import acting, consuming, gate, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.core.commit import Proposal
    from torpor.store.rows import Append, Claim, Leave


@dataclass(frozen=True)
class Planted:
    """A bug: in which layer, what it leaves out, which guarantees may be seen broken, and where it is put."""

    layer: str
    what: str
    breaks: tuple[str, ...]
    places: tuple[tuple[Any, str, Any], ...]
    seed: int = 1
    """Where the search begins: near the first seed that finds it, to save time."""

    def plant(self) -> AbstractContextManager[object]:
        """Put it in."""
        planted = ExitStack()
        for where, name, wrong in self.places:
            planted.enter_context(mock.patch.object(where, name, wrong))
        return planted

    def __str__(self) -> str:
        """Name it."""
        return f"{self.layer}: {self.what}"


def _always(value: object) -> Callable[..., Any]:
    return lambda *_given, **_more: value


def _drawn(*_given: object) -> str:
    return secrets.token_hex(16)


def _newest_first(open_waits: Any, unread: Sequence[Any], **more: Any) -> Any:
    return next_delivery(open_waits, [*reversed(unread)], **more)


_append, _leave = SqliteTx.append, SqliteTx.leave


def _append_anywhere(tx: SqliteTx, rows: Sequence[Append], **more: Any) -> Any:
    """Append under whatever lease there is, at whatever head."""
    held = tx.leases([row.run_id for row in rows])
    moved = [
        row._replace(token=held[row.run_id].token, epoch=held[row.run_id].epoch, head=held[row.run_id].head)
        if row.run_id in held
        else row
        for row in rows
    ]
    return _append(tx, moved, **more)


def _append_after_cancel(tx: SqliteTx, rows: Sequence[Append], **more: Any) -> Any:
    return _append(tx, [row._replace(forbids_cancel=False) for row in rows], **more)


def _leave_unseen(tx: SqliteTx, rows: Sequence[Leave]) -> Any:
    """Park a run although a signal came that it did not see."""
    return _leave(tx, [row._replace(seen=1 << 40) for row in rows])


def _without_key(run_id: int, name: str, body: bytes, _key: str | None = None, sender: str | None = None) -> NewSignal:
    return NewSignal(run_id, name, body, None, sender)


_carry = commit._carry  # noqa: SLF001 - what is made wrong


def _take_nothing(tx: Any, winners: Sequence[Proposal], known: Any) -> Any:
    """Leave the signals that were consumed among the unread."""
    for proposal in winners:
        proposal.taken = ()
    return _carry(tx, winners, known)


_claim = SqliteTx.claim


def _claim_first(tx: SqliteTx, wanted: Claim) -> Any:
    """Begin with the first tenant every time."""
    return _claim(tx, wanted._replace(after_tenant=0))


LEAST_URGENT = hot._NEXT.replace("BY prio", "BY prio DESC")  # noqa: SLF001 - what is made wrong

LATE_CASCADE = tuple(
    sweep._replace(every_seconds=20.0, topic="") if sweep.op is follow_ups.settle else sweep for sweep in waker.SWEEPS
)

PLANTED = (
    Planted(
        "core",
        "a `once` effect without an outcome is run again",
        ("G4",),
        ((acting, "on_resume", _always(Resume.RUN)),),
        25,
    ),
    Planted("core", "an effect's key is drawn", ("G5",), ((acting, "effect_key", _drawn),), 13),
    Planted("core", "the newest message is consumed first", ("G7",), ((consuming, "next_delivery", _newest_first),), 6),
    Planted("engine", "a signal that was consumed stays unread", ("G7",), ((commit, "_carry", _take_nothing),), 5),
    Planted(
        "store",
        "the fence forgets token, epoch and head",
        ("G1", "G2", "G3"),
        ((SqliteTx, "append", _append_anywhere),),
        67,
    ),
    Planted(
        "store", "an intent is accepted after a cancel", ("G12",), ((SqliteTx, "append", _append_after_cancel),), 39
    ),
    Planted("store", "a run is parked over an unseen signal", ("G13", "G7"), ((SqliteTx, "leave", _leave_unseen),), 3),
    Planted("worker", "the gate always opens", ("G4", "G12"), ((gate, "gate", _always(Gate.GO)),), 4),
    Planted("engine", "a child starts below a cancel", ("G12",), ((family, "falling", _always(set())),), 1450),
    Planted("waker", "a cascade comes after twenty seconds", ("G12",), ((waker, "SWEEPS", LATE_CASCADE),), 15),
    Planted(
        "engine",
        "a cascade comes after twenty seconds, and the gate does not look above",
        ("G12",),
        ((waker, "SWEEPS", LATE_CASCADE), (effects, "falling", _always(set()))),
        14,
    ),
    Planted("store", "each claim begins with the first tenant", ("G20",), ((SqliteTx, "claim", _claim_first),), 4),
    Planted(
        "store",
        "the least urgent run goes first",
        ("G20",),
        ((hot, "_NEXT", LEAST_URGENT),),
        7,
    ),
    Planted(
        "worker",
        "a callback that failed shuts nobody",
        ("G2",),
        ((standing.Standing, "_look_again", _always(None)), (rouse.Registry, "is_open", True)),
        54,
    ),
    Planted("waker", "timers are not fired", ("G13",), ((waker, "SWEEPS", waker.SWEEPS[1:]),)),
    Planted("client", "what is sent again has no key", ("G7",), ((waking, "NewSignal", _without_key),), 131),
)
