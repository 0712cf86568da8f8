"""A model that writes down each time it is asked, whichever process asks: one line in one file, before it answers."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic_ai.models.wrapper import WrapperModel

from torpor.demo.agent.errand import Request
from torpor.testing.asked import asked_of, digest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings


class Counted(WrapperModel):
    """A model whose requests are counted in a file."""

    def __init__(self, wrapped: Model | str, place: Path) -> None:
        """Count what is asked of a model in the file `place`, after what is there."""
        super().__init__(wrapped)
        self._place = place

    def _count(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        asked = asked_of(messages, parameters)
        line = asdict(Request(digest(list(asked.messages)), len(asked.messages), os.getpid()))
        place = os.open(self._place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(place, (json.dumps(line) + "\n").encode())
        finally:
            os.close(place)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Count, and ask."""
        self._count(messages, model_request_parameters)
        return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncIterator[StreamedResponse]:
        """Count, and ask."""
        self._count(messages, model_request_parameters)
        async with super().request_stream(messages, model_settings, model_request_parameters, run_context) as stream:
            yield stream
