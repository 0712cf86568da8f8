"""Which files are audited, and what is said when there are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import torpor
from torpor.demo import folder
from torpor.demo.folder import read_folder
from torpor.errors import NotFound, UsageError


def test_torpor_itself_by_default() -> None:
    """Without a path it is the installed source."""
    found = read_folder(None)
    assert (found.root, found.title) == (Path(torpor.__file__).parent, "torpor itself")
    assert Path("demo/program.py") in found.files


def test_only_text_in_plain_files(tmp_path: Path) -> None:
    """Binary files, links, pipes, hidden folders and caches are passed by; any name is taken."""
    odd = Path(os.fsdecode(b"a\n\xff.txt"))
    for name in ("b.py", "sub/c.txt", ".git/d", "__pycache__/e", str(odd)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"text\n")
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    (tmp_path / "link").symlink_to("b.py")
    os.mkfifo(tmp_path / "pipe")
    found = read_folder(str(tmp_path))
    assert found.files == [odd, Path("b.py"), Path("sub/c.txt")]
    assert found.notes == ["1 binary file skipped"]


def test_a_big_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many are audited, so many counted, and a note says it."""
    for number in range(12):
        (tmp_path / f"{number:02}").write_bytes(b"text\n")
    monkeypatch.setattr(folder, "MOST_FILES", 3)
    assert read_folder(str(tmp_path)).files == [Path("00"), Path("01"), Path("02")]
    assert read_folder(str(tmp_path)).notes == ["the first 3 text files of 12 files"]
    monkeypatch.setattr(folder, "MOST_SEEN", 10)
    assert read_folder(str(tmp_path)).notes == ["the first 3 text files of more than 10 files"]


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that refuses to be opened is skipped with a note."""
    (tmp_path / "a").write_bytes(b"text\n")
    (tmp_path / "b").write_bytes(b"text\n")
    opened = Path.open

    def refusing(path: Path, mode: str = "r") -> object:
        if path.name == "a":
            raise PermissionError(13, "Permission denied")
        return opened(path, mode)

    monkeypatch.setattr(Path, "open", refusing)
    found = read_folder(str(tmp_path))
    assert (found.files, found.notes) == ([Path("b")], ["1 file cannot be read, skipped"])


def test_nothing_to_audit(tmp_path: Path) -> None:
    """A missing path, a file and an empty folder are clear errors, each with a next step."""
    with pytest.raises(NotFound, match=r"there is no folder .*nope\nhint: torpor demo PATH"):
        read_folder(str(tmp_path / "nope"))
    (tmp_path / "sub").mkdir()
    with pytest.raises(UsageError, match="sub has nothing to audit\nhint: "):
        read_folder(str(tmp_path / "sub"))
    (tmp_path / "sub" / "binary").write_bytes(b"\0")
    with pytest.raises(UsageError, match="has nothing to audit; 1 binary file skipped"):
        read_folder(str(tmp_path / "sub"))
    with pytest.raises(UsageError, match="binary is not a folder"):
        read_folder(str(tmp_path / "sub" / "binary"))
