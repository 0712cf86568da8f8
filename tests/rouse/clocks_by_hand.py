"""Clocks a test moves by hand, in seconds."""

from __future__ import annotations

from torpor import rouse


class ClocksByHand:
    """One machine's clocks and one process, all standing still until told."""

    def __init__(self, *, has_boottime: bool = True) -> None:
        """Begin at three different moments, so that mixing two clocks up shows."""
        self.wall_at = 1_700_000_000_000_000
        self.monotonic_at = 5_000_000_000
        self.boottime_at: int | None = 9_000_000_000 if has_boottime else None
        self.process = rouse.Process(pid=4711, start=1000, namespace="pid:[1]")
        self.clocks = rouse.Clocks(
            wall=lambda: self.wall_at,
            monotonic=lambda: self.monotonic_at,
            boottime=lambda: self.boottime_at,
            process=lambda: self.process,
        )

    def pass_time(self, seconds: float) -> None:
        """Time goes by and everything runs."""
        self.suspend(seconds)
        self.monotonic_at += round(seconds * 1e6)

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: monotonic stands still."""
        self.step(seconds)
        if self.boottime_at is not None:
            self.boottime_at += round(seconds * 1e6)

    def step(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.wall_at += round(seconds * 1e6)

    def watcher(self, **limits: float) -> rouse.Watcher:
        """A watcher on these clocks, that tells nobody else."""
        return rouse.Watcher(rouse.Limits(**limits), clocks=self.clocks, registry=rouse.Registry())
