# SPDX-License-Identifier: Apache-2.0
"""scripts/compare_releases.py tells two builds of a release apart, and says where they differ."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.parallel

SCRIPT = Path(__file__).resolve().parents[1] / "scripts/compare_releases.py"


def wheel(
    path: Path, names: tuple[str, ...] = ("a.py", "b.py"), text: str = "1", year: int = 2020
) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), text)


def tar(files: dict[str, bytes], mtime: int = 0) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), mtime
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def compared(a: Path, b: Path) -> tuple[int, str]:
    for folder in (a, b):
        names = sorted(p.name for p in folder.iterdir() if p.name != "SHA256SUMS")
        (folder / "SHA256SUMS").write_text("".join(f"0123  {name}\n" for name in names))
    done = subprocess.run([sys.executable, SCRIPT, a, b], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        folder.mkdir()
        wheel(folder / "x.whl")
    return a, b


def test_the_same_is_the_same(two: tuple[Path, Path]) -> None:
    status, text = compared(*two)
    assert status == 0 and text.startswith("the same in ")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"text": "2"}, "x.whl: a.py: mode "),
        ({"year": 2021}, "(2021, 1, 1, 0, 0, 0), 1 bytes"),
        ({"names": ("a.py",)}, "x.whl: b.py: mode "),
        ({"names": ("b.py", "a.py")}, "x.whl: order of its files: a.py and b.py"),
    ],
)
def test_a_difference_is_named(two: tuple[Path, Path], change: dict[str, str], line: str) -> None:
    wheel(two[1] / "x.whl", **change)  # type: ignore[arg-type]
    status, text = compared(*two)
    assert status == 1 and line in text


def test_what_is_in_one_only_differs(two: tuple[Path, Path]) -> None:
    wheel(two[0] / "y.whl")
    assert compared(*two) == (1, f"y.whl: only in {two[0]}\n")


def test_what_no_release_names_is_not_compared(two: tuple[Path, Path]) -> None:
    compared(*two)
    wheel(two[0] / "of_before.whl")
    done = subprocess.run([sys.executable, SCRIPT, *two], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_folder_without_a_release_is_refused(two: tuple[Path, Path], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, two[0], tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_an_image_is_looked_into(two: tuple[Path, Path]) -> None:
    for folder, mtime in zip(two, (1, 2), strict=True):
        layer = gzip.compress(tar({"usr/bin/x": b"program", "etc/y": b""}, mtime))
        (folder / "x-oci.tar").write_bytes(tar({f"blobs/sha256/{mtime}": layer}))
    status, text = compared(*two)
    assert status == 1 and "x-oci.tar: layer/usr/bin/x: mode 644 of 0:0 at 1, 7 bytes" in text


def test_a_package_is_looked_into(two: tuple[Path, Path], tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@invalid>\nDescription: x\n"
    )
    for folder, text in zip(two, ("one", "three"), strict=True):
        (tree / "file").write_text(text)
        command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(folder / "x.deb")]
        subprocess.run(command, check=True, capture_output=True)
    status, text = compared(*two)
    assert status == 1 and "x.deb: data/./file: " in text and "5 bytes" in text
