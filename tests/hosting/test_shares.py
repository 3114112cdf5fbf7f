# SPDX-License-Identifier: Apache-2.0
"""VNFs that share an lcore by the weights of their control groups, under packets: what each gets
through is worked out by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.host import cgroups
from headrace.record.bundle import Bundle
from headrace.record.rows import Result
from support.engine import free_cpus
from support.lab import headrace, state_left

pytestmark = pytest.mark.needs_root

LIGHT, HEAVY = 40_000, 120_000  # TSC cycles
NEAR = 0.1
COSTS = 0.15  # the engine's own cycles are in both, and a burst that is interrupted is cheaper


def measured(folder: Path, engine: Path, shares: str, more: str = "") -> Result:
    """Under twice the packets that half of a CPU would do of the light ones."""
    try:
        cgroups.make("probe")
    except HeadraceError as why:
        pytest.skip(str(why))
    finally:
        cgroups.remove(cgroups.name_of("probe"))
    traffic, *_, chain = free_cpus()
    (folder / "spec.yaml").write_text(
        f"""
name: shares
chain: [{{delay: {{cycles: {LIGHT}}}}}, {{delay: {{cycles: {HEAVY}}}}}]
deployment:
  hosting: {{kind: process, wait: adaptive, shares: {shares}{more}}}
  execution: pipeline
  lcores: {{traffic: [{traffic}], chain: [{chain}]}}
  burst: 4
  hugepages: false
workload: {{frame: 64, flows: 64}}
warmup: 0
measure: {{loads: [60k], trial: 4, drain: 0.5}}
"""
    )
    shutil.rmtree(folder / "b", ignore_errors=True)
    done = headrace("run", "spec.yaml", "--out", "b", folder=folder, engine=engine, timeout=200)
    assert done.returncode == 0, done.stderr
    assert state_left(folder) == []
    [result] = Bundle(folder / "b").results()
    assert _dearer(result) == pytest.approx(HEAVY / LIGHT, rel=COSTS)
    return result


def _dearer(result: Result) -> float:
    """What a packet costs the heavy one, over the light one's, as the kernel says."""
    light, heavy = (one.cost_ns for one in result.cpu_shares)
    assert light is not None and heavy is not None
    return heavy / light


def wasted(result: Result) -> float:
    """The share of the packets of the light one that it did for nothing."""
    dropped = sum(n for place, n in result.drops.items() if place.startswith("vf2/"))
    return dropped / (dropped + result.received)


def test_equal_weights_waste_what_was_done_on_two_of_three_packets(
    engine_binary: Path, tmp_path: Path
) -> None:
    """Each has half of the time: the heavy one does a third of what the light one does."""
    result = measured(tmp_path, engine_binary, "[1, 1]")
    light, heavy = result.cpu_shares
    assert (light.weight, heavy.weight) == (1000, 1000)
    assert light.cpus == pytest.approx(heavy.cpus, rel=NEAR)
    assert wasted(result) == pytest.approx(1 - 1 / _dearer(result), abs=NEAR)


def test_weights_of_their_costs_waste_next_to_nothing(engine_binary: Path, tmp_path: Path) -> None:
    """A quarter and three quarters: what the first does the second does, too."""
    result = measured(tmp_path, engine_binary, "[1, 3]")
    light, heavy = result.cpu_shares
    assert (light.weight, heavy.weight) == (333, 1000)
    assert heavy.cpus / light.cpus == pytest.approx(_dearer(result), rel=NEAR)
    assert wasted(result) <= 0.05


def test_a_run_finds_the_weights_itself(engine_binary: Path, tmp_path: Path) -> None:
    """It begins with equal ones, and so with what they waste, and ends with those of the costs."""
    result = measured(tmp_path, engine_binary, "rate-cost")
    light, heavy = result.cpu_shares
    assert light.weight is not None and heavy.weight == 1000
    assert heavy.weight / light.weight == pytest.approx(_dearer(result), rel=NEAR)
    assert wasted(result) <= (1 - LIGHT / HEAVY) / 2
