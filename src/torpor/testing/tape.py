"""A tape: the file of a cassette, for people to read, diff and keep beside their tests.

JSON lines. The first says what it is; then comes a line for each thing that the model was offered (instructions, tools),
written when it is offered first; and one for each exchange:

    {"cassette": 1, "model": "openai:gpt-5-mini", "note": "..."}
    {"offer": "5f0c...", "instructions": "Be brief.", "tools": {"price": {...}}, "output": {...}}
    {"asked": ["user: What does tea cost?"], "offer": "5f0c...", "messages": ["a41e..."], "answer": {...}}

`messages` are digests, one for each message that was sent; `asked` is the newest of them, in words; `answer` is
pydantic-ai's own JSON, with usage, the model's name, and the version that wrote it.

Any number of processes may write one tape. Each line is written whole, under the file's lock; what a writer that was
killed left of a line is cut off by the next one.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelResponse

from torpor.agent.transcript import read, stored
from torpor.errors import StoreError, UsageError
from torpor.testing.asked import struck

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torpor.testing.asked import Asked

VERSION = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request that was answered. `line` is its place in the file, from 1."""

    line: int
    asked: tuple[str, ...]
    offered: str
    messages: tuple[str, ...]
    answer: ModelResponse


@dataclass(slots=True)
class Tape:
    """What is on a tape."""

    path: Path
    model: str = ""
    """The model that answered, `provider:name`."""
    profile: dict[str, Any] = field(default_factory=dict)
    """What pydantic-ai knows of that model: by this it decides how messages are sent."""
    note: str = ""
    offers: dict[str, dict[str, Any]] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    _known: dict[tuple[str, ...], Exchange] = field(default_factory=dict)
    _said: dict[tuple[str, ...], Exchange] = field(default_factory=dict)

    def find(self, asked: Asked, *, strict: bool = True) -> Exchange | None:
        """Return the exchange with an equal request; the last one, if it was recorded several times.

        If not `strict`, equal messages do, whatever the model is offered.
        """
        found = self._known.get((asked.offered, *asked.messages))
        return found if found is not None or strict else self._said.get(asked.messages)

    def add(self, number: int, line: dict[str, Any]) -> None:
        """Take in a line. Raises UsageError for what is none."""
        try:
            if "cassette" in line:
                self._begin(line)
            elif "answer" in line:
                answer = read(line["answer"])
                if not isinstance(answer, ModelResponse):
                    raise UsageError("its answer is a request")
                one = Exchange(number, tuple(line["asked"]), line["offer"], tuple(line["messages"]), answer)
                self.exchanges.append(one)
                self._known[one.offered, *one.messages] = self._said[one.messages] = one
            else:
                self.offers[line["offer"]] = {name: value for name, value in line.items() if name != "offer"}
        except (KeyError, TypeError, StoreError, UsageError) as error:
            said = getattr(error, "message", "") or f"{type(error).__name__}: {error}"
            raise UsageError(f"line {number} of {self.path} is broken: {said}", hint=_MEND) from error

    def _begin(self, line: Mapping[str, Any]) -> None:
        if line["cassette"] != VERSION:
            raise UsageError(f"it is of version {line['cassette']}, and this torpor reads version {VERSION}")
        self.model = line.get("model", "")
        self.profile = line.get("profile", {})
        self.note = line.get("note", "")


_MEND = "take the line out, or record the tape again: delete the file and give Cassette a model"


def load(path: Path) -> Tape:
    """Return what is on a tape. Raises UsageError: there is none, it is no tape, of another version, or broken."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # whoever writes a line is waited for
            content = file.read()
    except OSError as error:
        raise UsageError(
            f"there is no tape to replay at {path}: {error.strerror}",
            hint=f'record one: Cassette("{path.name}", "openai:gpt-5-mini")',
        ) from error
    tape = Tape(path)
    for number, line in _lines(path, content):
        tape.add(number, line)
    return tape


def _lines(path: Path, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in enumerate(content.split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError as error:
            raise UsageError(f"line {number} of {path} is broken: no JSON ({error})", hint=_MEND) from error
        if not isinstance(line, dict) or ("cassette" in line) != (number == 1):
            where = "its first line is" if number == 1 else f"line {number} is"
            raise UsageError(
                f"{path} is no tape of a cassette: {where} {text[:80].decode('utf-8', 'replace')}", hint=_MEND
            )
        yield number, line


class Recorder:
    """Writes exchanges to a tape, beside other processes that do."""

    def __init__(self, path: Path, *, model: str, profile: Mapping[str, Any], note: str) -> None:
        """Write nothing yet. `model`, `profile` and `note` go into the first line of a new tape."""
        self._path = path
        self._first = {"cassette": VERSION, "model": model, "note": note, "profile": dict(profile)}
        self._offers: set[str] = set()
        self._read = (0, 0)
        """The file and how far it is known."""

    def record(self, asked: Asked, answer: ModelResponse) -> None:
        """Write an exchange, without any secret that was resolved here. Blocking. Raises UsageError if it cannot be written."""
        tree = struck(stored(answer))
        if (url := tree.get("provider_url")) is not None:
            tree["provider_url"] = _without_login(url)
        exchange = {
            "asked": list(asked.newest),
            "offer": asked.offered,
            "messages": list(asked.messages),
            "answer": tree,
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                lines = self._catch_up(file.fileno())
                if asked.offered not in self._offers:
                    lines.append({"offer": asked.offered, **asked.offer})
                self._write(file.fileno(), [*lines, exchange])
                self._offers.add(asked.offered)
        except OSError as error:
            raise UsageError(f"the tape {self._path} cannot be written: {error.strerror}") from error

    def _catch_up(self, file: int) -> list[dict[str, Any]]:
        """Learn what others have written, cut off half a line, and return the first line if the tape is new."""
        there = os.fstat(file)
        if there.st_ino != self._read[0] or there.st_size < self._read[1]:
            self._offers, self._read = set(), (there.st_ino, 0)
        begin = self._read[1]
        content = os.pread(file, there.st_size - begin, begin)
        whole = content.rpartition(b"\n")[0] + b"\n" if b"\n" in content else b""
        if len(whole) < len(content):
            os.ftruncate(file, begin + len(whole))
        for number, line in _lines(self._path, whole if begin == 0 else b"\n" + whole):
            if begin == 0 and number == 1 and line["cassette"] != VERSION:
                Tape(self._path).add(number, line)  # which says why not
            if "offer" in line and "answer" not in line:
                self._offers.add(line["offer"])
        self._read = (there.st_ino, begin + len(whole))
        return [] if self._read[1] else [self._first]

    def _write(self, file: int, lines: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        written = 0
        while written < len(text):
            written += os.write(file, text[written:])
        self._read = (self._read[0], self._read[1] + len(text))


def _without_login(url: str) -> str:
    """Return a URL without what may open a door: the login before the host, the query behind the path."""
    scheme, found, rest = url.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}{found}{host.rpartition('@')[2]}{slash}{path}" if found else ""
