"""Bodies of entries: values encoded, large ones put aside as blobs, resolved secrets struck out.

Every value a flow receives was decoded from the body that was stored, whether it was computed a moment ago or a year ago
on another machine: what happens after a crash is what happens every time (G14).
"""

from __future__ import annotations

import json
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


def _forms(secret: str) -> list[bytes]:
    """Return how a secret may stand in a body: as it is, or as JSON writes it, with and without letters beyond ASCII.

    What a model gives a tool is JSON in a text, and that may be JSON again, so JSON in JSON in JSON counts. The longest
    come first: what JSON adds to a letter must go with it.
    """
    forms = {secret}
    for _ in range(3):
        forms |= {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (True, False)}
    found = {form.encode("utf-8", "surrogatepass") for form in forms} | {values.encode(secret)[1:-1]}
    return sorted(found, key=len, reverse=True)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Secrets:
    """Resolves secrets by name and remembers their values, to strike them out of whatever is stored (G15)."""

    source: Callable[[str], str | None]
    _known: dict[bytes, bytes] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)

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
            mark = f"[secret {name}]".encode()
            forms = _forms(value)
            self._known.update(dict.fromkeys(forms, mark))
            self._texts += [form.decode("utf-8", "surrogatepass") for form in forms]
        return value

    @property
    def any_known(self) -> bool:
        """Whether one was resolved."""
        return bool(self._known)

    def begun(self, text: str) -> int:
        """Return how many letters at the end of a text may be the beginning of a secret."""
        most = min(max(map(len, self._texts), default=1) - 1, len(text))
        ends = (text[-n:] for n in range(most, 0, -1))
        return next((len(end) for end in ends if any(form.startswith(end) and form != end for form in self._texts)), 0)

    def strike(self, body: bytes) -> bytes:
        """Return a body without any resolved secret: exact matches, as written and as JSON writes them, also inside JSON."""
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
