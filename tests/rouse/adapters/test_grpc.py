"""grpc, against its own server. A channel is replaced, not mended."""

from __future__ import annotations

import importlib
import threading
from concurrent import futures
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.adapters import trials
from tests.rouse.adapters.wires import Wire
from tests.rouse.copying import in_copy, raw_clone
from torpor import rouse
from torpor.rouse.adapters.grpc import renewed

SOON_SECONDS = 0.5


def serve(grpc: Any) -> tuple[Any, int]:
    """A server with one method that answers `ok`."""
    method = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"ok")
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.B", {"Ask": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, int(port)


def ask(channel: Any, seconds: float) -> str:
    """One call; its answer or the name of its status."""
    try:
        return str(channel.unary_unary("/a.B/Ask")(b"", timeout=seconds).decode())
    except Exception as error:  # noqa: BLE001 - which error is the question
        return str(error.code().name) if hasattr(error, "code") else repr(error)


def trial() -> trials.Report:
    """Runs in a process of its own."""
    grpc: Any = importlib.import_module("grpc")

    _server, port = serve(grpc)
    with Wire(port) as wire:
        plain = grpc.insecure_channel(f"127.0.0.1:{wire.port}")
        ask(plain, PATIENCE_SECONDS)
        wire.deafen()
        bare = ask(plain, SOON_SECONDS)

        channels = renewed(
            lambda: grpc.insecure_channel(f"127.0.0.1:{wire.port}", [("grpc.use_local_subchannel_pool", 1)])
        )
        rouse.adapt()
        ask(channels.get(), PATIENCE_SECONDS)
        before = wire.deafen()
        in_flight: list[str] = []
        thread = threading.Thread(target=lambda: in_flight.append(ask(channels.get(), PATIENCE_SECONDS)))
        thread.start()
        wire.await_more_than(before)
        trials.wake()
        thread.join()
        cured = ask(channels.get(), PATIENCE_SECONDS)

        copy = in_copy(lambda: {"kept": _in_a_copy(channels)}, raw_clone)
        before = wire.said()
        trials.wake()
        renewed_again = ask(channels.get(), PATIENCE_SECONDS)
        spoke = trials.grown(before, wire.said())
        return {
            "idle_spoke": spoke,
            "again": renewed_again,
            "bare": bare,
            "in_flight": in_flight[0],
            "cured": cured,
            "copy": copy["kept"],
        } | {"ours_still_works": ask(channels.get(), PATIENCE_SECONDS)}


def _in_a_copy(channels: Any) -> bool:
    """In a copy the old channel is not touched, and forgotten. No channel works there, old or new: the core has no threads."""
    trials.wake(rouse.Kind.COPIED)
    return not channels.let_go()


@pytest.mark.slow
def test_a_sleep() -> None:
    """The old channel waits for a peer that is gone; the new one works, and who waited on the old one is told."""
    told = trials.report("test_grpc")
    assert told == {
        "idle_spoke": False, "again": "ok",
        "bare": "DEADLINE_EXCEEDED", "in_flight": "CANCELLED", "cured": "ok", "copy": True, "ours_still_works": "ok"
    }  # fmt: skip
