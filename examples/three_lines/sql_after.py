"""Questions in words become SQL, which the database itself checks before anybody sees it."""

from __future__ import annotations

import sqlite3

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry
from torpor import App

SCHEMA = "CREATE TABLE events (id INTEGER PRIMARY KEY, at TEXT, level TEXT, text TEXT)"


class Query(BaseModel):
    """SQL, and what it does in words."""

    sql: str
    explanation: str


class Unclear(BaseModel):
    """What is missing to write SQL."""

    question: str


writer = Agent[None, Query | Unclear](
    "openai:gpt-5-mini",
    output_type=[Query, Unclear],
    instructions=f"Write one SELECT for SQLite. The schema: {SCHEMA}",
    retries=3,
)


@writer.output_validator
def plan(output: Query | Unclear) -> Query | Unclear:
    """Let the database plan the query; what it does not understand goes back to the model."""
    if isinstance(output, Unclear):
        return output
    if not output.sql.upper().startswith("SELECT"):
        raise ModelRetry("write a SELECT")
    database = sqlite3.connect(":memory:")
    try:
        database.execute(SCHEMA)
        database.execute(f"EXPLAIN QUERY PLAN {output.sql}")
    except sqlite3.Error as error:
        raise ModelRetry(f"SQLite says: {error}") from error
    finally:
        database.close()
    return output


app = App()
app.agent("sql", writer)
