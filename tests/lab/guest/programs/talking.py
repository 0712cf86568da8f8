"""How a program in a guest talks with its test: a line comes in, one line of JSON goes back."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def serve(answers: dict[str, Callable[..., Any]]) -> None:
    """Answer each line, a name with words behind it, by the function of that name; say `ready` first."""
    say("ready")
    for line in sys.stdin:
        name, *words = line.split()
        say(answers[name](*words))


def say(said: Any) -> None:
    """Say one thing."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
