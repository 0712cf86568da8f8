"""One transaction's talk with the server, in as few round trips as its answers allow.

What needs no answer waits for the next thing that does, or for the commit, and travels with it in a pipeline; BEGIN
travels with the first statement. So a lone statement that is a transaction by itself (`alone`) is one round trip, a
commit of many parts is two: the one that says who passed the fence, and the rest together with COMMIT. Behind a pooler
the settings travel likewise, right after BEGIN; statements of one pipeline without BEGIN are one transaction, too, so
that a lone statement brings them along in its one round trip.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from torpor.store.postgres.connect import RETRYABLE, Connection, Place, connect, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Params: TypeAlias = Mapping[str, Any]
    Statement: TypeAlias = tuple[str, Params | None]

BEGIN = "BEGIN"
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


T = TypeVar("T")


class Seat:
    """A connection and the process it was opened in. It is used by one thread at a time, `lock` is for those who share it.

    `stale` says that it must not be used for another transaction.
    """

    def __init__(self, place: Place) -> None:
        """Connect. Raises StoreUnavailable."""
        self.place = place
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.stale = False
        self.knows_step = False
        """Whether `step.append` was prepared on it."""
        self.connection: Connection
        self.connection, self.carried = connect(place)

    @property
    def usable(self) -> bool:
        """Whether it may still be used: not broken, and not a copy that shares its socket with another process."""
        return not self.stale and self.pid == os.getpid() and not self.connection.closed

    def ask(self, statement: str, **params: Any) -> list[tuple[Any, ...]]:
        """Run one statement, a transaction by itself unless one was begun, and return its rows. Raises torpor's errors."""
        with self._translated():
            cursor = self.connection.cursor(binary=True)
            if self.carried and self.connection.info.transaction_status is TransactionStatus.IDLE:
                with self.connection.pipeline():
                    self._carry()
                    cursor.execute(statement, params)
            else:
                cursor.execute(statement, params)
            return cursor.fetchall() if cursor.description is not None else []

    def begin(self) -> None:
        """Begin a transaction for what is asked and run from now on, up to `run("COMMIT")`. Raises torpor's errors."""
        with self._translated(), self.connection.pipeline():
            self.connection.execute(BEGIN)
            self._carry()

    def _carry(self) -> None:
        for statement, params in self.carried:
            self.connection.execute(statement, params)

    def run(self, statements: str) -> None:
        """Run statements that take no values and return nothing; several are one transaction. Raises torpor's errors.

        Outside a transaction they name the schema: behind a pooler no search path is there.
        """
        with self._translated():
            self.connection.execute(statements, prepare=False)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            meaning = translate(error, self.place.words, answer_lost=self.connection.closed)
            if meaning is None:
                raise
            raise meaning from error

    def close(self) -> None:
        """Close the connection; a copy of the process must not say goodbye on a shared socket."""
        if self.pid == os.getpid():
            self.connection.close()


class Exchange:
    """The statements of one transaction."""

    def __init__(self, seat: Seat, *, begin: str = BEGIN) -> None:
        """Send nothing yet."""
        self._seat = seat
        self._begin: list[Statement] = [(begin, None), *seat.carried]
        self._waiting: list[Statement] = []
        self._open = False
        self._commits = False
        self._alone = False
        self.committed_alone = False

    def alone(self) -> None:
        """Let the next `ask` be committed at once, together with what was told so far, if nothing was sent yet."""
        self._alone = not self._open

    @property
    def first_alone(self) -> bool:
        """Whether what is asked next is a transaction of one statement, on a connection that remembers statements."""
        return self._alone and not self._waiting and not self._seat.carried

    def alone_with(self, send: Callable[..., T], *args: Any) -> T:
        """Let `send(seat, *args)` be that transaction, and return its answer."""
        self._alone = False
        self._commits = True
        with self._translated():
            answer = send(self._seat, *args)
        self._commits, self.committed_alone = False, True
        return answer

    def tell(self, statement: str, params: Params) -> None:
        """Send a statement some time before the commit. Its result is not looked at."""
        self._waiting.append((statement, params))

    def ask(self, statement: str, params: Params) -> list[tuple[Any, ...]]:
        """Send a statement now, with whatever waits, and return its rows."""
        alone, self._alone = self._alone, False
        before = list(self._waiting)
        after: list[Statement] = []
        if alone and before:
            before[:0] = self._begin
            after = [("COMMIT", None)]
        elif alone:
            before.extend(self._seat.carried)
        elif not self._open:
            before[:0] = self._begin
        self._commits = alone
        with self._translated():
            rows = self._send(before, (statement, params), after)
        self._waiting.clear()
        self._open, self._commits = not alone, False
        self.committed_alone |= alone
        return rows

    def _send(
        self,
        before: list[Statement],
        asked: Statement,
        after: list[Statement],
    ) -> list[tuple[Any, ...]]:
        connection = self._seat.connection
        cursor = connection.cursor(binary=True)
        if before or after:
            with connection.pipeline():
                for statement, params in before:
                    connection.execute(statement, params)
                cursor.execute(*asked)
                for statement, params in after:
                    connection.execute(statement, params)
        else:
            cursor.execute(*asked)
        return cursor.fetchall()

    def begun(self) -> Connection:
        """Make sure that the transaction is open and everything told was sent; return the connection."""
        with self._translated():
            first = [] if self._open else self._begin
            self._flush([*first, *self._waiting])
        self._open = True
        self._waiting.clear()
        return self._seat.connection

    def _flush(self, statements: list[Statement]) -> None:
        connection = self._seat.connection
        if len(statements) == 1:
            connection.execute(*statements[0])
        elif statements:
            with connection.pipeline():
                for statement, params in statements:
                    connection.execute(statement, params)

    def commit(self) -> None:
        """Send what waits, and COMMIT."""
        if not self._open and not self._waiting:
            return
        self._commits = True
        statements = list(self._waiting)
        lone = not self._open and len(statements) == 1
        if lone:
            statements[:0] = self._seat.carried
        else:
            statements = [*([] if self._open else self._begin), *statements, ("COMMIT", None)]
        with self._translated():
            self._flush(statements)
        self._open = self._commits = False
        self._waiting.clear()

    def rollback(self) -> None:
        """Give up; never raises. A connection that cannot roll back is closed."""
        self._seat.knows_step = False  # psycopg drops everything that is prepared after a ROLLBACK
        try:
            if not self._seat.connection.closed:
                self._seat.connection.rollback()
        except psycopg.Error:
            self._seat.connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except RETRYABLE:
            raise  # the transaction is run again
        except psycopg.Error as error:
            lost = self._commits and self._seat.connection.closed
            meaning = translate(error, self._seat.place.words, answer_lost=lost)
            if meaning is None:
                raise
            raise meaning from error
