"""Opening a connection to PostgreSQL, and saying plainly what is wrong with one."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors

from torpor.errors import SchemaMismatch, StoreCorrupt, StoreError, StoreUnavailable, UsageError
from torpor.store.postgres.arrays import teach

type_of_row = tuple[Any, ...]
Connection = psycopg.Connection[type_of_row]

SCHEMA = "torpor"
RETRYABLE = (errors.DeadlockDetected, errors.SerializationFailure)
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_UNTOLD = {"connect_timeout": 10, "application_name": "torpor"}
_ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11000,
}
"""A cut network is noticed within some ten seconds, on both sides, instead of two hours."""
_PREPARED = 500
_SETTINGS = """SET plan_cache_mode TO force_generic_plan; SET enable_hashjoin TO off; SET enable_mergejoin TO off;
    SET enable_seqscan TO off; SET enable_bitmapscan TO off; SET jit TO off; SET client_min_messages TO warning;
    SET idle_in_transaction_session_timeout TO '15s'; SET tcp_keepalives_idle TO 5; SET tcp_keepalives_interval TO 2;
    SET tcp_keepalives_count TO 3"""
_MISSING = (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn, errors.InvalidSchemaName)
_MEANINGS: dict[str, tuple[str, str]] = {
    "53100": ("has no disk space left", "free some space; nothing acknowledged is lost"),
    "53300": ("has no connection left", "raise max_connections, or start fewer workers"),
    "25006": ("is read-only", "connect to the primary, not to a replica"),
    "3D000": ("does not exist", "createdb, then torpor migrate"),
    "28P01": ("refused the password", "check the URL"),
    "28000": ("refused this user", "check the URL and pg_hba.conf"),
    "42501": ("does not let this user do that", "grant it, or torpor migrate as the owner"),
}
_LATER = ("08", "53", "55", "57", "58", "28", "40")


class Place(NamedTuple):
    """Where a store lies: what libpq gets, the schema, and words for people (no password)."""

    conninfo: str
    schema: str
    words: str


def parse(url: str) -> Place:
    """Take `?schema=` out of a URL. Raises UsageError for a schema that would need quoting."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise UsageError(f"{schema!r} cannot be a schema's name", hint="lower case letters, digits and _, not pg_")
    told = {name: value for name, value in (_UNTOLD | _ALIVE).items() if name not in options}
    conninfo = urlunsplit(parts._replace(query=urlencode(options | {k: str(v) for k, v in told.items()})))
    place = parts.hostname or options.get("host", "")
    port = f":{parts.port}" if parts.port else ""
    words = f"postgresql {place}{port}/{unquote(parts.path.lstrip('/'))} schema {schema}"
    return Place(conninfo, schema, words)


def translate(error: psycopg.Error, where: str, *, answer_lost: bool = False) -> StoreError | None:
    """Return what an error of PostgreSQL means for a caller, or None: it is a defect, let it through.

    `answer_lost`: the connection broke after something that commits was sent, so nobody knows whether it happened.
    """
    if isinstance(error, _MISSING):
        return SchemaMismatch(
            f"there are no tables of this torpor in {where}: {error.diag.message_primary}", hint="torpor migrate"
        )
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return StoreCorrupt(f"{where} is damaged: {error}", hint="restore a backup, or fail over to a replica")
    state = error.sqlstate
    said, hint = _MEANINGS.get(state or "", ("cannot be reached", "is the server running? check the URL"))
    lost = state is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if not (lost or state in _MEANINGS or (state or "")[:2] in _LATER):
        return None
    if state is not None and state not in _MEANINGS:
        said = "cannot do it now"
    meaning = StoreUnavailable(f"{where} {said}: {str(error).strip()}", hint=hint)
    meaning.answer_lost = answer_lost
    return meaning


def connect(place: Place) -> Connection:
    """Open a connection for one lane. Raises StoreUnavailable.

    Every plan is made once, for any parameters, and walks indexes in loops: the tables differ in size by orders, and a
    plan made while one was empty must not be the plan when it is full. A process that is frozen inside a transaction
    loses it well before its leases end, so that its locks do not outlive them.
    """
    connection: Connection | None = None
    try:
        connection = psycopg.connect(place.conninfo, autocommit=True, prepare_threshold=0)
        connection.prepared_max = _PREPARED
        teach(connection)
        connection.execute(f"SET search_path TO {place.schema}; {_SETTINGS}", prepare=False)
    except psycopg.Error as error:
        if connection is not None:
            connection.close()
        meaning = translate(error, place.words)
        if meaning is None:
            raise
        raise meaning from error
    return connection
