"""What OpenAI refuses in the messages of a request, in its own words: each call has one result, right after it."""

from __future__ import annotations

from typing import Any


def refusal(messages: list[dict[str, Any]]) -> str | None:
    """Return the message of the 400 that these messages deserve; None if they are in order."""
    number = 0
    while number < len(messages):
        message = messages[number]
        if message["role"] == "tool":
            return "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        number += 1
        called = [call["id"] for call in message.get("tool_calls") or ()]
        if not called:
            continue
        if "" in called:
            return (
                f"Invalid 'messages[{number - 1}].tool_calls[{called.index('')}].id': empty string. "
                "Expected a string with minimum length 1, but got an empty string instead."
            )
        answered = []
        while number < len(messages) and messages[number]["role"] == "tool":
            answered.append(messages[number]["tool_call_id"])
            number += 1
        for name in dict.fromkeys([*called, *answered]):
            if called.count(name) > 1 or answered.count(name) > 1:
                return f"Duplicate value for 'tool_call_id' of '{name}' in message[{number - 1}]"
        if missing := [name for name in called if name not in answered]:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}"
            )
        if strange := [name for name in answered if name not in called]:
            return f"Invalid parameter: 'tool_call_id' of '{strange[0]}' not found in 'tool_calls' of previous message."
    return None
