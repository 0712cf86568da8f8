"""Bodies of entries: values encoded, large ones put aside as blobs, resolved secrets struck out.

Every value a flow receives was decoded from the body that was stored, whether it was computed a moment ago or a year ago
on another machine: what happens after a crash is what happens every time (G14).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from torpor.blobs.packing import check_excuse
from torpor.core.journal import BLOB_BYTES, BLOB_MARK
from torpor.engine import large
from torpor.errors import NotFound, StoreError
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torpor.core.commit import Blob


@dataclass(slots=True, eq=False, weakref_slot=True)
class Secrets:
    """Resolves secrets by name and remembers their values, to strike them out of whatever is stored (G15)."""

    source: Callable[[str], str | None]
    _known: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Be found by `without_secrets`."""
        _HERE.add(self)

    def resolve(self, name: str) -> str:
        """Return a secret. Raises NotFound."""
        value = self.source(name)
        if value is None:
            message = f"there is no secret named {name!r}"
            raise NotFound(message, hint=f"set TORPOR_SECRET_{name.upper()} for the worker")
        if len(value) >= 4:  # noqa: PLR2004 - a shorter one would strike out ordinary text
            raw = value.encode("utf-8", "surrogatepass")
            self._known[raw] = f"[secret {name}]".encode()
            inside = values.encode(value)[1:-1]
            self._known[inside] = self._known[raw]
        return value

    def strike(self, body: bytes) -> bytes:
        """Return a body without any resolved secret: exact matches, as written and as JSON writes them."""
        for secret, mark in self._known.items():
            if secret in body:
                body = body.replace(secret, mark)
        return body

    def struck(self, text: str) -> str:
        """Return a text without any resolved secret."""
        if not self._known:
            return text
        return self.strike(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


_HERE: WeakSet[Secrets] = WeakSet()
"""Those of the workers of this process."""


def without_secrets(text: str) -> str:
    """Return a text without any secret that a worker of this process resolved: for what is written beside its store."""
    for secrets in list(_HERE):
        text = secrets.struck(text)
    return text


class Bodies:
    """Encodes and decodes for one run, and collects the blobs that its next commit must carry."""

    __slots__ = ("_blobs", "_hidden", "_secrets", "_types", "new")

    def __init__(
        self, secrets: Secrets, blobs: Mapping[bytes, bytes], types: Callable[[str], type | None] | None = None
    ) -> None:
        """Begin with the packed blobs that the claim brought along."""
        self._secrets = secrets
        self._blobs = dict(blobs)
        self._types = types
        self._hidden: dict[bytes, bytes] = {}
        self.new: list[Blob] = []

    def hide(self, secret: str, mark: str) -> None:
        """Let a text of this run's own be stored nowhere: a mark stands in its place (G15)."""
        self._hidden[secret.encode()] = mark.encode()

    def struck(self, text: str) -> str:
        """Return a text as it may be told elsewhere: without resolved secrets and what is hidden (G15)."""
        body = self._secrets.strike(text.encode("utf-8", "surrogatepass"))
        for secret, mark in self._hidden.items():
            body = body.replace(secret, mark)
        return body.decode("utf-8", "replace")

    def told(self, value: Any, path: str) -> bytes:
        """Return the body of what is written beside the journal, whole and without secrets. Raises UnstorableValue."""
        body = self._secrets.strike(values.encode(value, path=path))
        for secret, mark in self._hidden.items():
            body = body.replace(secret, mark)
        return body

    def encode(self, value: Any, path: str) -> bytes:
        """Return a value's body. Raises UnstorableValue."""
        body = values.encode(value, path=path)
        if self._secrets._known:  # noqa: SLF001 - one check on the hot path instead of a call
            body = self._secrets.strike(body)
        if len(body) <= BLOB_BYTES and not self._hidden:
            return body
        return self.put(body)

    def put(self, body: bytes) -> bytes:
        """Return a body as it is stored: without what is hidden, and with its blob's name in its place if it is large."""
        for secret, mark in self._hidden.items():
            body = body.replace(secret, mark)
        if len(body) <= BLOB_BYTES:
            return body
        name, blob = large.put_aside(body)
        if blob is not None and blob.digest not in self._blobs:
            self._blobs[blob.digest] = blob.body
            self.new.append(blob)
        return name

    def whole(self, body: bytes) -> bytes:
        """Return a body with a blob's content in place of its name. Raises StoreCorrupt if the blob is missing."""
        return large.whole(body, self._blobs)

    def unreadable(self, bodies: Sequence[bytes | None]) -> StoreError | None:
        """Return why one of these bodies cannot be made whole, or None; content is checked only when it is unpacked."""
        for body in bodies:
            if body and body[:1] == BLOB_MARK:
                try:
                    if body[1:] not in self._blobs:
                        self.whole(body)
                    check_excuse(self._blobs[body[1:]])
                except StoreError as error:
                    return error
        return None

    def decode(self, body: bytes | None, hint: object = None) -> Any:
        """Return the value of a body; None for none."""
        if body is None:
            return None
        return values.decode(body if body[:1] != BLOB_MARK else self.whole(body), hint=hint, types=self._types)

    def learn(self, blobs: Mapping[bytes, bytes]) -> None:
        """Add packed blobs that were read later; what is here already is not given up for an excuse."""
        self._blobs.update({digest: packed for digest, packed in blobs.items() if not self._has(digest)})

    def _has(self, digest: bytes) -> bool:
        return digest in self._blobs and self.unreadable([BLOB_MARK + digest]) is None

    def take_new(self) -> list[Blob]:
        """Return the blobs that were put aside since the last commit."""
        taken, self.new = self.new, []
        return taken


def spread_of(key: str) -> float:
    """Return a number in [0, 1) that belongs to a call: retries of many runs spread, a replay agrees."""
    return random.Random(key).random()  # noqa: S311 - not for secrets
