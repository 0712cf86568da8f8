"""A client process of a case: it decides and delivers when it is told to, and says what came of it.

Each line on standard input is one thing to do, `{"do": "approve", "given": {...}}`; each line on standard output an answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from torpor import Client, TorporError


async def serve(url: str) -> None:
    """Do what is asked until there is nothing more."""
    async with Client.connect(url) as client:
        sys.stdout.write("{}\n")
        sys.stdout.flush()
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            sys.stdout.write(json.dumps(await done(client, asked["do"], asked["given"])) + "\n")
            sys.stdout.flush()
            if asked.get("die"):
                os.kill(os.getpid(), 9)  # it answered, and nothing more


async def done(client: Client, what: str, given: dict[str, Any]) -> dict[str, Any]:
    """Do one thing."""
    try:
        result = await getattr(client, what)(**given)
    except TorporError as error:
        return {"error": type(error).__name__, "message": error.message}
    return {"result": result}


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
