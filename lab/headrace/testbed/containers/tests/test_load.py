# SPDX-License-Identifier: Apache-2.0
"""What load generators are told, without running them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.spec.appliance import HttpWorkload, PacketsWorkload
from headrace.testbed.containers.feasible import capabilities, cpus
from headrace.testbed.containers.layout import lay_out
from headrace.testbed.containers.load.http import uris
from headrace.testbed.containers.load.packets import make_plan
from headrace.testbed.programs import find_engine
from headrace.testbed.vnf import catalogue

DEFINITIONS = {name: entry.definition for name, entry in catalogue().items()}


@settings(deadline=None)  # on a busy machine anything may take long
@given(st.floats(0, 1), st.integers(0, 1000))
def test_the_share_of_repeated_requests(repeated: float, seed: int) -> None:
    workload = HttpWorkload(repeated=repeated, object_kb=4, hot_objects=7)
    names = uris(workload, "http://a", seed).split("\n")
    hot = [name for name in names if "/hot-" in name]
    assert abs(len(hot) / len(names) - repeated) < 0.05
    assert len(set(hot)) <= 7
    new = [name for name in names if "/hot-" not in name]
    assert len(set(new)) == len(new)
    assert all(name.startswith("http://a/o/4/") for name in names)


@pytest.mark.parametrize("chain", [{}, {"nat": None, "router": "nat"}])
def test_the_testers_plan_is_one_that_the_engine_takes(
    chain: dict[str, str | None], tmp_path: Path
) -> None:
    try:
        engine = find_engine()
    except HeadraceError as error:
        pytest.skip(str(error))
    layout = lay_out(chain, {v: v for v in chain}, DEFINITIONS, {}, 1, tester=True)
    plan = make_plan(layout, PacketsWorkload(kind="packets", lcore=0), "test")
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    done = subprocess.run([engine, "--check", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [mac] = plan["links"]["source"]["params"]["dst_macs"]
    tester = layout.of_kind("tester")[0]
    first = layout.first_hops[0] if chain else tester.interface("up")
    assert mac == first.mac


def test_capabilities_by_their_bits() -> None:
    assert capabilities("Name:\tx\nCapBnd:\t0000000000001001\n") == {"CHOWN", "NET_ADMIN"}
    assert "CHECKPOINT_RESTORE" in capabilities("CapBnd:\t000001ffffffffff")


def test_lists_of_cpus() -> None:
    assert list(cpus("0,2-4,7")) == [0, 2, 3, 4, 7]
