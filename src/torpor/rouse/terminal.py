"""The terminal, lent to the program: a group in its background that reads from it is stopped (SIGTTIN)."""

from __future__ import annotations

import os
from contextlib import suppress


class Terminal:
    """Ours while we are in its foreground. Whoever lends it blocks SIGTTOU: else taking it back would stop us."""

    def __init__(self) -> None:
        """Not lent."""
        self.lent = False

    def lend(self, group: int) -> bool:
        """Put a group into the foreground, if we are there; whether it is. Ctrl-C and its like go to it alone then.

        Not if what the program prints goes elsewhere: `run -- CMD | less` reads keys from the same terminal, in our group.
        """
        if not (os.isatty(0) and os.isatty(1)):
            return False
        try:
            if not self.lent and os.tcgetpgrp(0) != os.getpgrp():
                return False
            os.tcsetpgrp(0, group)
        except OSError:  # it is not the terminal of our session
            return False
        self.lent = True
        return True

    def take_back(self) -> None:
        """Be in the foreground again. Does nothing if it is not lent."""
        if self.lent:
            with suppress(OSError):  # it hung up
                os.tcsetpgrp(0, os.getpgrp())
            self.lent = False
