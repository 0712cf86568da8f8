"""Put a client through a copy of its process and a sleep of its machine, without its adapter and with it.

A trial runs in a process of its own: it is copied past the at-fork hooks, and a rousal drops every connection it has.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.patience import PATIENCE_SECONDS
from tests.rouse.adapters.unadapting import unadapt
from tests.rouse.copying import in_copy, raw_clone
from torpor import rouse

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rouse.adapters.wires import Wire

Report = dict[str, Any]
room: Any = importlib.import_module("torpor.rouse.incarnation")  # `rouse.incarnation` is the function

watcher = rouse.Watcher(rouse.Limits(tick_seconds=3600.0))

SOON_SECONDS = 0.2
"""After how long a client that hangs gives up where the trial shows that it hangs."""


@cache
def report(module: str, *arguments: str) -> Report:
    """Run `module.trial(*arguments)` in a fresh process; what it returns."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rouse.adapters.trials", module, *arguments],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def wake(kind: rouse.Kind = rouse.Kind.SLEPT) -> None:
    """A copy is found by a watcher; a sleep is a rousal made by hand, which is what a watcher does when it found one."""
    if kind is rouse.Kind.COPIED:
        found = watcher.check()
        assert found is not None
        assert found.kind is kind
        return
    before = rouse.incarnation()
    rouse.process_registry.tell(rouse.Rousal(kind, 3600.0, ("by hand",), before, room.end(before), noticed_at=0))


class Client(ABC):
    """One client of one library, connected to a wire."""

    @abstractmethod
    def use(self, seconds: float = PATIENCE_SECONDS) -> object:
        """One request and its answer; raises after `seconds` without one."""

    @abstractmethod
    def close(self) -> None:
        """Say goodbye as the library does."""

    def use_and_wake_meanwhile(self, asked: Callable[[], None]) -> str:
        """Wake while a request is on its way (`asked` waits for that); how the request ended."""
        ended: list[str] = []
        thread = threading.Thread(target=lambda: ended.append(attempt(self.use)), daemon=True)
        thread.start()
        asked()
        wake()
        thread.join(PATIENCE_SECONDS / 2)
        return ended[0] if ended else "hung"


class AsyncClient(Client):
    """The same in a loop."""

    def __init__(self) -> None:
        """One loop for all its life, as in a server."""
        self.loop = asyncio.new_event_loop()

    @abstractmethod
    async def use_async(self, seconds: float) -> object:
        """One request and its answer."""

    def use(self, seconds: float = PATIENCE_SECONDS) -> object:
        """Run the loop for one request. One that takes longer is left behind: cancelling may hang just as long."""

        async def for_so_long() -> object:
            using = asyncio.ensure_future(self.use_async(seconds))
            done, _ = await asyncio.wait([using], timeout=seconds)
            if not done:
                raise TimeoutError
            return using.result()

        return self.run(for_so_long())

    def run(self, awaitable: Any) -> Any:
        """Run the loop until this is done."""

        async def it() -> Any:
            return await awaitable

        return self.loop.run_until_complete(it())

    def use_and_wake_meanwhile(self, asked: Callable[[], None]) -> str:
        """As in the base."""

        async def both() -> str:
            using = asyncio.ensure_future(self.use_async(PATIENCE_SECONDS))
            await asyncio.to_thread(asked)
            wake()
            done, _ = await asyncio.wait([using], timeout=PATIENCE_SECONDS / 2)
            return "hung" if not done else str(using.exception() or using.result())

        return str(self.run(both()))


def attempt(use: Callable[[], object]) -> str:
    """What came back, or the error."""
    try:
        return str(use())
    except Exception as error:  # noqa: BLE001 - which error is the question
        return repr(error)


def grown(before: list[bytes], now: list[bytes]) -> bool:
    """Whether more was said on a connection that was there before."""
    return any(len(old) < len(new) for old, new in zip(before, now, strict=False))


def copied(client: Client, wire: Wire) -> Report:
    """Copy the process: the copy uses the client without an adapter, then another copy with it."""
    client.use()
    before = wire.said()
    bare = in_copy(lambda: {"use": attempt(client.use)}, raw_clone)["use"]
    bare_grown = grown(before, wire.said())
    ours_after_bare = attempt(client.use)
    client.use()
    before, known = wire.said(), wire.connections
    hung_up = [line.hung_up for line in wire.lines]

    def cured() -> Report:
        wake(rouse.Kind.COPIED)
        first = attempt(client.use)
        client.close()
        return {"use": first}

    rouse.adapt()
    answer = in_copy(cured, raw_clone)
    after, opened = wire.said(), wire.connections - known
    return {
        "bare": bare,
        "bare_spoke_on_ours": bare_grown,
        "ours_after_bare": ours_after_bare,
        "cured": answer.get("use", answer),
        "cured_spoke_on_ours": grown(before, after),
        "cured_opened": opened > 0,
        "ours_hung_up": hung_up != [line.hung_up for line in wire.lines[:known]],
        "ours_still_works": attempt(client.use),
        "ours_reopened": wire.connections - known - opened,
    }


def slept(client: Client, wire: Wire) -> Report:
    """The peer is gone and did not say so. Without an adapter (call it before `copied`), then with it, then in flight."""
    client.use()
    wire.deafen()
    bare = attempt(lambda: client.use(SOON_SECONDS))
    attempt(client.use)  # some libraries need one failure more
    client.use()
    rouse.adapt()
    before = wire.deafen()
    wake()
    cured = attempt(client.use)
    idle_grown = grown(before, wire.said())
    client.use()
    before = wire.deafen()
    in_flight = client.use_and_wake_meanwhile(lambda: wire.await_more_than(before))
    before = wire.said()[: len(before)]
    afterwards = attempt(client.use)
    return {
        "bare": bare,
        "cured": cured,
        "spoke_on_old": idle_grown,
        "in_flight": in_flight,
        "afterwards": afterwards,
        "spoke_on_old_in_flight": grown(before, wire.said()),
    }


def both(make: Callable[[int], Client], wire: Wire) -> Report:
    """The two trials, each with a client of its own."""
    client = make(wire.port)
    sleeping = slept(client, wire)
    unadapt()
    return {"slept": sleeping, "copied": copied(make(wire.port), wire)}


def main() -> None:
    """`python -m tests.rouse.adapters.trials MODULE ARGUMENTS`. Ends without goodbyes."""
    warnings.simplefilter("ignore", ResourceWarning)
    module, *arguments = sys.argv[1:]
    answer = importlib.import_module(f"tests.rouse.adapters.{module}").trial(*arguments)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
