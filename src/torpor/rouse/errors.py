"""Every exception of rouse, and nothing else.

    RouseError
    |-- Stale             used in another incarnation than it was born in
    |   `-- Interrupted   a block that had to be uninterrupted was not
    |-- GateClosed        an effect must not begin now
    |   `-- RousalFailed  a callback failed: this process was not made sound after a rousal
    `-- NotCurrent        the beacon knows a later memory of this machine than ours

The room stands alone, so its errors do too. An error says what happened with which values; `hint` says what to do next.
"""

from __future__ import annotations


class RouseError(Exception):
    """The root. `hint` is one line with the next step, or empty."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep what happened apart from what to do about it."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Both lines, so that a bare traceback also helps."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class Stale(RouseError):
    """Something was used in another incarnation (`now`) than it was `born_in`. It was not touched."""

    def __init__(self, message: str, *, born_in: str, now: str, hint: str = "") -> None:
        """Carry both incarnations."""
        super().__init__(message, hint=hint)
        self.born_in = born_in
        self.now = now


class Interrupted(Stale):
    """The memory image was put away, frozen or copied inside an `uninterrupted()` block."""


class GateClosed(RouseError):
    """An effect must not begin now: the phases are running, or a snapshot is being taken."""


class RousalFailed(GateClosed):
    """A callback failed and those after it did not run. Every check raises this until the registry is mended."""


class NotCurrent(RouseError):
    """Another copy of this memory went on, or a later state of it: this one must not act. `kind` says which."""

    def __init__(self, message: str, *, kind: str, hint: str = "") -> None:
        """Carry the kind: `copied` or `rolled_back`."""
        super().__init__(message, hint=hint)
        self.kind = kind
