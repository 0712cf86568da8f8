"""A model on tape: `Agent(Cassette("tea.jsonl"))` answers as a real model did when the tape was recorded.

    Cassette("tea.jsonl", "openai:gpt-5-mini")    asks the model and records each answer with its request
    Cassette("tea.jsonl")                         replays: no key, no network

**Which answer.** The one to an equal request, by content, never the next one in line: a run that was killed and taken over
asks again what it had asked, from another process, and must be told the same. If an equal request was recorded several
times, the last answer counts: after a kill between an answer and its record a run goes on with the later one, and only
that one's questions are on the tape. `testing.asked` says what makes two requests equal, `testing.tape` how a tape looks.

A request that is not on the tape is a mistake, and is explained: which recorded one is nearest, and where it first differs.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel

from torpor.errors import UsageError
from torpor.testing.asked import asked_of, cut, in_words
from torpor.testing.tape import Recorder, load
from torpor.testing.telling import Telling, part_events, pieces_of

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import KnownModelName, ModelRequestParameters, StreamedResponse
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings

    from torpor.testing.asked import Asked
    from torpor.testing.tape import Exchange, Tape

DIFFERENCE_LETTERS = 300


class Cassette(WrapperModel):
    """A model that records another one, or replays what was recorded. See the top of this file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: Model | KnownModelName | str | None = None,
        *,
        note: str = "",
        strict: bool = True,
    ) -> None:
        """Replay the tape at `path`, or record to it what `model` answers. `note` is written into a new tape's first line.

        With `strict=False` a request is found by its messages alone: instructions and tools may be others than were
        recorded. Raises UsageError: there is no tape to replay, or it is broken, or of another version.
        """
        place = Path(path).absolute()
        self._recorder: Recorder | None = None
        super().__init__(model if model is not None else Replaying(load(place), strict=strict))
        if model is not None:
            name = f"{self.wrapped.system}:{self.wrapped.model_name}"
            self._recorder = Recorder(place, model=name, profile=_plain(self.wrapped), note=note)

    @property
    def records(self) -> bool:
        """Whether a real model is asked, and recorded."""
        return self._recorder is not None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the answer, asked for now or replayed. Raises UsageError for a request that is not on the tape."""
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        await self._record(messages, model_request_parameters, response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        """Stream the answer. It is recorded once it is whole. Raises as `request`."""
        async with self.wrapped.request_stream(
            messages, model_settings, model_request_parameters, run_context
        ) as stream:
            yield stream
            response = stream.get()
        if response.state == "complete":
            await self._record(messages, model_request_parameters, response)

    async def _record(
        self, messages: list[ModelMessage], parameters: ModelRequestParameters, response: ModelResponse
    ) -> None:
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.record, asked_of(messages, parameters), response)


class Replaying(Model):
    """The model that a tape stands for."""

    def __init__(self, tape: Tape, *, strict: bool = True) -> None:
        """Answer from a tape."""
        super().__init__(profile=cast("ModelProfile", tape.profile))
        self.tape = tape
        self._strict = strict

    @property
    def system(self) -> str:
        """The provider that answered."""
        return self.tape.model.partition(":")[0]

    @property
    def model_name(self) -> str:
        """The model that answered."""
        return self.tape.model.partition(":")[2]

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the recorded answer. Raises UsageError."""
        del model_settings
        return self._answer(messages, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        """Tell the recorded answer, texts word by word. Raises UsageError."""
        del model_settings, run_context
        response = self._answer(messages, model_request_parameters)
        parts = enumerate(response.parts)
        steps = [event for place, part in parts for event in part_events(place, part, pieces_of(part, by_word=True))]
        yield Telling(response, steps, model_request_parameters)

    def _answer(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> ModelResponse:
        asked = asked_of(messages, parameters)
        found = self.tape.find(asked, strict=self._strict)
        if found is not None:
            return found.answer
        place = self.tape.path
        raise UsageError(
            f"the request is not on the tape {place}: {difference(self.tape, asked)}",
            hint=f'record it: Cassette("{place.name}", MODEL) asks a model and adds its answers to the tape',
        )


def _plain(model: Model) -> dict[str, Any]:
    """Return what is simple of a model's profile: switches and numbers."""
    try:
        profile: Mapping[str, Any] = model.profile
    except Exception:  # noqa: BLE001 - a model of several has none of its own, and says so in its own way
        return {}
    return {name: value for name, value in profile.items() if isinstance(value, bool | int)}


# What is said of a request that is not there -------------------------------------------------------------------------
def difference(tape: Tape, asked: Asked) -> str:
    """Return in words which recorded request is nearest to one that is not on the tape, and where they first differ."""
    if not tape.exchanges:
        return "nothing is recorded on it"
    nearest = max(tape.exchanges, key=lambda one: (_alike(one, asked), one.messages == asked.messages, one.line))
    alike = _alike(nearest, asked)
    where = f"the nearest one is line {nearest.line}"
    if alike == len(nearest.messages) == len(asked.messages):
        return (
            f"{where}, whose messages are equal, but {_other_offer(tape.offers.get(nearest.offered, {}), asked.offer)}"
        )
    if alike == len(nearest.messages):
        return f"{where}, and goes on after it with {_newest(asked, alike)}"
    recorded = _message(tape, nearest, alike)
    if alike == len(asked.messages):
        return f"{where}, which goes on with {recorded}"
    return (
        f"{where}, and message {alike + 1} differs first:\n  recorded: {recorded}\n  asked:    {_newest(asked, alike)}"
    )


def _alike(one: Exchange, asked: Asked) -> int:
    """Return how many messages are equal from the beginning."""
    alike = 0
    for mine, other in zip(one.messages, asked.messages, strict=False):
        if mine != other:
            break
        alike += 1
    return alike


def _newest(asked: Asked, place: int) -> str:
    if place == len(asked.messages) - 1:
        return _shown(asked.newest)
    return f"{len(asked.messages) - place} messages, the last of them {_shown(asked.newest)}"


def _message(tape: Tape, nearest: Exchange, place: int) -> str:
    """Return a recorded message in words: it was the newest of some request, or the answer to one."""
    for one in tape.exchanges:
        if one.messages == nearest.messages[: place + 1]:
            return _shown(one.asked)
        if one.messages == nearest.messages[:place]:
            return _shown(tuple(in_words(_simple(part)) for part in one.answer.parts))
    return "what is on the tape as a digest only"


def _simple(part: Any) -> dict[str, Any]:
    return {name: getattr(part, name, "") for name in ("part_kind", "tool_name", "content", "args")}


def _shown(lines: tuple[str, ...]) -> str:
    return cut(" | ".join(lines), DIFFERENCE_LETTERS)


def _other_offer(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return what the model was offered that it is not offered now, or otherwise."""
    if recorded.get("instructions") != asked["instructions"]:
        return (
            f"the instructions differ:\n  recorded: {cut(str(recorded.get('instructions')), DIFFERENCE_LETTERS)}\n"
            f"  asked:    {cut(asked['instructions'], DIFFERENCE_LETTERS)}"
        )
    before, now = recorded.get("tools", {}), asked["tools"]
    words = [f"tool {name} is gone" for name in before if name not in now]
    words += [f"tool {name} is new" for name in now if name not in before]
    words += [f"tool {name} is declared otherwise" for name in now if name in before and now[name] != before[name]]
    return ", ".join(words) or "the form of the answer differs"
