"""What a process of a case says to the test: every call is counted there, and answered when the test wants it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

PORT = "TORPOR_CASES_PORT"
"""The environment variable with the port that `outside.Outside` listens on."""


def tell(name: str, **said: Any) -> Any:
    """Say that something happens, and return the test's answer; blocks the thread until it comes."""
    with connected(name, **said) as line, line.makefile("rb") as answers:
        return _answer(answers.readline())


def connected(name: str, **said: Any) -> socket.socket:
    """Say it, and return the line on which the answer will come."""
    line = socket.create_connection(("127.0.0.1", int(os.environ[PORT])))
    line.sendall(_line(name, said))
    return line


async def tell_softly(name: str, **said: Any) -> Any:
    """Do the same without blocking the loop."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[PORT]))
    try:
        writer.write(_line(name, said))
        return _answer(await reader.readline())
    finally:
        writer.close()


def _line(name: str, said: dict[str, Any]) -> bytes:
    return json.dumps({"name": name, "pid": os.getpid(), **said}).encode() + b"\n"


def _answer(line: bytes) -> Any:
    if not line:
        raise ConnectionResetError("the outside world hung up")
    return json.loads(line)
