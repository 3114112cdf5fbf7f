# SPDX-License-Identifier: Apache-2.0
"""One synthetic bundle for all tests of the report; run folders of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.record.bundle import Bundle
from headrace.record.rows import Result
from headrace.record.testdata import make_bundle


@pytest.fixture(scope="session")
def bundle_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("report") / "edge")


@pytest.fixture(scope="session")
def measured(bundle_path: Path) -> Result:
    return Bundle(bundle_path).results()[0]


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other runs on this machine hold or left is not for the test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
