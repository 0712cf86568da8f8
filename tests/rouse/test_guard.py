"""The check at use."""

from __future__ import annotations

import pytest

from torpor import rouse
from torpor.rouse.incarnation import end


def test_it_gives_the_value_in_its_own_life() -> None:
    """As often as wanted."""
    value = object()
    guarded = rouse.guard(value)
    assert guarded.get() is value
    assert guarded.get() is value
    assert guarded.born_in == rouse.incarnation()
    assert not guarded.is_stale()


def test_it_refuses_in_another_life() -> None:
    """The error names both lives and what to do; letting go is still possible."""
    guarded = rouse.guard(["connection"])
    now = end(guarded.born_in)
    assert guarded.is_stale()
    with pytest.raises(rouse.Stale, match=r"(?s)a list born in .* was used in .*hint: make a new one") as raised:
        guarded.get()
    assert (raised.value.born_in, raised.value.now) == (guarded.born_in, now)
    assert guarded.let_go() == ["connection"]


def test_what_took_long_to_make_is_born_when_its_making_began() -> None:
    """A life that ended during a connect makes the connection stale, though `guard()` was called after it."""
    before_connect = rouse.incarnation()
    end(before_connect)
    with pytest.raises(rouse.Stale):
        rouse.guard("connection", born_in=before_connect).get()


def test_it_does_not_show_what_it_guards() -> None:
    """A credential in a log would be worse than a stale one."""
    assert "sesame" not in repr(rouse.guard("sesame"))
    assert "str" in repr(rouse.guard("sesame"))
