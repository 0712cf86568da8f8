"""`python -m tests.lab`: make the guest and boot it, with and without VMGENID, so that tests begin with a wake."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.lab.disks import CannotBuildError
from tests.lab.kept import Kept
from tests.lab.lab import Lab


def main() -> int:
    """Make it, and say where; the exit status."""
    with tempfile.TemporaryDirectory(prefix="torpor-lab-") as folder:
        try:
            lab = Lab(Kept(), Path(folder))
            for vmgenid in (True, False):
                place, hardware = lab.booted(vmgenid=vmgenid)
                print(f"lab: {place} ({hardware.accelerator})")  # noqa: T201 - it answers on standard output
            lab.close()
        except CannotBuildError as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
