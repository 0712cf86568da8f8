"""Public ids: short enough to type, derived from the number in the store, so that no table and no index holds them.

A run's number counts up; people see `refunds-7Q3D`: the program's name and the number in Crockford's base 32, mixed so
that neighbours look different and a mistyped letter does not land on the run next door. Numbers below 2**20 take four
letters, the next 2**25 take five, and so on. Mixing is a bijection on each length; it hides nothing and need not.

A wait's id is `w-7q3d-3`: its run's letters and the number of the journal entry that opened it. Journal numbers never
go down, so an id never comes to mean another wait (G10).
"""

from __future__ import annotations

from itertools import accumulate

from torpor.errors import UsageError

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {letter: n for n, letter in enumerate(_LETTERS)} | {"O": 0, "I": 1, "L": 1}
_SHORTEST, _LONGEST = 4, 12
_MOST = 2**63 - 1
"""No number in a store is higher."""
_MULTIPLIER = 0x9E3779B97F4A7C15 | 1
_SIZES = [1 << (5 * length) for length in range(_SHORTEST, _LONGEST + 1)]
_STARTS = [0, *accumulate(_SIZES)]


def _mix(n: int, bits: int) -> int:
    mask = (1 << bits) - 1
    n = (n * _MULTIPLIER) & mask
    n ^= n >> ((bits + 1) // 2)
    return (n * _MULTIPLIER) & mask


def _unmix(n: int, bits: int) -> int:
    mask = (1 << bits) - 1
    inverse = pow(_MULTIPLIER, -1, 1 << bits)
    n = (n * inverse) & mask
    n ^= n >> ((bits + 1) // 2)  # its own inverse: the shift is at least half the width
    return (n * inverse) & mask


def _base32(n: int, length: int) -> str:
    return "".join(_LETTERS[(n >> (5 * place)) & 31] for place in reversed(range(length)))


def _number(text: str) -> int:
    n = 0
    for letter in text.upper():
        if letter not in _VALUES:
            message = f"{text!r} is not an id: {letter!r} is no letter of one"
            raise UsageError(message, hint="copy the id from `torpor ps` or `torpor inbox`")
        n = n * 32 + _VALUES[letter]
    return n


def code(run: int) -> str:
    """Return the letters of a run's number, `7Q3D`."""
    for place, size in enumerate(_SIZES):
        if run < _STARTS[place] + size:
            length = _SHORTEST + place
            return _base32(_mix(run - _STARTS[place], 5 * length), length)
    message = f"run number {run} is past what an id can name"
    raise UsageError(message)


def decode(letters: str) -> int:
    """Return the number of a run from its letters, any case. Raises UsageError."""
    length = len(letters)
    if not _SHORTEST <= length <= _LONGEST:
        message = f"{letters!r} is not an id: it has {length} letters"
        raise UsageError(message, hint="an id looks like refunds-7Q3D; copy it from `torpor ps`")
    return _STARTS[length - _SHORTEST] + _unmix(_number(letters), 5 * length)


def run_name(program: str, run: int) -> str:
    """Return the public id of a run, `refunds-7Q3D`."""
    return f"{program}-{code(run)}"


def parse_run(text: str) -> tuple[str, int]:
    """Split a public id into the program's name (empty if only letters were given) and the run's number."""
    program, _, letters = text.strip().rpartition("-")
    return program, decode(letters)


def wait_name(run: int, seq: int) -> str:
    """Return the public id of the wait that entry `seq` of a run opened, `w-7q3d-3`."""
    length = max(1, (seq.bit_length() + 4) // 5)
    return f"w-{code(run)}-{_base32(seq, length)}".lower()


def parse_wait(text: str) -> tuple[int, int]:
    """Split a wait's public id into the run's number and the entry's. Raises UsageError."""
    parts = text.strip().split("-")
    if len(parts) == 3 and parts[0].lower() == "w" and parts[2]:  # noqa: PLR2004 - w, run, entry
        run, seq = decode(parts[1]), _number(parts[2])
        if seq <= _MOST:
            return run, seq
    message = f"{text!r} is not the id of a wait"
    raise UsageError(message, hint="a wait's id looks like w-7q3d-3; copy it from `torpor inbox`")
