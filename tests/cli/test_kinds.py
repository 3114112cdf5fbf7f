# SPDX-License-Identifier: Apache-2.0
"""One study of each kind: the bundle that it leaves is taken by report, explain and diff, and can
be run again from another folder."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.record.bundle import Bundle
from support.engine import free_cpus
from support.lab import headrace, state_left
from support.netns import netns_refusal

pytestmark = pytest.mark.beside

CHAIN = """
chain: [{acl: {rules_file: my.rules}}, monitor]
warmup: 0.1
"""
SHORT = "measure: {max: true, loads: [20k], trial: 0.3, pairs: 1}\n"
RULES = "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n"
ROOT = pytest.mark.needs_root
READERS = (
    ("report", "one", "--json"),
    ("explain", "one"),
    ("diff", "one", "one"),
    ("run", "one", "--check"),
)

KINDS = {
    "inline": CHAIN + "deployment: {hugepages: false, execution: [rtc, pipeline]}\n" + SHORT,
    "hosted": CHAIN + "deployment: {hugepages: false, hosting: {kind: process}}\n" + SHORT,
    "groups": "deployment: {hugepages: false}\nwarmup: 0.1\n" + SHORT + """
groups:
  small:
    about: A function of no cost.
    spec: {chain: [l2fwd]}
    sweep: {workload.frame: [64, 512]}
  large:
    about: What no machine has.
    spec: {chain: [l2fwd]}
    needs: [{lcores: 100000}]
""",
    "chaos": """
chain: [l2fwd]
deployment: {hugepages: false, hosting: {kind: process, chains: 2, wait: adaptive}}
measure: {loads: [2k], chaos: {every: 0.5s, duration: 2s}}
""",
    "offload": """
deployment:
  hugepages: false
  memory_mb: 256
  hosting: {kind: offload, modes: [bare-metal, offload], vnfs: 2, routes: 16}
workload: {frame: 64, flows: 64}
warmup: 0.1
""" + SHORT,
}  # fmt: skip


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=ROOT) if k == "offload" else k for k in KINDS]
)
def test_a_study(kind: str, engine_binary: Path, tmp_path: Path) -> None:
    if len(free_cpus()) < 2:
        pytest.skip("needs two CPUs")
    if kind == "offload" and (refusal := netns_refusal()):
        pytest.skip(refusal)
    (tmp_path / "my.rules").write_text(RULES)
    (tmp_path / "spec.yaml").write_text(f"name: t{os.getpid() % 10000}-{kind}\n{KINDS[kind]}")
    done = headrace("run", "spec.yaml", "--out", "one", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    if kind == "chaos":
        [row] = Bundle(tmp_path / "one").results()
        # The time that it takes until all is settled is none of the load's.
        assert row.sent_pps == pytest.approx(row.load_pps, rel=0.15)
    taken(tmp_path, engine_binary)


def taken(folder: Path, engine: Path) -> None:
    """What the bundle `one` is good for; its files are all that is left."""
    moved = folder / "elsewhere"
    moved.mkdir()
    shutil.move(folder / "one", moved / "one")
    for own in ("spec.yaml", "my.rules"):
        (folder / own).unlink(missing_ok=True)

    def asked(arguments: tuple[str, ...]) -> str:
        done = headrace(*arguments, folder=moved, engine=engine)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        assert done.stdout.strip(), arguments
        return done.stdout

    # They only read it, and need no lcore.
    with ThreadPoolExecutor(2) as pool:
        shown, *_ = pool.map(asked, READERS)
    assert json.loads(shown)["results"], "no result in it"
    assert state_left(folder) == []
