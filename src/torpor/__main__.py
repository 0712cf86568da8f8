"""`python -m torpor` is the command line."""

from __future__ import annotations

from torpor.cli.main import main

if __name__ == "__main__":
    main()
