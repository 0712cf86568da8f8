"""Money: whole micro-units of one currency (USD) inside torpor, decimals outside. Never a binary fraction."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation

from torpor.errors import UsageError

MICROS = 1_000_000
MOST = 1_000_000_000 * MICROS
"""No single amount is larger: sums of thousands of them still fit into 64 bits."""
_HINT = 'an amount of dollars: Decimal("0.20"), "0.20" or a whole number'


def micros_of(amount: object, what: str, *, positive: bool = False) -> int:
    """Return an amount of dollars in micro-units; a fraction of one counts as one, so that nothing is free.

    `amount` is a Decimal, a text or a whole number. Raises UsageError for anything else, for what is negative or no
    number, and with `positive` for nothing.
    """
    if isinstance(amount, bool) or not isinstance(amount, Decimal | int | str):
        raise UsageError(f"{what} is {amount!r}, which is no decimal", hint=_HINT)
    try:
        exact = Decimal(amount)
    except InvalidOperation:
        raise UsageError(f"{what} is {amount!r}, which is no number", hint=_HINT) from None
    if not exact.is_finite():
        raise UsageError(f"{what} is {amount}, which is no amount", hint=_HINT)
    if exact < 0 or (positive and exact == 0):
        least = "more than nothing" if positive else "zero or more"
        raise UsageError(f"{what} is {amount}: it must be {least}", hint=_HINT)
    if exact > MOST // MICROS:
        raise UsageError(f"{what} is {amount}: at most {MOST // MICROS:,} is kept", hint=_HINT)
    return int((exact * MICROS).to_integral_value(rounding=ROUND_CEILING))


def decimal_of(micros: int) -> Decimal:
    """Return micro-units as dollars, with at least two decimals."""
    exact = Decimal(micros) / MICROS
    cents = exact.quantize(Decimal("0.01"))
    return cents if cents == exact else exact


def dollars(micros: int) -> str:
    """Return micro-units as people read them, `$5.00`."""
    sign = "-" if micros < 0 else ""
    return f"{sign}${decimal_of(abs(micros)):,f}"
