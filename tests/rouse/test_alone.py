"""The room stands alone: it goes into guests as a zip, where there is no torpor and nothing is installed."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.patience import PATIENCE_SECONDS
from torpor import rouse

ROOM = Path(rouse.__file__).parent
IN_A_GUEST = """
import sys
sys.path.insert(0, sys.argv[1])
import rouse
assert rouse.guard(7).get() == 7
assert rouse.Watcher().check() is None
with rouse.uninterrupted() as here:
    assert here == rouse.incarnation()
assert not [name for name in sys.modules if name.partition(".")[0] == "torpor"]
print("alone")
"""


def test_it_imports_the_standard_library_only() -> None:
    """And itself, by relative imports: in a guest it has another name."""
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module or "")
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names, path


def test_it_runs_from_a_zip_with_nothing_installed(tmp_path: Path) -> None:
    """Isolated mode, no site packages."""
    archive = tmp_path / "rouse.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in ROOM.rglob("*.py"):
            zipped.write(path, Path("rouse") / path.relative_to(ROOM))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", IN_A_GUEST, archive],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "alone\n"), done.stderr
