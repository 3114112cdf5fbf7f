# SPDX-License-Identifier: Apache-2.0
"""Whether a bundle is of `headrace tune`, which is asked of strangers' too."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.tune import is_tuned
from headrace.errors import BadInput
from headrace.record.bundle import BundleWriter


@pytest.mark.parametrize(
    ("text", "why"),
    [("[" * 5000, "nested too deeply"), ("tune: {}\ntune: {}", "is given twice"), ("a: [", "YAML")],
)
def test_a_spec_that_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, text: str, why: str
) -> None:
    with BundleWriter(tmp_path / "b") as bundle:
        bundle.spec(text, {})
    with pytest.raises(BadInput, match=rf"spec\.yaml.*{why}"):
        is_tuned(tmp_path / "b")
