# SPDX-License-Identifier: Apache-2.0
"""One synthetic bundle for all tests of the report."""

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
