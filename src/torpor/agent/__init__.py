"""A pydantic-ai agent made durable: one turn is one model answer and its tool calls."""
