"""`digest`: eight bytes that are equal for equal values, whatever the order of a dict or a set.

Types count: `1`, `1.0` and `True` are three values. Which fields of a model were set explicitly does not count, as in
pydantic's own comparison.
"""

from __future__ import annotations

from hashlib import blake2b

import orjson

from torpor.store.values.form import TAG, Json
from torpor.store.values.reading import parse
from torpor.store.values.writing import says_json, written

_SORTED = orjson.OPT_SORT_KEYS
SIZE = 8


def digest(value: object, *, path: str = "value") -> bytes:
    """Eight bytes for a value; the same in every process. Raises `UnstorableValue` like `encode`."""
    try:
        if says_json(value):
            return blake2b(orjson.dumps(value, option=_SORTED), digest_size=SIZE).digest()
    except (TypeError, RecursionError):
        pass  # as in `encode`
    return blake2b(written(value, path, _canonical_bytes), digest_size=SIZE).digest()


def digest_of(body: bytes) -> bytes:
    """The digest of the value that was encoded to `body`, without building it."""
    return blake2b(_canonical_bytes(parse(body)), digest_size=SIZE).digest()


def _canonical_bytes(tree: Json) -> bytes:
    return orjson.dumps(_canonical(tree), option=_SORTED)


def _canonical(node: Json) -> Json:
    """The tree with one order for what has none. Keys of objects are sorted when it is dumped."""
    if type(node) is list:
        return [_canonical(part) for part in node]
    if type(node) is not dict:
        return node
    kept = {key: _canonical(part) for key, part in node.items()}
    tag = kept.get(TAG)
    if tag == "dict":
        parts = kept["v"]
        pairs = sorted(
            zip(parts[::2], parts[1::2], strict=True), key=lambda pair: orjson.dumps(pair[0], option=_SORTED)
        )
        kept["v"] = [part for pair in pairs for part in pair]
    elif tag in ("set", "frozenset"):
        kept["v"] = sorted(kept["v"], key=lambda part: orjson.dumps(part, option=_SORTED))
    elif tag == "model":
        kept.pop("s", None)
    return kept
