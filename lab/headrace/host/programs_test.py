# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.host import programs


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
