"""One fetch for all who ask, and another one in each life."""

from __future__ import annotations

import asyncio
import importlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import rouse

room: Any = importlib.import_module("torpor.rouse.incarnation")
tokens: Any = importlib.import_module("torpor.rouse.token")


class Issuer:
    """Gives `token 1`, `token 2` ..., each good for `seconds`; holds its answers back until `answer` is set."""

    def __init__(self, seconds: float = 3600.0) -> None:
        """Answer at once."""
        self.seconds = seconds
        self.asked = 0
        self.answer = threading.Event()
        self.answer.set()
        self.hears = threading.Event()
        self.fails = 0

    def fetch(self) -> tuple[str, float]:
        """Ask for a token."""
        self.asked += 1
        number = self.asked
        self.hears.set()
        assert self.answer.wait(PATIENCE_SECONDS)
        if self.fails:
            self.fails -= 1
            raise ConnectionError(number)
        return f"token {number}", self.seconds

    async def fetch_async(self) -> tuple[str, float]:
        """Ask for a token in a loop."""
        return await asyncio.to_thread(self.fetch)


def test_it_is_fetched_once_and_kept() -> None:
    """As long as it is good."""
    issuer = Issuer()
    token = rouse.Token(issuer.fetch)
    assert [token.get(), token.get()] == ["token 1", "token 1"]
    token.forget()
    assert token.get() == "token 2"


def test_another_life_fetches_its_own() -> None:
    """The old one may have run out, or the copy may have refreshed it."""
    issuer = Issuer()
    token = rouse.Token(issuer.fetch)
    token.get()
    room.end(rouse.incarnation())
    assert (token.get(), token.get()) == ("token 2", "token 2")


@pytest.mark.parametrize("clock", ["_boottime", "time"])
def test_it_runs_out_by_either_clock(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One runs through a sleep; the other is set after a pause that no clock of the guest has seen."""
    issuer = Issuer(seconds=100.0)
    token = rouse.Token(issuer.fetch, leeway_seconds=10.0)
    now = 1000.0
    owner = tokens if clock == "_boottime" else tokens.time
    monkeypatch.setattr(owner, clock, lambda: now)
    assert token.get() == "token 1"
    now += 89.0
    assert token.get() == "token 1"
    now += 1.0
    assert token.get() == "token 2"


def test_threads_share_one_fetch() -> None:
    """All ask while the first one's fetch is on its way."""
    issuer = Issuer()
    issuer.answer.clear()
    token = rouse.Token(issuer.fetch)
    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(token.get) for _ in range(8)]
        assert issuer.hears.wait(PATIENCE_SECONDS)
        issuer.answer.set()
        assert {each.result() for each in asking} == {"token 1"}
    assert issuer.asked == 1


def test_a_life_that_ends_during_the_fetch_fetches_again() -> None:
    """What was asked for before a copy may be the copy's."""
    issuer = Issuer()
    issuer.answer.clear()
    token = rouse.Token(issuer.fetch)
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(token.get)
        assert issuer.hears.wait(PATIENCE_SECONDS)
        room.end(rouse.incarnation())
        issuer.answer.set()
        assert asking.result() == "token 2"


def test_a_failed_fetch_is_not_kept() -> None:
    """The next one tries again."""
    issuer = Issuer()
    issuer.fails = 1
    token = rouse.Token(issuer.fetch)
    with pytest.raises(ConnectionError):
        token.get()
    assert token.get() == "token 2"


def test_a_loop_shares_one_fetch_even_if_the_first_is_cancelled() -> None:
    """And an error reaches all of them."""
    issuer = Issuer()
    issuer.answer.clear()
    token = rouse.Token(issuer.fetch_async)

    async def asking() -> list[Any]:
        first = asyncio.ensure_future(token.get_async())
        others = [asyncio.ensure_future(token.get_async()) for _ in range(4)]
        await asyncio.to_thread(issuer.hears.wait, PATIENCE_SECONDS)
        first.cancel()
        await asyncio.wait([first])
        issuer.answer.set()
        return [first.cancelled(), *await asyncio.gather(*others, return_exceptions=True)]

    assert asyncio.run(asking()) == [True, *["token 1"] * 4]
    assert issuer.asked == 1
    token.forget()
    issuer.fails = 1
    issuer.answer.clear()
    issuer.hears.clear()
    cancelled, *errors = asyncio.run(asking())
    assert cancelled
    assert [type(error) for error in errors] == [ConnectionError] * 4
    assert issuer.asked == 2


@pytest.mark.filterwarnings("error")
def test_a_fetch_of_the_other_kind_is_told_how_to_ask() -> None:
    """And no coroutine is left that nobody waits for."""
    issuer = Issuer()
    with pytest.raises(TypeError, match=r"fetch_async.* is a coroutine function\nhint: await token.get_async()"):
        rouse.Token(issuer.fetch_async).get()
    with pytest.raises(TypeError, match=r"fetch .* is no coroutine function\nhint: call token.get()"):
        asyncio.run(rouse.Token(issuer.fetch).get_async())


def test_a_fetch_that_gives_no_pair_is_told_what_to_give() -> None:
    """Without a word of what it gave: that may be the token."""
    nothing: Any = lambda: "sesame"  # noqa: E731 - of the wrong kind
    with pytest.raises(TypeError, match=r"gave a str\nhint: return the token and for how many seconds") as raised:
        rouse.Token(nothing).get()
    assert "sesame" not in str(raised.value)
