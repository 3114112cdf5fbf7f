# SPDX-License-Identifier: Apache-2.0
"""`measure.chaos`: seconds of what studies/offload-chaos.yaml does in minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lab import chaos_outcome, headrace, runtime_dir, state_left
from support.netns import netns_refusal
from support.routers import daemons_missing

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]


@pytest.mark.parametrize("daemon", ["bird", pytest.param("frr", marks=pytest.mark.slow)])
def test_killed_daemons(engine_binary: Path, tmp_path: Path, cpus: list[int], daemon: str) -> None:
    if refusal := netns_refusal() or daemons_missing():
        pytest.skip(refusal)
    if len(cpus) < 2:
        pytest.skip("needs two CPUs, one for traffic")
    (tmp_path / "spec.yaml").write_text(
        f"name: t{tmp_path.name[-8:]}\nmeasure: {{loads: [2000], chaos: {{duration: 5s}}}}\n"
        "deployment:\n  hugepages: false\n  memory_mb: 256\n"
        f"  hosting: {{kind: offload, vnfs: 3, routes: 16, daemon: {daemon}}}\n"
    )
    runtime_dir(tmp_path).chmod(0o711)  # FRR's own user has its folders below
    done = headrace(
        "run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary, timeout=300
    )
    assert done.returncode == 0, done.stderr + done.stdout
    outcome = chaos_outcome(tmp_path / "b")
    assert outcome["still"] == 0 and outcome["left"] == [] and outcome["not_back"] == []
    assert sum(outcome["kills"].values()) == outcome["restarts"] >= 3
    assert outcome["mbufs_after"] <= outcome["mbufs_before"] + 64
    # What a VNF's packets go by outlives its daemons.
    assert 0 < outcome["received"] <= outcome["sent"]
    assert state_left(tmp_path) == []


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("hosting", "chaos", "words"),
    [
        ("vnfs: 1", "", ("hosting.vnfs", "1")),
        ("daemon: quagga", "", ("hosting.daemon", "quagga")),
        ("vnfs: 2", "duration: 0s", ("chaos.duration",)),
        ("vnfs: 2", "kills: 3", ("kills",)),
    ],
)
def test_bad_specs(
    tmp_path: Path, engine_binary: Path, hosting: str, chaos: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "spec.yaml").write_text(
        f"name: t\ndeployment: {{hosting: {{kind: offload, {hosting}}}}}\n"
        f"measure: {{loads: [2k], chaos: {{{chaos}}}}}\n"
    )
    done = headrace("run", "spec.yaml", "--check", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    [line] = done.stderr.strip().splitlines()
    assert all(word in line for word in words), line
