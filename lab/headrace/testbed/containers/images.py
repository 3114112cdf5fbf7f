# SPDX-License-Identifier: Apache-2.0
"""Images: Debian's from a registry or made here, and the catalogue's built from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.testbed.containers.tool import last_words, tool
from headrace.testbed.vnf import CatalogueEntry

BASE_IMAGE = "debian:bookworm-slim"
_TIMEOUT_S = 900
_AT_ONCE = min(4, os.cpu_count() or 1)  # a build is one package after the other on one CPU
Say = Callable[[str], None]


def has_image(image: str) -> bool:
    return tool().ask("image", "inspect", "--format", "{{.Id}}", image).returncode == 0


def ensure_base(say: Say) -> None:
    """Debian's image from a registry, or made here where none can be reached."""
    if has_image(BASE_IMAGE):
        return
    say(f"pulling {BASE_IMAGE}")
    done = tool().ask("pull", "--quiet", BASE_IMAGE, timeout_s=_TIMEOUT_S)
    if done.returncode == 0:
        return
    bootstrap = shutil.which("mmdebstrap")
    if bootstrap is None:
        raise HeadraceError(
            f"{BASE_IMAGE}: no registry answers ({last_words(done.stderr)}) and mmdebstrap, which "
            "could make it, is missing: `apt-get install mmdebstrap`"
        )
    say(f"no registry answers: making {BASE_IMAGE} with mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="headrace-base-") as folder:
        archive = Path(folder) / "base.tar"
        made = subprocess.run(
            [bootstrap, "--variant=minbase", "bookworm", str(archive)],
            capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
        if made.returncode:
            raise HeadraceError(f"mmdebstrap: {last_words(made.stderr)}")
        tool().call(["import", str(archive), BASE_IMAGE], timeout_s=_TIMEOUT_S)


def build_all(entries: Sequence[CatalogueEntry], say: Say, *, again: bool = False) -> int:
    """Build the images that are missing, several at once; how many were."""
    wanted = [entry for entry in entries if again or not has_image(entry.image)]
    if wanted:
        ensure_base(say)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        builds = [pool.submit(_build, entry, say) for entry in wanted]
        try:
            for one in builds:
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)  # those that have not begun
            raise
    return len(wanted)


def _build(entry: CatalogueEntry, say: Say) -> None:
    say(f"building {entry.definition.name}")
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-build-") as folder:
            entry.fill(Path(folder))
            _build_in(folder, entry.image)
    except HeadraceError as error:
        name = entry.definition.name
        raise HeadraceError(f"VNF {name}: its image cannot be built: {error}") from None


def _build_in(folder: str, image: str) -> None:
    options = ["--quiet", "--tag", image, "--file", f"{folder}/Containerfile", folder]
    failures: list[str] = []
    for way in tool().builds():
        try:
            tool().call([*way, *options], timeout_s=_TIMEOUT_S, dies=True)
            return
        except HeadraceError as error:
            failures.append(str(error))
    raise HeadraceError(f"{failures[-1]} (plainly: {failures[0]})")
