# SPDX-License-Identifier: Apache-2.0
"""Images: Debian's from a registry or made here, and the catalogue's built from it."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir

from headrace.errors import HeadraceError
from headrace.ground.catalogue import CatalogueEntry
from headrace.host import builds
from headrace.host.ledger import Ledger
from headrace.host.tool import BASE_IMAGE, last_words, tool, with_us

_TIMEOUT_S = 900
_AT_ONCE = min(4, os.cpu_count() or 1)  # a build is one package after the other on one CPU
Say = Callable[[str], None]


def has_image(image: str) -> bool:
    return tool().ask("image", "inspect", "--format", "{{.Id}}", image).returncode == 0


def build_all(
    entries: Sequence[CatalogueEntry], say: Say, ledger: Ledger, *, again: bool = False
) -> list[CatalogueEntry]:
    """Build the images that are missing, several at once; which were."""
    wanted = [entry for entry in entries if again or not has_image(entry.image)]
    if wanted:
        _ensure_base(say, ledger)
    tags = [secrets.token_hex(8) for _ in wanted]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        going = [
            pool.submit(_build, entry, tag, say, ledger)
            for entry, tag in zip(wanted, tags, strict=True)
        ]
        try:
            for one in going:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # those that have not begun
            for tag in tags:
                builds.remove(tag)
            raise
    return wanted


def _ensure_base(say: Say, ledger: Ledger) -> None:
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
    with _folder(secrets.token_hex(8), ledger) as folder:
        archive = folder / "base.tar"
        bootstrapped = subprocess.run(
            [*with_us(), bootstrap, "--variant=minbase", "bookworm", str(archive)],
            capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False,
            env=os.environ | {"TMPDIR": str(folder)},
        )  # fmt: skip
        if bootstrapped.returncode:
            raise HeadraceError(f"mmdebstrap: {last_words(bootstrapped.stderr)}")
        tool().call(["import", str(archive), BASE_IMAGE], timeout_s=_TIMEOUT_S, temporary=folder)


@contextmanager
def _folder(tag: str, ledger: Ledger) -> Iterator[Path]:
    """A folder for a build's files, also its temporary ones."""
    folder = Path(gettempdir()) / f"headrace-build-{tag}"
    ledger.note("path", str(folder))
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build(entry: CatalogueEntry, tag: str, say: Say, ledger: Ledger) -> None:
    say(f"building {entry.definition.name}")
    try:
        with _folder(tag, ledger) as folder:
            context = folder / "context"
            context.mkdir()
            entry.fill(context)
            ledger.note("build", tag)
            _build_in(context, entry.image, tag, folder)
    except HeadraceError as error:
        name = entry.definition.name
        raise HeadraceError(f"VNF {name}: its image cannot be built: {error}") from None


def _build_in(context: Path, image: str, tag: str, temporary: Path) -> None:
    options = ["--quiet", "--tag", image, "--build-arg", f"{builds.ARGUMENT}={tag}"]
    options += ["--file", f"{context}/Containerfile", str(context)]
    failures: list[str] = []
    for way in tool().builds():
        try:
            tool().call([*way, *options], timeout_s=_TIMEOUT_S, temporary=temporary)
            return
        except HeadraceError as error:
            failures.append(str(error))
    raise HeadraceError(f"{failures[-1]} (plainly: {failures[0]})")
