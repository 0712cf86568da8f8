"""An agent whose provider the environment names: real HTTP, streamed word by word."""

from __future__ import annotations

import os

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from torpor import App

URL = "TORPOR_CASES_PROVIDER"
"""The environment variable with the provider's base URL."""
app = App()
client = AsyncOpenAI(base_url=os.environ[URL], api_key="sk-test", max_retries=0)
app.agent("answers", Agent(OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(openai_client=client))))
