# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from headrace.host import programs
from headrace.host.state import short_run, state_directories


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package's folder, with an engine."""
    folder = tmp_path / "installed"
    (folder / "bin").mkdir(parents=True)
    engine = folder / "bin" / "headrace-engine"
    engine.touch(0o755)
    monkeypatch.setattr(programs, "INSTALLED", folder)
    monkeypatch.delenv("HEADRACE_ENGINE", raising=False)
    return folder


def test_a_package_brings_its_own(package: Path) -> None:
    assert programs.find_engine() == package / "bin" / "headrace-engine"
    assert programs.shipped("vnfs") == package / "vnfs"


def test_the_environment_comes_first(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.touch(0o755)
    monkeypatch.setenv("HEADRACE_ENGINE", str(other))
    assert programs.find_engine() == other


def test_a_checkout_has_what_a_package_ships() -> None:
    assert not programs.installed()
    assert (programs.shipped("studies") / "quickstart.yaml").is_file()
    assert (programs.shipped("vnfs") / "nat" / "vnf.yaml").is_file()


@pytest.mark.usefixtures("own_state")
def test_a_program_that_does_not_answer_is_ended() -> None:
    with short_run() as state:
        began = time.monotonic()
        with pytest.raises(subprocess.TimeoutExpired):
            programs.ask(["sleep", "60"], state, 0.2)
        assert time.monotonic() - began < 30
        noted = state.path / "engine.json"
        pid = int(noted.read_text().split('"pid": ')[1].split(",")[0])
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not any(base.exists() for base in state_directories())


@pytest.mark.usefixtures("own_state")
def test_an_answer_has_its_words_and_status() -> None:
    with short_run() as state:
        done = programs.ask(["sh", "-c", "echo $RUNTIME_DIRECTORY; echo b >&2; exit 3"], state)
        assert (done.returncode, done.stdout, done.stderr) == (3, f"{state.path}\n", "b\n")
