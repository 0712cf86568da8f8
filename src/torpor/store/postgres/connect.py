"""Opening a connection to PostgreSQL, and saying plainly what is wrong with one.

Between torpor and the server may stand a pooler that gives every transaction another of the server's connections
(PgBouncer in transaction mode). Then nothing may be left in a connection and nothing is found there again: what a
transaction needs travels with it (`Opened.carried`), nothing is prepared under a name, there is no LISTEN and no lock
that outlives a transaction. A pooler is found out without being asked: it gives its clients a key of its own to cancel
with, so the process that this key names is not the one that answers. Whether it works by session or by transaction
cannot be seen for sure, so by transaction is believed, which is right for both, unless the URL says `pooler=session`.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors

from torpor.errors import SchemaMismatch, StoreCorrupt, StoreError, StoreUnavailable, UsageError
from torpor.store.postgres.arrays import teach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.abc import PQGen

type_of_row = tuple[Any, ...]
Connection = psycopg.Connection[type_of_row]


class Synced(psycopg.Pipeline):
    """A pipeline whose last message is its Sync.

    PostgreSQL counts how long a transaction is idle from a Sync on, and any message after that stops the count for good
    (`PostgresMain`). psycopg asks for a Flush after the Sync of a pipeline that ends, so the server never ended a transaction
    that one had left open: whoever was frozen in it kept its locks. The Sync has flushed already.
    """

    def _exit_gen(self) -> PQGen[None]:
        try:
            self._enqueue_sync()
            yield from self._communicate_gen()
        finally:
            yield from self._fetch_gen(flush=False)


class Own(psycopg.Connection[type_of_row]):
    """A connection of torpor's own. It is used again, or not, by rules of its own: a life lock's is never opened anew."""

    rouse_leaves_alone = True

    @contextmanager
    def pipeline(self) -> Iterator[psycopg.Pipeline]:
        """Switch into pipeline mode; what is left open is idle from then on, and the server says for how long it may be."""
        if self._pipeline is None:
            self._pipeline = Synced(self)
        with super().pipeline() as pipeline:
            yield pipeline


SCHEMA = "torpor"
RETRYABLE = (errors.DeadlockDetected, errors.SerializationFailure)
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_UNTOLD = {"connect_timeout": 10, "application_name": "torpor"}
_IN_ENVIRONMENT = {"connect_timeout": "PGCONNECT_TIMEOUT", "application_name": "PGAPPNAME"}
"""Where libpq itself looks for what a URL does not say."""
_ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11000,
}
"""A cut network is noticed within some ten seconds, on both sides, instead of two hours."""
_PREPARED = 500
_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "client_min_messages": "warning",
    "idle_in_transaction_session_timeout": "15s",
}
_OF_A_CONNECTION = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
_POOLERS = frozenset({"", "session", "transaction"})
_REFUSED_BY_POOLER = "unsupported startup parameter"
_MISSING = (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedColumn, errors.InvalidSchemaName)
_MEANINGS: dict[str, tuple[str, str]] = {
    "53100": ("has no disk space left", "free some space; nothing acknowledged is lost"),
    "53300": ("has no connection left", "raise max_connections, or start fewer workers"),
    "25006": ("is read-only", "connect to the primary, not to a replica"),
    "25P03": (
        "ended a transaction in which this process was silent",
        "nothing of it was committed; was this process frozen?",
    ),
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
    pooler: str = ""
    """What stands before the server by the URL: `session`, `transaction`, or empty: find out."""
    durable: bool = True


class Opened(NamedTuple):
    """A connection, and what each transaction on it has to bring along: nothing, or the settings behind a pooler."""

    connection: Connection
    carried: tuple[tuple[str, None], ...]


def parse(url: str) -> Place:
    """Take `?schema=` and `?pooler=` out of a URL.

    Raises UsageError for what is no URL, a schema that would need quoting, and a pooler's mode that is none.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise UsageError(f"the store's URL cannot be read: {error}", hint="postgresql://USER@HOST:5432/NAME") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise UsageError(f"{schema!r} cannot be a schema's name", hint="lower case letters, digits and _, not pg_")
    pooler = options.pop("pooler", "")
    if pooler not in _POOLERS:
        raise UsageError(f"pooler={pooler} is no way to share connections", hint="pooler=transaction or pooler=session")
    said = {*options, *(name for name, variable in _IN_ENVIRONMENT.items() if variable in os.environ)}
    told = {name: value for name, value in (_UNTOLD | _ALIVE).items() if name not in said}
    conninfo = urlunsplit(parts._replace(query=urlencode(options | {k: str(v) for k, v in told.items()})))
    place = parts.hostname or options.get("host", "")
    words = f"postgresql {place}{port}/{unquote(parts.path.lstrip('/'))} schema {schema}"
    return Place(conninfo, schema, words, pooler)


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
    if _REFUSED_BY_POOLER in str(error):
        hint = "a pooler does not pass this on: take it out of the URL and set it for the role or the database instead"
    meaning = StoreUnavailable(f"{where} {said}: {str(error).strip()}", hint=hint)
    meaning.answer_lost = answer_lost
    return meaning


def connect(place: Place) -> Opened:
    """Open a connection for one lane. Raises StoreUnavailable.

    Every plan is made once, for any parameters, and walks indexes in loops: the tables differ in size by orders, and a
    plan made while one was empty must not be the plan when it is full. A process that is frozen inside a transaction
    loses it well before its leases end, so that its locks do not outlive them.
    """
    connection: Connection | None = None
    try:
        connection = Own.connect(place.conninfo, autocommit=True, prepare_threshold=0)
        connection.prepared_max = _PREPARED
        teach(connection)
        if _keeps_settings(connection, place):
            return Opened(connection, ())
    except psycopg.Error as error:
        if connection is not None:
            connection.close()
        meaning = translate(error, place.words)
        if meaning is None:
            raise
        raise meaning from error
    connection.prepare_threshold = None
    return Opened(connection, ((_settings(place, local=True), None),))


def _keeps_settings(connection: Connection, place: Place) -> bool:
    """Put the settings into the connection, in the one round trip that asks whether it is torpor's own to keep.

    The condition is what keeps a shared connection clean: one that belongs to a pool is left as it was.
    """
    if place.pooler == "transaction":
        return False
    own = "" if place.pooler else f" WHERE pg_backend_pid() = {connection.info.backend_pid}"
    return connection.execute(_settings(place, local=False) + own, prepare=False).rowcount == 1


def _settings(place: Place, *, local: bool) -> str:
    """Return one statement that sets everything, for the transaction or for the connection."""
    settings = {"search_path": place.schema, **_SETTINGS}
    if not place.durable:
        settings["synchronous_commit"] = "off"
    if not local:
        settings |= _OF_A_CONNECTION
    calls = (f"set_config('{name}', '{value}', {str(local).lower()})" for name, value in settings.items())
    return f"SELECT {', '.join(calls)}"
