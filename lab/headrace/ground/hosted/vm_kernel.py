# SPDX-License-Identifier: Apache-2.0
"""The guests' kernel: a distribution's, with the modules that a guest needs."""

from __future__ import annotations

import lzma
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace.errors import BadInput, HeadraceError

_ADVICE = (
    "run `scripts/setup.sh vm`, install your distribution's kernel package (linux-image-amd64), or "
    "name in HEADRACE_VM_KERNEL a folder with boot/vmlinuz-* and lib/modules/*"
)
OWN_ROOT = Path("/")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def cache_folder() -> Path:
    """Where kernel and guest images are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headrace" / "guests"


@dataclass(frozen=True)
class Kernel:
    image: Path
    modules: Path  # lib/modules/RELEASE

    @property
    def release(self) -> str:
        return self.modules.name

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {_plain(file.name.split(".ko")[0]): file for file in self.modules.rglob("*.ko*")}

    @cached_property
    def _built_in(self) -> frozenset[str]:
        try:
            lines = (self.modules / "modules.builtin").read_text().splitlines()
        except OSError:
            return frozenset()
        return frozenset(_plain(Path(line).name.removesuffix(".ko")) for line in lines)

    def has(self, module: str) -> bool:
        return module in self._built_in or module in self._files

    def load_order(self, wanted: Sequence[str]) -> dict[str, bytes]:
        """The modules, each behind those it needs; what is built in is none."""
        modules: dict[str, bytes] = {}
        for module in wanted:
            self._add(module, modules)
        return modules

    def _add(self, module: str, modules: dict[str, bytes]) -> None:
        if module in modules or module in self._built_in:
            return
        file = self._files.get(module)
        if file is None:
            raise HeadraceError(f"{self.modules}: has no module {module}; {_ADVICE}")
        content = _read(file)
        depends = _DEPENDS.search(content)
        for needed in depends[1].decode().split(",") if depends else ():
            if needed:
                self._add(_plain(needed), modules)
        modules[module] = content


def _plain(name: str) -> str:
    """The kernel takes - and _ in a module's name for the same."""
    return name.replace("-", "_")


def _read(file: Path) -> bytes:
    if file.suffix == ".ko":
        return file.read_bytes()
    if file.suffix == ".xz":
        return lzma.decompress(file.read_bytes())
    raise HeadraceError(
        f"{file}: compressed in a way that is not known here; allowed: .ko, .ko.xz; {_ADVICE}"
    )


def find_kernel() -> Kernel:
    """$HEADRACE_VM_KERNEL, then what the set-up brought, then this machine's own."""
    named = os.environ.get("HEADRACE_VM_KERNEL")
    if named:
        kernel = _newest(Path(named))
        if kernel is None:
            raise BadInput(
                f"HEADRACE_VM_KERNEL: got {named!r}; allowed: a folder with boot/vmlinuz-RELEASE "
                "and lib/modules/RELEASE"
            )
        return kernel
    for root in (cache_folder() / "kernel", OWN_ROOT):
        kernel = _newest(root)
        if kernel is not None:
            return kernel
    raise HeadraceError(f"no kernel for virtual machines: {_ADVICE}")


def _newest(root: Path) -> Kernel | None:
    images = [file for file in (root / "boot").glob("vmlinuz-*") if os.access(file, os.R_OK)]
    for image in sorted(images, key=lambda file: file.stat().st_mtime, reverse=True):
        release = image.name.removeprefix("vmlinuz-")
        for lib in ("lib", "usr/lib"):
            modules = root / lib / "modules" / release
            if modules.is_dir():
                return Kernel(image, modules)
    return None
