"""`plain`: a body as people and other languages see it. Needs no class, so it also works where the program is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.store.values.containers import CONTAINERS
from torpor.store.values.form import TAG, UNREADABLE, Json, Node, Show
from torpor.store.values.models import show_model
from torpor.store.values.reading import parse
from torpor.store.values.records import show_enum, show_fields, show_namedtuple
from torpor.store.values.scalars import SCALARS
from torpor.store.values.spoken import show_spoken

if TYPE_CHECKING:
    from collections.abc import Callable

_ROWS = "torpor.sdk.rows:Rows"
_SHOWN: dict[str, Callable[[Node, Show], Json]] = {
    **{tag.name: tag.show for tag in (*SCALARS, *CONTAINERS)},
    "enum": show_enum,
    "flag": show_enum,
    "namedtuple": show_namedtuple,
    "dataclass": show_fields,
    "model": show_model,
    "text": show_spoken,
}


def plain(body: bytes) -> Json:
    """JSON that a person can read: objects for records, arrays for tuples and sets, text for times, paths and numbers.

    An unknown class is shown by its fields, an unknown tag as it stands. What JSON cannot say is text: `"nan"`, a number
    beyond 64 bit, base64 for bytes, a replacement sign for a lone surrogate; a timedelta is its seconds. The result is not
    meant to be encoded again. Raises `StoreCorrupt` for bytes that are no body, `SchemaMismatch` for a newer form.
    """
    return _show(parse(body))


def rows_in(body: bytes) -> dict[str, int]:
    """Return how many elements each `Rows` field of an encoded state has."""
    node = parse(body)
    inner = node.get("v") if isinstance(node, dict) and "$" in node else node
    if not isinstance(inner, dict):
        return {}
    found = {name: one["v"]["kept"] for name, one in inner.items() if isinstance(one, dict) and one.get("c") == _ROWS}
    return {str(name): int(count) for name, count in found.items()}


def exact(body: bytes) -> Json:
    """The same with every digit of every int: to be checked, or edited, by a program."""
    return exact_part(parse(body))


def exact_part(node: Json) -> Json:
    """The same of a part that was parsed already."""
    if type(node) is dict and node.get(TAG) == "int":
        return int(node["v"], 16)
    return _shown(node, exact_part)


def _show(node: Json) -> Json:
    return _shown(node, _show)


def _shown(node: Json, again: Show) -> Json:
    if type(node) is list:
        return [again(part) for part in node]
    if type(node) is not dict:
        return node
    show = _SHOWN.get(node[TAG]) if type(node.get(TAG)) is str else None
    if show is not None:
        try:
            return show(node, again)
        except UNREADABLE:
            return node  # not as torpor writes it: better shown as it stands than not at all
    return {key: again(item) for key, item in node.items()}
