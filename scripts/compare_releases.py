# SPDX-License-Identifier: Apache-2.0
"""Whether two builds of a release are the same, byte for byte, and where they are not: which file
of which package, and what of it (contents, time, owner, mode, order).

    scripts/compare_releases.py DIR DIR     status 1 when anything differs

A release is what its folder's SHA256SUMS names.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

SUMS = "SHA256SUMS"
MOST = 20  # differences told of each file


def compare(one: Path, two: Path) -> list[str]:
    """A line for each difference between two folders."""
    a, b = released(one), released(two)
    lines = [f"{name}: only in {one}" for name in sorted(a - b)]
    lines += [f"{name}: only in {two}" for name in sorted(b - a)]
    for name in sorted(a & b):
        if (one / name).read_bytes() != (two / name).read_bytes():
            lines += [f"{name}: {line}" for line in differences(one / name, two / name)]
    return lines


def released(folder: Path) -> set[str]:
    return {line.split()[1] for line in (folder / SUMS).read_text().splitlines()}


def differences(one: Path, two: Path) -> list[str]:
    a, b = (dict(members(path.name, path.read_bytes())) for path in (one, two))
    lines = [
        f"{name}: {a.get(name, 'not there')}, {b.get(name, 'not there')}"
        for name in [*a, *(n for n in b if n not in a)]
        if a.get(name) != b.get(name)
    ]
    if not lines:
        order = next((f"{m} and {n}" for m, n in zip(a, b, strict=True) if m != n), None)
        lines = [f"order of its files: {order}" if order else "how it is packed"]
    more = len(lines) - MOST
    return lines[:MOST] + ([f"and {more} more"] if more > 0 else [])


def members(name: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Each file of an archive, of archives within it too, and what it is."""
    if name.endswith(".deb"):
        for part in ("--ctrl-tarfile", "--fsys-tarfile"):
            done = subprocess.run(
                ["dpkg-deb", part, "/dev/stdin"], input=data, capture_output=True, check=True
            )
            inside = "control" if part == "--ctrl-tarfile" else "data"
            yield from ((f"{inside}/{name}", text) for name, text in members(part, done.stdout))
    elif zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            for info in wheel.infolist():
                mode = info.external_attr >> 16
                yield info.filename, told(mode, "", info.date_time, wheel.read(info))
    else:
        yield from tar_members(data)


def tar_members(data: bytes) -> Iterator[tuple[str, str]]:
    """None of a file that is no archive."""
    with contextlib.suppress(tarfile.ReadError), tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for info in archive:
            file = archive.extractfile(info) if info.isreg() else None
            content = file.read() if file else info.linkname.encode()
            inner = list(tar_members(content)) if "blobs/" in info.name else []
            # An image's files are named by their contents: what differs is within.
            yield from ((f"layer/{name}", text) for name, text in inner)
            if not inner:
                owner = f" of {info.uid}:{info.gid}"
                yield info.name, told(info.mode, owner, info.mtime, content)


def told(mode: int, owner: str, time: object, content: bytes) -> str:
    return f"mode {mode:o}{owner} at {time}, {len(content)} bytes {digest(content)[:8]}"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main() -> int:
    if len(sys.argv) != 3 or not all((Path(a) / SUMS).is_file() for a in sys.argv[1:]):
        print(f"usage: {Path(sys.argv[0]).name} DIR DIR, each with a {SUMS}", file=sys.stderr)
        return 2
    one, two = map(Path, sys.argv[1:])
    try:
        differences = compare(one, two)
    except OSError as error:
        print(f"{error.filename}: {(error.strerror or 'cannot be read').lower()}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        print(f"{one}, {two}: a package cannot be read: {''.join(why)}", file=sys.stderr)
        return 2
    print("\n".join(differences) if differences else f"the same in {one} and {two}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
