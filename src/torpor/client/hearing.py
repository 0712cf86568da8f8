"""What comes from outside for runs that wait: answers to callbacks, events, and questions that a run answers."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.client.checking import check_key
from torpor.client.connected import Connected
from torpor.client.listening import until
from torpor.core.event import KEPT_SECONDS, MOST_BYTES, MOST_FIELDS
from torpor.core.names import check_name
from torpor.engine import callbacks, events, replies
from torpor.engine.large import put_aside
from torpor.errors import UsageError
from torpor.store import values
from torpor.store.protocol import Lane
from torpor.store.rows import NewSignal

if TYPE_CHECKING:
    from collections.abc import Sequence


class EventLine(NamedTuple):
    """An event: how many runs got it so far, until when it is kept, and whether that is over."""

    event: int
    name: str
    key: str | None
    at: int
    expires_at: int
    taken: int
    state: str
    """`on its way`, `kept`, or `expired`."""


class Hearing(Connected):
    """Callbacks, events, requests."""

    async def deliver(self, token: str, value: Any = None, *, sender: str | None = None) -> callbacks.Delivered:
        """Answer a callback. It is durable when this returns, and counts once: `new` is False if it was handled before.

        Raises NotFound for a token that this store did not give out; Conflict, with the reason, for an answer that would not
        be read any more: the callback expired, or its run ended or went on without it.
        """
        body, blob = put_aside(values.encode(value, path="value"))
        return await self.store.transact(callbacks.deliver, token, body, blob, sender=sender)

    async def deliver_to(self, wait: str, value: Any = None, *, sender: str | None = None) -> callbacks.Delivered:
        """Answer a callback by its wait's public id, as somebody who has the store and not the secret. As `deliver`.

        Raises UsageError for a wait of another kind.
        """
        body, blob = put_aside(values.encode(value, path="value"))
        return await self.store.transact(callbacks.deliver_to, wait, body, blob, sender=sender)

    async def publish(
        self, name: str, value: Any = None, *, key: str | None = None, kept: float | timedelta = KEPT_SECONDS
    ) -> events.Published:
        """Publish an event for every run that waits for it, now or while it is kept: a day, if nothing else is said.

        The same `key` of the same name is one event for as long as it is kept. Raises UsageError for a value that is too
        large to be copied into every inbox.
        """
        check_name(name, "an event's name")
        check_key(key, "an event's key")
        body = values.encode(value, path="value")
        if len(body) > MOST_BYTES:
            message = f"the value of event {name} has {len(body):,} bytes, more than {MOST_BYTES:,}"
            raise UsageError(message, hint="put it somewhere, and publish where it is")
        shown = values.plain(body)
        if isinstance(shown, dict) and len(shown) > MOST_FIELDS:
            message = f"event {name} has {len(shown)} fields, more than {MOST_FIELDS}"
            raise UsageError(message, hint="put what nobody compares into a field of its own")
        kept_seconds = kept.total_seconds() if isinstance(kept, timedelta) else kept
        if not 0 < kept_seconds < 366 * 86_400:
            raise UsageError(f"kept={kept!r}: an event is kept for more than nothing and less than a year")
        return await self.store.transact(events.publish, name, body, key=key, kept_seconds=kept_seconds)

    async def events(self, *, limit: int = 50) -> Sequence[EventLine]:
        """Return the newest events: those that are kept, and those that expired and reached nobody."""
        rows, now = await self.store.transact(
            lambda tx: (tx.list_events(limit=min(limit, 200)), tx.now()), lane=Lane.READ
        )
        return [
            EventLine(
                row.id,
                row.name,
                row.key,
                row.at,
                row.expires_at,
                row.taken,
                "expired" if row.expires_at <= now else "kept" if row.reached is None else "on its way",
            )
            for row in rows
        ]

    async def request(
        self,
        run: str,
        name: str,
        value: Any = None,
        *,
        timeout_seconds: float | None = 60.0,
        key: str | None = None,
        sender: str | None = None,
    ) -> Any:
        """Send a signal to a run and return what it answers with `ctx.reply`.

        The question is durable, and the same `key` is the same question: asked again, also after a crash of the caller, it
        returns the same answer, which is kept for a week. Raises TimeoutError (the run may still answer), Conflict if the
        run ends without an answer.
        """
        check_name(name, "a signal's name")
        check_key(key, "a request's key")
        body, blob = put_aside(values.encode(value, path="value"))
        signal = NewSignal(0, name, body, key or secrets.token_hex(8), sender)
        asked = await self.store.transact(replies.ask, run, signal, blob)
        if asked.answer is None:
            asked = await self._answered(asked, timeout_seconds)
        return values.decode(asked.answer or b"null")

    async def _answered(self, asked: replies.Asked, timeout_seconds: float | None) -> replies.Asked:
        async def look() -> replies.Asked | None:
            now = await self.store.transact(replies.answer, asked.run_id, asked.key, lane=Lane.READ)
            if now.answer is None and now.state.final:
                raise replies.ended(now.run_id, now.state)
            return now if now.answer is not None else None

        async with asyncio.timeout(timeout_seconds):
            return await until(self.store, {"reply", "ended"}, look)
