# SPDX-License-Identifier: Apache-2.0
"""What an ACL denies is lost, or is not, as the spec has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.lab import headrace

pytestmark = pytest.mark.beside

SPEC = """
name: losses
warmup: 0.1
chain:
  - acl:
      rules: [{{action: deny, src: 198.18.0.128/25}}]
      default: permit
deployment: {{execution: rtc, hugepages: false}}
workload: {{frame: 64, flows: {{count: 256, vary: [src_ip]}}, headers: {{src_ip: 198.18.0.0}}}}
measure: {{loads: [5000], trial: 0.4, losses: {losses}}}
"""


@pytest.mark.parametrize(("losses", "expected"), [("all", 0.5), ("unintended", 0.0)])
def test_denials(losses: str, expected: float, engine_binary: Path, tmp_path: Path) -> None:
    """Half of the flows are denied; the first ones pass, as the path is verified with them."""
    (tmp_path / "losses.yaml").write_text(SPEC.format(losses=losses))
    done = headrace(
        "run", "losses.yaml", "--json", folder=tmp_path, engine=engine_binary, timeout=600
    )
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["results"]
    # A ring holds a fifth of a second of this load; what a busy machine loses besides is on top.
    assert row["loss_ratio"] == pytest.approx(expected, abs=0.05)
    assert row["drops"]["acl/denied"] == pytest.approx(row["sent"] / 2, rel=0.05)
    assert ("unintended-losses-only" in row["labels"]) == (losses == "unintended")
    if losses == "unintended":
        assert row["policy_dropped"] == row["drops"]["acl/denied"]


MIRRORED = """
name: mirrored
warmup: 0.1
chain:
  - {nf: tee, to: {copy: watch}}
  - {name: slow, nf: delay, params: {cycles: 200000}, to: {out: out}}
  - {name: watch, nf: acl, params: {rules: [{action: deny}], default: deny}, to: {pass: drop}}
deployment: {execution: pipeline, wire: 256, hugepages: false}
workload: {frame: nfvbench, flows: 256}
measure: {loads: [20000], trial: 0.3, losses: unintended}
"""


def test_copies_that_a_policy_drops_hide_no_loss(engine_binary: Path, tmp_path: Path) -> None:
    """All copies of a mirror port are denied, and a slow function loses packets: it takes at most
    TSC / 200,000 a second, 20,000 on a processor of 4 GHz, and shares its lcore here."""
    (tmp_path / "mirrored.yaml").write_text(MIRRORED)
    done = headrace(
        "run", "mirrored.yaml", "--json", folder=tmp_path, engine=engine_binary, timeout=600
    )
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["results"]
    assert row["policy_dropped"] == 0
    assert row["created"]["sent"] > 0 and row["created"]["unknown"] == 0
    assert row["created"]["dropped"]["watch/denied"] > 0
    assert row["lost"] == row["sent"] - row["received"] > row["sent"] / 10
    assert sum(row["drops"].values()) == row["lost"] and "watch/denied" not in row["drops"]
    assert [one["size"] for one in row["accounts"]] == ["all", "64", "512-1023", "1024-1518"]
    assert all(one["unknown"] == 0 for one in row["accounts"])
    assert row["audit"]["verdict"] != "invalid"
