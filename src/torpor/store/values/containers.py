"""The tags of Python's own containers, and how a dict is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from torpor.store.values.form import TAG, Json, Node, Read, Refused, Show, Tag, Wire, key_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def write_list(value: Iterable[object], wire: Wire) -> list[Json]:
    """The elements in order; a refusal inside says at which index."""
    written: list[Json] = []
    try:
        for item in value:
            written.append(wire(item))  # noqa: PERF401 - the length is the index that a refusal names
    except Refused as refused:
        refused.under(f"[{len(written)}]")
        raise
    return written


def write_fields(value: dict[str, object], wire: Wire, step: Callable[[object], str] = key_step) -> Node:
    """The values under their own names, without looking for keys JSON cannot say."""
    written: Node = {}
    name = ""
    try:
        for name, item in value.items():
            written[name] = wire(item)
    except Refused as refused:
        refused.under(step(name))
        raise
    return written


def write_dict(value: dict[Any, object], wire: Wire) -> Json:
    """A JSON object if its keys allow it, else a list of keys and values in turn. The order of keys is kept."""
    if all(type(key) is str and key != TAG and (key.isascii() or type(wire(key)) is str) for key in value):
        return write_fields(value, wire)
    pairs: list[Json] = []
    for key, item in value.items():
        try:
            pairs.append(wire(key))
        except Refused as refused:
            raise refused.under(key_step(key)).under(".keys()") from None
        try:
            pairs.append(wire(item))
        except Refused as refused:
            raise refused.under(key_step(key)) from None
    return {TAG: "dict", "v": pairs}


def _read_dict(node: Node, read: Read) -> object:
    parts = [read(part) for part in node["v"]]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _show_dict(node: Node, show: Show) -> Json:
    """An object with its keys as text; pairs if two keys have the same text (`1` and `"1"`)."""
    parts = [show(part) for part in node["v"]]
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    shown = {key if type(key) is str else orjson.dumps(key).decode(): item for key, item in pairs}
    return shown if len(shown) == len(pairs) else [list(pair) for pair in pairs]


def _write_tuple(value: tuple[object, ...], wire: Wire) -> Json:
    return {TAG: "tuple", "v": write_list(value, wire)}


def _read_tuple(node: Node, read: Read) -> object:
    return tuple([read(part) for part in node["v"]])


def _set_tag(kind: type[set[Any] | frozenset[Any]]) -> Tag:
    name = kind.__name__

    def write(value: Iterable[object], wire: Wire) -> Json:
        written: list[Json] = []
        for item in value:
            try:
                written.append(wire(item))
            except Refused as refused:
                raise refused.under(key_step(item)) from None
        # Sorted by their bytes: equal sets are equal bodies, whatever order the hashes gave them.
        return {TAG: name, "v": sorted(written, key=orjson.dumps)}

    def read(node: Node, read: Read) -> object:
        return kind([read(part) for part in node["v"]])

    return Tag(name, kind, write, read, _show_list)


def _show_list(node: Node, show: Show) -> Json:
    return [show(part) for part in node["v"]]


CONTAINERS: tuple[Tag, ...] = (
    Tag("dict", dict, write_dict, _read_dict, _show_dict),
    Tag("tuple", tuple, _write_tuple, _read_tuple, _show_list),
    _set_tag(set),
    _set_tag(frozenset),
)
