"""Asks a server for something it never answers. With `--rouse` under its care.

`reads.py HOST PORT [--rouse]`; `waited` says how the read ended and after how many seconds by the monotonic clock since the
line came in.
"""

from __future__ import annotations

import http.client
import sys
import threading
import time

from talking import serve  # type: ignore[import-not-found] # beside it in the guest

from torpor import rouse

connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
ended = threading.Event()
how: list[str] = []


def read() -> None:
    """Wait for the answer."""
    try:
        how.append(f"answered {connection.getresponse().status}")
    except (OSError, http.client.HTTPException) as error:
        how.append(type(error).__name__)
    ended.set()


def waited(seconds: str) -> list[object]:
    """Wait for the end of the read."""
    began = time.monotonic()
    ended.wait(float(seconds))
    return [how[0] if how else None, time.monotonic() - began]


def again() -> int:
    """Ask once more, over a new connection."""
    connection.close()
    connection.request("GET", "/at-once")
    return connection.getresponse().status


if "--rouse" in sys.argv:
    rouse.adapt()
    rouse.watch()
connection.request("GET", "/never")
threading.Thread(target=read, daemon=True).start()
serve({"waited": waited, "again": again})
