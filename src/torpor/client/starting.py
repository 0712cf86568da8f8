"""Starting runs, and ending them."""

from __future__ import annotations

from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.client.checking import check_start, check_text
from torpor.client.connected import Connected
from torpor.client.tracing import active
from torpor.clock import as_micros, micros
from torpor.core.money import micros_of
from torpor.engine import runs
from torpor.engine.decisions import find_run
from torpor.engine.large import put_aside
from torpor.errors import UsageError
from torpor.store import values

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from torpor.engine.runs import Cancelled
    from torpor.store.protocol import Tx


class Started(NamedTuple):
    """A run that was started. `created` is False when its key had been used: this is the run that was started then."""

    run_id: str
    created: bool


class Starting(Connected):
    """Start and cancel."""

    async def start(  # noqa: PLR0913 - what can be said about a run
        self,
        program: str,
        input: Any = None,  # noqa: A002 - the word that authors use
        *,
        key: str | None = None,
        tenant: str = "default",
        priority: int = 0,
        at: datetime | None = None,
        deadline: datetime | timedelta | None = None,
        tag: str = "",
        line: str = "",
        line_limit: int = 1,
        budget: Decimal | str | int | None = None,
    ) -> Started:
        """Start a run of a program that a worker has made known; with `at` (an aware datetime) not before then.

        The same `key` of the same program finds the same run, however often it is said. A lower `priority` number goes
        first. It is cancelled at its `deadline`, a moment or so long after its start. Only workers with its `tag` take
        it. Of the runs of a `line` at most `line_limit` hold a place at once, the others wait their turn; the limit that
        was said last holds.

        It belongs to the OpenTelemetry trace that is active here, if one is.
        `budget` is a limit in dollars for what it and its children spend. Raises UsageError for an unknown program, what is
        no amount or what is no agent's prompt, UnstorableValue for an input that would not come back.
        """
        check_start(
            {
                "program": program,
                "key": key,
                "tenant": tenant,
                "priority": priority,
                "at": at,
                "deadline": deadline,
                "tag": tag,
                "line": line,
                "line_limit": line_limit,
            }
        )
        if key is not None and key.startswith("~"):
            raise UsageError(f"key={key!r}: keys that begin with ~ are torpor's own", hint="any other first letter")
        body, blob = put_aside(values.encode(input, path="input"))
        wanted = runs.Start(
            program, body, key, tenant, priority, None if at is None else _moment(at, "at"), blob, tag, line, line_limit
        )
        if isinstance(deadline, timedelta):
            wanted = wanted._replace(deadline_micros=micros(deadline.total_seconds()))
        elif deadline is not None:
            wanted = wanted._replace(deadline_at=_moment(deadline, "deadline"))
        if budget is not None:
            wanted = wanted._replace(budget=micros_of(budget, "budget", positive=True))
        trace = active()
        if trace:
            wanted = wanted._replace(trace=trace)
        done = await self.store.transact(runs.start_asked, wanted)
        return Started(done.name, done.created)

    async def pick_up(self, program: str, input: Any = None, *, by: str = "", afresh: bool = False) -> Started:  # noqa: A002 - as `start`
        """Go on with the open run of a program that was picked up with this very input by this person, else start one.

        That is what `torpor run` does: the same command goes on with the same run, however often it was broken off, and
        begins another one when that has ended; with `afresh` it does in any case. Raises as `start`.
        """
        check_text(program, "program")
        encoded = values.encode(input, path="input")
        body, blob = put_aside(encoded)
        said = blake2b(encoded, digest_size=16, key=blake2b(by.encode("utf-8", "surrogatepass")).digest())
        wanted = runs.Start(program, body, f"~picked up {said.hexdigest()}", blob=blob, trace=active())
        done = await self.store.transact(runs.pick_up, wanted, afresh=afresh)
        return Started(done.name, done.created)

    async def cancel(self, run: str, *, reason: str = "") -> Cancelled:
        """Ask a run and its descendants to end as cancelled, the independent ones excepted; acknowledged means durable.

        The first `reason` is kept and shown. Returns its state now, and how many descendants are being cancelled with it (G12).
        """
        return await self.store.transact(_cancel, run, reason)


def _moment(at: datetime, what: str) -> int:
    try:
        return as_micros(at)
    except ValueError as error:
        raise UsageError(f"{what}={at!r} has no time zone", hint="datetime(..., tzinfo=UTC)") from error


def _cancel(tx: Tx, run: str, reason: str) -> Cancelled:
    return runs.cancel(tx, find_run(tx, run)[0].id, reason)
