"""How long tests wait for what must happen: only a hang ends such a wait, never a slow machine."""

from __future__ import annotations

PATIENCE_SECONDS = 120.0
