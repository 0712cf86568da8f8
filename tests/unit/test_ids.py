"""Public ids: a bijection, forgiving to people who type, unlike their neighbours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.core.ids import code, decode, parse_run, parse_wait, run_name, wait_name
from torpor.errors import UsageError

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
SHORTEST = 2**20
PAST_ALL = sum(32**length for length in range(4, 13))

runs = st.integers(min_value=0, max_value=PAST_ALL - 1)
seqs = st.integers(min_value=0, max_value=2**63 - 1)


@given(runs)
def test_a_run_comes_back(run: int) -> None:
    """The letters of a number give the number."""
    assert decode(code(run)) == run


@given(st.text(LETTERS, min_size=4, max_size=12))
def test_letters_come_back(letters: str) -> None:
    """Any letters name exactly one run, so no two runs share an id."""
    assert code(decode(letters)) == letters


def test_every_short_number_has_letters_of_its_own() -> None:
    """A thousand neighbours have a thousand ids, no two of which differ in the last letter only."""
    codes = {code(run) for run in range(1000)}
    assert len(codes) == 1000
    assert all(code(run)[:3] != code(run + 1)[:3] for run in range(1000))


@pytest.mark.parametrize(
    ("run", "length"), [(0, 4), (SHORTEST - 1, 4), (SHORTEST, 5), (SHORTEST + 2**25 - 1, 5), (SHORTEST + 2**25, 6)]
)
def test_length_grows_with_the_number(run: int, length: int) -> None:
    """Four letters below 2**20, five for the next 2**25, six after them."""
    assert len(code(run)) == length
    assert decode(code(run)) == run


@given(runs)
def test_people_may_type_as_they_read(run: int) -> None:
    """Case does not matter, and O is 0, I and L are 1."""
    letters = code(run)
    assert decode(letters.lower()) == run
    assert decode(letters.replace("0", "O").replace("1", "l")) == run


@given(runs, st.from_regex(r"[a-z][a-z_]*(-[a-z]+)?", fullmatch=True))
def test_a_run_name_is_split_again(run: int, program: str) -> None:
    """A program's name may hold a dash; letters alone are a name as well."""
    assert parse_run(f" {run_name(program, run)}\n") == (program, run)
    assert parse_run(code(run)) == ("", run)


@given(runs, seqs)
def test_a_wait_comes_back(run: int, seq: int) -> None:
    """A wait's id gives its run and its entry, however it is typed."""
    name = wait_name(run, seq)
    assert name == name.lower()
    assert parse_wait(name) == (run, seq)
    assert parse_wait(name.upper()) == (run, seq)


@pytest.mark.parametrize("text", ["", "7Q3", "7Q3D7Q3D7Q3D7", "7Q3!", "U000", "refunds-7Q3"])
def test_what_is_no_run_is_refused(text: str) -> None:
    """A wrong length or letter is an error with a hint, never another run."""
    with pytest.raises(UsageError, match="is not an id") as refused:
        parse_run(text)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["", "w", "w-7q3d", "w-7q3d-", "x-7q3d-3", "w-7q3d-3-4", "w-7q3-3", "w-7q3d-u"])
def test_what_is_no_wait_is_refused(text: str) -> None:
    """The same for waits."""
    with pytest.raises(UsageError) as refused:
        parse_wait(text)
    assert refused.value.hint


def test_a_number_past_all_letters_is_refused() -> None:
    """Twelve letters are the longest."""
    assert len(code(PAST_ALL - 1)) == 12
    with pytest.raises(UsageError, match="past what an id can name"):
        code(PAST_ALL)
