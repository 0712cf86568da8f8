"""What is not said yet: the end of a text that may be the beginning of a secret (G15).

A model's text comes in pieces that nobody chose, and a secret in it may come in two of them. So the texts of one voice are
looked at as one text, and as much of its end as may still become a secret waits for what follows, or for the voice's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torpor.core.stream import PartKind
    from torpor.worker.voice import Voice

Said: TypeAlias = "tuple[Voice, PartKind, str | bytes]"


def parted(
    buffer: Sequence[Said], over: Collection[Voice], begun: Callable[[str], int]
) -> tuple[list[Said], list[Said]]:
    """Return what of a buffer can be written now, and what waits.

    `over` are the voices of which nothing follows. `begun` says how many letters at the end of a text may begin a secret.
    """
    now: list[Said] = []
    texts: dict[Voice, tuple[int, str]] = {}
    for voice, kind, what in buffer:
        if isinstance(what, str) and voice in texts:
            place, before = texts[voice]
            texts[voice] = place, before + what
            now[place] = voice, kind, before + what
            continue
        texts.pop(voice, None)
        if isinstance(what, str):
            texts[voice] = len(now), what
        now.append((voice, kind, what))
    later: list[Said] = []
    for voice, (place, text) in texts.items():
        open_end = 0 if voice in over else begun(text)
        if open_end:
            kind = now[place][1]
            now[place] = voice, kind, text[:-open_end]
            later.append((voice, kind, text[-open_end:]))
    waiting = {voice for voice, _, _ in later}
    return [said for said in now if said[2] or said[0] not in waiting], later
