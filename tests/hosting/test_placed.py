# SPDX-License-Identifier: Apache-2.0
"""What `headrace plan --server` chooses for VNFs in processes is what `run` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lab import headrace

SPEC = """
name: hosted
chain: [l2fwd, {name: next, nf: l2fwd}]
deployment: {hosting: {kind: process}, hugepages: false}
workload: {frame: [128], flows: 60}
warmup: 0
measure: {loads: [2000], trial: 0.5, drain: 0.3}
"""


@pytest.mark.parallel
def test_the_same_spec_is_predicted_for_the_server(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.replace("hugepages: false", "network: veb"))
    for arguments in (
        ("plan", "spec.yaml", "--server", "reference", "--within", "2", "--out", "placed.yaml"),
        ("run", "--check", "placed.yaml", "--on", "reference"),
    ):
        done = headrace(*arguments, folder=tmp_path, engine=engine_binary, timeout=300)
        assert done.returncode == 0, done.stderr
    asked = (tmp_path / "spec.yaml").read_text() + "demands: {hosted: {rate: 100k}}\n"
    (tmp_path / "asked.yaml").write_text(asked)
    done = headrace(
        "provision", "asked.yaml", "--server", "reference", "--factor", "1",
        folder=tmp_path, engine=engine_binary,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 × 1 VNF (rtc) at 1:1" in done.stdout
