"""The guest's system: a small Debian with Python and Node, made by debootstrap, and Debian's own kernel."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.disks import CannotBuildError, disk_of, run

if TYPE_CHECKING:
    from tests.lab.kept import Kept

SUITE = "bookworm"
PACKAGES = ("busybox-static", "ca-certificates", "nodejs", "python3-minimal", "libpython3-stdlib")
KERNEL = "linux-image-amd64"
"""The general one: the cloud flavour has no driver for VMGENID."""
MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "virtio_net", "crc32c_generic", "ext4")
PYTHON = (3, 11, 2)
"""The version that the suite has."""
ROOT_MEGABYTES = 1024
_TOO_MUCH = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "var/cache/apt",
    "var/lib/apt/lists",
)


def system(kept: Kept) -> Path:
    """Return the folder with `root.img`, `kernel`, `busybox` and `modules/`; this file is what it is made of.

    Raises:
        CannotBuildError: not root, or a command failed.
    """
    return kept.get("system", [Path(__file__).read_text()], lambda folder: _make_system(folder, kept))


def _make_system(folder: Path, kept: Kept) -> None:
    if os.getuid() != 0:
        raise CannotBuildError(
            "debootstrap wants root, to make the guest of tests/lab\nhint: run the tests as root once"
        )
    tree = folder / "tree"
    kept.say(f"lab: debootstrap {SUITE} with {', '.join(PACKAGES)} (half a minute or more)")
    # In namespaces of its own: it mounts things, which must be gone, and ended, however this ends.
    alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    include = f"--include={','.join(PACKAGES)}"
    run(*alone, "debootstrap", "--variant=minbase", include, SUITE, str(tree), *_mirror())
    kept.say(f"lab: {KERNEL} and its modules")
    _kernel(folder)
    shutil.copy(tree / "bin/busybox", folder / "busybox")
    for name in _TOO_MUCH:
        shutil.rmtree(tree / name, ignore_errors=True)
    (tree / "etc/hostname").write_text("guest\n")
    kept.say("lab: the root's disk")
    disk_of(tree, folder / "root.img", ROOT_MEGABYTES)
    shutil.rmtree(tree)


def _mirror() -> list[str]:
    """Return where this machine's apt gets the suite from, if it does; else debootstrap has a default."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", f"Codename: {SUITE}"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return said[:1]


def _kernel(folder: Path) -> None:
    """Download the kernel's package and unpack it here: installed, it would make an initrd of its own, slowly."""
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    named = _newest()
    if named is None:
        run("apt-get", "update", "-qq")  # its lists are often thrown away to save room
        named = _newest()
    if named is None:
        raise CannotBuildError(
            f"apt does not know {KERNEL}\nhint: apt-get update, and look at: apt-cache policy {KERNEL}"
        )
    run("apt-get", "download", "-o", "APT::Sandbox::User=root", named, cwd=unpacked)
    [package] = unpacked.glob("*.deb")
    run("dpkg-deb", "-x", str(package), str(unpacked / "root"))
    [kernel] = (unpacked / "root/boot").glob("vmlinuz-*")
    shutil.copy(kernel, folder / "kernel")
    (folder / "modules").mkdir()
    order = _modules(unpacked / "root", folder / "modules")
    (folder / "modules/order").write_text("".join(f"{name}\n" for name in order))
    shutil.rmtree(unpacked)


def _newest() -> str | None:
    """Return the package that `KERNEL` stands for now, if apt knows it."""
    depends = subprocess.run(["apt-cache", "depends", KERNEL], capture_output=True, text=True, check=False).stdout
    named = re.search(r"Depends: (linux-image-\S+)", depends)
    return named[1] if named else None


def _modules(root: Path, place: Path) -> list[str]:
    """Copy `MODULES` and what they depend on; their file names, each after those it needs."""
    files = {path.name.split(".")[0].replace("-", "_"): path for path in root.rglob("*.ko*")}
    order: list[str] = []

    def add(name: str) -> None:
        if name not in files or f"{name}.ko" in order:  # built into the kernel, or there
            return
        packed = files[name]
        plain = lzma.decompress(packed.read_bytes()) if packed.suffix == ".xz" else packed.read_bytes()
        needs = re.search(rb"\0depends=([^\0]*)\0", plain)
        for need in needs[1].decode().split(",") if needs else ():
            add(need.replace("-", "_"))
        (place / f"{name}.ko").write_bytes(plain)
        order.append(f"{name}.ko")

    for name in MODULES:
        add(name)
    return order
