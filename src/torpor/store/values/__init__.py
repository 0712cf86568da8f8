"""What a program's values become in a store, and how they come back as they were (G14).

    encode(value)  -> bytes      decode(bytes) -> the same value, of the same type
    plain(bytes)   -> what people and other languages see      exact(bytes) -> the same, ints with every digit
    edited(bytes, ...) -> the same value with what a person changed
    digest(value)  -> 8 bytes    digest_of(bytes) -> the same 8 bytes, without the classes

The promise: what is read equals what was written *and has the same type*, or writing is refused with
`UnstorableValue` and the path of the bad value (`args.items[3].when`). No pickle, no `eval`, and no module is imported
because stored bytes name it.

**The form.** A body is JSON in UTF-8. What JSON can say is JSON: None, bool, int of 64 bit, finite float, str without lone
surrogates, list, dict with such keys. Everything else is an object with the key `$`, which names a tag:
`{"$":"tuple","v":[1,2]}`. A dict of the author's that has the key `$`, or a key JSON cannot say, is tagged itself
(`{"$":"dict","v":[key,value,key,value]}`), so the two cannot be mixed up. U+0000 is escaped by JSON and so reaches both
databases as bytes they accept.

**How the form grows.** A tag never changes its meaning; a new meaning gets a new tag, and a reader that does not know a tag
says `SchemaMismatch`. A body never begins with a control byte, so another form altogether can begin with one.

**Classes** are recorded as `module:Qualname` (`__main__` by the name under which others import it) and found again through
`types`, else among the modules that are imported already; a class that could not be found again is refused when written.
A dataclass or a pydantic model whose stored fields are the class's present fields is rebuilt exactly, without validators
or `__init__`; after a change of the class it is validated, so that new fields get their defaults, and a field the class no
longer has is an error, never a silent loss.

**Not kept**: that two places held the *same* object (equal copies come back), and the results of `cached_property`.

A body that was not made by `encode` (typed by a person, sent by a client) is not to be decoded: it could name classes.
Parse it as JSON and `encode` the result; then `decode(body, hint=annotation)` gives it its types.
"""

from __future__ import annotations

from torpor.store.values.digests import digest, digest_of
from torpor.store.values.editing import edited, joined
from torpor.store.values.reading import MISFIT, decode
from torpor.store.values.showing import exact, plain, rows_in
from torpor.store.values.writing import MAX_DEPTH, encode

__all__ = [
    "MAX_DEPTH",
    "MISFIT",
    "decode",
    "digest",
    "digest_of",
    "edited",
    "encode",
    "exact",
    "joined",
    "plain",
    "rows_in",
]
