"""The commit of a lone step: one entry of one run under the fence. It is what a run that steps by itself waits for.

It is prepared and run with libpq's own calls: psycopg's way to the same statement takes 40 us more and asks for the
interpreter's lock several times, and without arrays for the entries the server saves another 30 (of some 300 with an
fsync, measured in turn). `hot.APPEND_ONE` says the same for any number of entries and within a longer transaction.
"""

from __future__ import annotations

from struct import pack, unpack
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq
from psycopg.errors import DuplicatePreparedStatement, InvalidSqlStatementName, error_from_result

from torpor.store import texts

if TYPE_CHECKING:
    from torpor.store.postgres.exchange import Seat
    from torpor.store.rows import Append

_NAME = b"torpor_step"
_BIGINT, _TEXT, _BYTEA, _BINARY = 20, 25, 17, 1
_TYPES = (*[_BIGINT] * 7, _TEXT, _BYTEA)
_FORMATS = (_BINARY,) * len(_TYPES)
_STEP = b"""WITH passed AS (UPDATE leases SET head = head + 1, expires_at = torpor_now() + $1
    WHERE run_id = $2 AND token = $3 AND epoch = $4 AND head = $5 AND flags & $6::smallint = 0
    RETURNING run_id, flags, head, expires_at - $1 AS now),
added AS (INSERT INTO journal (run_id, at, seq, epoch, kind, key, body)
    SELECT run_id, now, head, $4, $7::smallint, $8, $9 FROM passed)
SELECT flags::bigint, now FROM passed"""


def append(seat: Seat, row: Append, lease_micros: int) -> tuple[int, int] | None:
    """Append one entry and commit; return the lease's flags and the moment, None if it was refused.

    Raises psycopg's errors, OperationalError if the connection broke.
    """
    run_id, token, epoch, head, forbids_cancel, (entry,), _ = row
    kind, key, body = entry
    texts.check((key,), "an entry's key")
    numbers = pack(">7q", lease_micros, run_id, token, epoch, head, forbids_cancel, kind)
    values: list[Any] = [numbers[n : n + 8] for n in range(0, 56, 8)]
    values += (None if key is None else key.encode(), body)  # None is NULL, whatever the library's types say
    try:
        answer = _run(seat, values)
    except InvalidSqlStatementName:  # forgotten: psycopg drops what is prepared after an author's DDL; nothing was done
        seat.knows_step = False
        answer = _run(seat, values)
    except DuplicatePreparedStatement:  # not forgotten: nothing had been sent that a ROLLBACK could end
        seat.knows_step = True
        answer = _run(seat, values)
    if answer.ntuples == 0:
        return None
    return _number(answer, 0), _number(answer, 1)


def _run(seat: Seat, values: list[Any]) -> pq.abc.PGresult:
    server = seat.connection.pgconn
    if not seat.knows_step:
        _checked(server, server.prepare(_NAME, _STEP, _TYPES))
        seat.knows_step = True
    return _checked(server, server.exec_prepared(_NAME, values, _FORMATS, _BINARY))


def _number(answer: pq.abc.PGresult, column: int) -> int:
    value: int = unpack(">q", answer.get_value(0, column) or b"")[0]
    return value


def _checked(server: pq.abc.PGconn, answer: pq.abc.PGresult) -> pq.abc.PGresult:
    if answer.status in {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}:
        return answer
    if server.status == pq.ConnStatus.BAD:
        raise psycopg.OperationalError(f"the connection is lost: {server.get_error_message()}")
    raise error_from_result(answer)
