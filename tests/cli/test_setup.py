# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh takes an interpreter that whoever runs headrace later can execute, too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup.sh"
SYSTEM = Path("/usr/bin")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory as a private home has, with an interpreter."""
    python = shutil.which("python3", path=str(SYSTEM))
    if python is None:
        pytest.skip(f"no python3 in {SYSTEM}")
    found = tmp_path / "private"
    found.mkdir(mode=0o700)
    (found / "python3").symlink_to(python)
    return found


def found_in(path: str) -> str:
    text = SETUP.read_text(encoding="utf-8")
    parts = [r"^python_min=.*?$", r"^die\(\).*?^}", r"^shared_python\(\).*?^}"]
    parts.append(r"^find_python\(\).*?^}")
    found = [re.search(part, text, re.MULTILINE | re.DOTALL) for part in parts]
    script = "\n".join(one.group() for one in found if one)
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
