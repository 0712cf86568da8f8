"""Options of a wrong type, keys that name nothing: a usage error with what would be right, and nothing was started."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.client.programs import app
from torpor.client import Client
from torpor.errors import UsageError
from torpor.testing import Lab

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"priority": 1.5}, "priority is a whole number, not 1.5"),
    ({"priority": True}, "priority is a whole number, not True"),
    ({"priority": "1"}, "priority is a whole number, not '1'"),
    ({"priority": 1 << 40}, "is not between"),
    ({"tenant": None}, "tenant is a text"),
    ({"tenant": 7}, "tenant is a text"),
    ({"tag": b"gpu"}, "tag is a text"),
    ({"line": ["ana"]}, "line is a text"),
    ({"line": "ana", "line_limit": 1.0}, "line_limit is a whole number, not 1.0"),
    ({"line": "ana", "line_limit": 0}, "0"),
    ({"key": 881}, "key is a text of 1 to 500 letters"),
    ({"key": ""}, "key is a text of 1 to 500 letters"),
    ({"key": "x" * 501}, "not one of 501 letters"),
    ({"key": "~mine"}, "keys that begin with ~"),
    ({"at": "2026-12-24"}, "at is a datetime with a time zone, not '2026-12-24'"),
    ({"at": 5}, "at is a datetime"),
    ({"at": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - the mistake
    ({"deadline": 3600}, "deadline is a datetime with a time zone or a timedelta, not 3600"),
    ({"deadline": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - the mistake
    ({"budget": 0.5}, "which is no decimal"),
    ({"budget": -1}, "more than nothing"),
]


def test_a_wrong_option_starts_nothing(store: Store, moment: Moment) -> None:
    """Each names the option, what was given and what would be right; no TypeError of Python's own."""

    async def main() -> None:
        async with Lab(app, store=store, clock=moment) as lab:
            client = Client(lab.store)
            for options, says in WRONG:
                with pytest.raises(UsageError) as refused:
                    await client.start("speak", 3, **options)
                assert says in refused.value.message, (options, refused.value.message)
            with pytest.raises(UsageError, match="program is a text"):
                await client.start(7)  # type: ignore[arg-type] # the mistake
            assert await client.list(limit=5) == []

    asyncio.run(main())


def test_a_key_names_something(store: Store, moment: Moment) -> None:
    """An empty key would make every later signal a repetition of the first."""

    async def main() -> None:
        async with Lab(app, store=store, clock=moment) as lab:
            client = Client(lab.store)
            run = str(await lab.start("speak", 3))
            for wrong in ("", 7, "\ud800", "x" * 501):
                for call in (
                    client.signal(run, "go", key=wrong),  # type: ignore[arg-type] # the mistake
                    client.interrupt(run, key=wrong),  # type: ignore[arg-type] # the mistake
                    client.publish("paid", key=wrong),  # type: ignore[arg-type] # the mistake
                    client.request(run, "go", key=wrong),  # type: ignore[arg-type] # the mistake
                ):
                    with pytest.raises(UsageError, match="key is a text of 1 to 500 letters"):
                        await call
            assert (await client.show(run)).unread == []

    asyncio.run(main())
