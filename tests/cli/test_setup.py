# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh takes an interpreter that whoever runs headrace later can execute, too, and
configures the engine again when a library came or went."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup.sh"
SYSTEM = Path("/usr/bin")

pytestmark = pytest.mark.parallel


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory as a private home has, with an interpreter."""
    python = shutil.which("python3", path=str(SYSTEM))
    if python is None:
        pytest.skip(f"no python3 in {SYSTEM}")
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    (folder / "python3").symlink_to(python)
    return folder


def found_in(path: str) -> str:
    text = SETUP.read_text(encoding="utf-8")
    parts = [r"^python_min=.*?$", r"^die\(\).*?^}", r"^shared_python\(\).*?^}"]
    parts.append(r"^find_python\(\).*?^}")
    matches = [re.search(part, text, re.MULTILINE | re.DOTALL) for part in parts]
    script = "\n".join(one.group() for one in matches if one)
    done = subprocess.run(
        ["/bin/bash", "-c", f"set -euo pipefail\n{script}\nfind_python"],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if "or later is needed" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_for_all_comes_before_a_private_one(private: Path) -> None:
    assert found_in(f"{private}:{SYSTEM}").startswith(f"{SYSTEM}/")


def test_a_private_one_is_better_than_none(private: Path) -> None:
    assert found_in(str(private)) == str(private / "python3")


PKG_CONFIG = """#!/bin/sh
[ "$2" = libhs ] && [ ! -e hyperscan ] && exit 1
echo 5.4.0
"""
MESON = """#!/bin/sh
mkdir -p build
echo "$*" >>calls
touch build/build.ninja
"""


NINJA = """#!/bin/sh
case "$*" in
*-n*) [ -e built ] || printf '[1/2] Compiling a\\n[2/2] Linking b\\n' ;;
*) echo "ninja $*" >>calls; touch built ;;
esac
[ ! -e built ] || echo 'ninja: no work to do.'
"""


def calling(folder: Path, functions: str) -> str:
    """What setup.sh's own functions print; the last of them is called, and `calls` has what they
    ran."""
    text = SETUP.read_text(encoding="utf-8")
    parts = [rf"^{name}\(\).*?^}}" for name in functions.split()]
    matches = [re.search(part, text, re.MULTILINE | re.DOTALL) for part in parts]
    script = "\n".join(one.group() for one in matches if one)
    (folder / "calls").write_text("")
    return subprocess.run(
        ["/bin/bash", "-c", f"set -euo pipefail; targets=()\n{script}\n{functions.split()[-1]}"],
        env={"PATH": f"{folder / 'bin'}:{SYSTEM}:/bin"},
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def configured(folder: Path) -> list[str]:
    """What meson was called with."""
    calling(folder, "die libraries configure")
    return (folder / "calls").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, script in ("pkg-config", PKG_CONFIG), ("meson", MESON), ("ninja", NINJA):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)
    for name in "build", ".setup":
        (tmp_path / name).mkdir()
    return tmp_path


def test_what_takes_minutes_is_said_before_and_nothing_where_all_is_built(checkout: Path) -> None:
    parts = "die libraries configure building engine"
    assert calling(checkout, parts).splitlines() == [
        "setup: configuring the engine (log: .setup/meson.log)",
        "setup: building the engine, 2 steps (log: .setup/ninja.log)",
    ]
    assert "ninja -C build --quiet" in (checkout / "calls").read_text()
    assert calling(checkout, parts) == ""


def test_a_library_that_came_later_is_built_in(checkout: Path) -> None:
    assert configured(checkout)[-1] == "setup build"
    assert configured(checkout) == []
    (checkout / "hyperscan").touch()
    assert configured(checkout) == ["configure build --clearcache", "setup --reconfigure build"]
