"""What every command can be told, and how texts on the command line become values."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from torpor import clock
from torpor.errors import UsageError

if TYPE_CHECKING:
    from torpor.settings import Settings

DEFAULT_STORE: Final = "sqlite:///torpor.db"

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="TORPOR_STORE",
        show_default=False,
        help="sqlite:///FILE or postgresql://... [sqlite:///torpor.db]",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]
By = Annotated[
    str | None, typer.Option("--by", envvar="TORPOR_BY", show_default=False, help="Who decides. [your login]")
]


def store_url(given: str | None) -> str:
    """Return the store's address: the option, TORPOR_STORE, a `.env` file, or a file here."""
    if given:
        return given
    return settings().store if Path(".env").is_file() else DEFAULT_STORE


def settings() -> Settings:
    """Return what the environment and a `.env` file say. Raises UsageError for what makes no sense."""
    from pydantic import ValidationError

    from torpor.settings import Settings

    try:
        return Settings()
    except ValidationError as error:
        wrong = error.errors()[0]
        name = f"TORPOR_{'_'.join(str(part) for part in wrong['loc'])}".upper()
        message = f"{name}={wrong['input']} makes no sense: {wrong['msg'].lower()}"
        raise UsageError(message, hint=f"unset {name}, or mend it there or in .env") from error


def decider(given: str | None) -> str:
    """Return who decides: the option, TORPOR_BY, or the login name."""
    if given:
        return given
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def value_of(text: str | None, what: str) -> Any:
    """Return the value of a JSON text, of a file (`@input.json`) or of standard input (`-`). Raises UsageError."""
    if text is None:
        return None
    source = "standard input" if text == "-" else text[1:] if text.startswith("@") else what
    content = text_of(text)
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        shown = content if len(content) <= 60 else f"{content[:60]}..."  # noqa: PLR2004 - enough to recognise it
        word = text == content and text[:1] not in {"{", "[", '"'}
        hint = f"a text needs its quotes: '{json.dumps(text)}'" if word else "compare its brackets, quotes and commas"
        if not content.strip():
            hint = "nothing is there; a value is needed: null, 4, '\"Ana\"'"
        raise UsageError(f"{source} is not JSON: {error.msg} at {place}: {shown}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise beyond(source, error) from error


def beyond(source: str, error: Exception) -> UsageError:
    """Return what to say of JSON that is well formed and still more than Python reads."""
    if isinstance(error, RecursionError):
        return UsageError(
            f"{source} is nested too deeply", hint="flatten it, for example into a list with parent indexes"
        )
    return UsageError(f"{source} has a number with more digits than can be read", hint="write it as a text, in quotes")


def text_of(text: str) -> str:
    """Return a text, that of a file (`@note.txt`), or of standard input (`-`). Raises UsageError."""
    if text == "-":
        return sys.stdin.read()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "@FILE reads JSON from a file, - from a pipe"
        raise UsageError(f"{text[1:]} cannot be read: {error}", hint=hint) from error


_AFTER = re.compile(r"\+(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment_of(text: str | None) -> datetime | None:
    """Return the moment of an ISO 8601 text (without a zone: this machine's) or of `+90s`, `+10m`, `+2h`, `+3d` from now."""
    if text is None:
        return None
    after = _AFTER.fullmatch(text)
    try:
        if after is not None:
            return clock.as_datetime(clock.wall()) + timedelta(**{_UNITS[after[2]]: float(after[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--at {text} is no moment", hint="2026-12-24T18:00, 2026-12-24T18:00+01:00, or +10m"
        ) from error


def deadline_of(text: str | None) -> datetime | timedelta | None:
    """Return a deadline: so long after the start (`90s`, `10m`, `2h`, `3d`), or a moment. Raises UsageError."""
    if text is None:
        return None
    after = _AFTER.fullmatch(f"+{text.removeprefix('+')}")
    try:
        if after is not None:
            return timedelta(**{_UNITS[after[2]]: float(after[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--deadline {text} is no time", hint="2h, 30m, or 2026-12-24T18:00") from error
