"""What the registry learns of a function it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torpor import App

if TYPE_CHECKING:
    from decimal import Decimal

    from torpor import Context

app = App()


@dataclass
class Basket:
    """A state."""

    fruits: int


@app.flow
async def shops(ctx: Context, basket: Basket) -> Decimal:
    """Name two types that are not there at run time, and one that is."""
    raise AssertionError((ctx, basket))


@app.flow
async def pays(ctx: Context, price: Decimal) -> int:
    """Have a state of a type that is not there at run time."""
    raise AssertionError((ctx, price))


@app.flow
async def walks(ctx: Context, basket) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Say nothing of its state."""
    raise AssertionError((ctx, basket))


def test_each_annotation_stands_for_itself() -> None:
    """A name that exists only for the type checker, as `Context` often does, hides no other."""
    assert app.flows["shops"].state_type is Basket
    assert app.flows["pays"].state_type is None
    assert app.flows["walks"].state_type is None
