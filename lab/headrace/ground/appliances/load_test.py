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
from headrace.ground.appliances.addressing import lay_out
from headrace.ground.appliances.caches import sized
from headrace.ground.appliances.feasible import capabilities
from headrace.ground.appliances.load.http import uris
from headrace.ground.appliances.load.packets import make_plan
from headrace.ground.appliances.load.reported import Load
from headrace.ground.appliances.load.stream import iperf3_load
from headrace.ground.appliances.observed import asked_s
from headrace.ground.catalogue import catalogue
from headrace.host.cpu_time import listed
from headrace.host.programs import find_engine
from headrace.spec.workload import Http, Packets

DEFINITIONS = {name: entry.definition for name, entry in catalogue().items()}


@settings(deadline=None)  # on a busy machine anything may take long
@given(st.floats(0, 1), st.integers(0, 1000))
def test_the_share_of_repeated_requests(repeated: float, seed: int) -> None:
    workload = Http(repeated=repeated, object_kb=4, hot_objects=7)
    names = uris(workload, "http://a", seed).split("\n")
    hot = [name for name in names if "/hot-" in name]
    assert len(hot) == round(repeated * len(names))
    assert len(set(hot)) <= 7
    new = [name for name in names if "/hot-" not in name]
    assert len(set(new)) == len(new)
    assert all(name.startswith("http://a/o/4/") for name in names)


def test_a_cache_is_as_large_as_what_is_repeated_needs() -> None:
    cache = DEFINITIONS["l7-cache"]
    assert sized(cache, {}, [Http()]) == {}  # 50 objects of 16 KB: the default's 64 MB do
    many = [Http(object_kb=8192, hot_objects=20), Http(object_kb=8192)]
    enough = sized(cache, {}, many)
    assert 50 * 8 + 32 * 8 < enough["memory_mb"] < 800  # those, and what is under way
    assert enough["object_max_kb"] == 8192
    assert sized(cache, {"memory_mb": 8}, many)["memory_mb"] == 8  # who says so has it
    assert sized(DEFINITIONS["nat"], {}, many) == {}
    assert sized(cache, {}, [Http(repeated=0, object_kb=8192, hot_objects=9999)]) == {}


@pytest.mark.parametrize("chain", [{}, {"nat": None, "router": "nat"}])
def test_the_testers_plan_is_one_that_the_engine_takes(
    chain: dict[str, str | None], tmp_path: Path
) -> None:
    try:
        engine = find_engine()
    except HeadraceError as error:
        pytest.skip(str(error))
    layout = lay_out(chain, {v: v for v in chain}, DEFINITIONS, {}, 1, tester=True)
    plan = make_plan(layout, Packets(), 0, "test")
    file = tmp_path / "plan.json"
    file.write_text(plan.text)
    done = subprocess.run([engine, "--check", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [mac] = plan.links["source"].params["dst_macs"]
    tester = layout.of_kind("tester")[0]
    first = layout.first_hops[0] if chain else tester.interface("up")
    assert mac == first.mac


def test_a_trial_is_as_long_as_its_generator_was_told_to_be() -> None:
    """wrk takes whole seconds: half a second was stretched to one, and called generator-bound."""
    assert asked_s(Http(), 0.5) == 1
    assert asked_s(Http(), 1.6) == 2
    assert asked_s(Packets(), 0.5) == 0.5


def test_capabilities_by_their_bits() -> None:
    assert capabilities("Name:\tx\nCapBnd:\t0000000000001001\n") == {"CHOWN", "NET_ADMIN"}
    assert "CHECKPOINT_RESTORE" in capabilities("CapBnd:\t000001ffffffffff")


def test_lists_of_cpus() -> None:
    assert list(listed("0,2-4,7")) == [0, 2, 3, 4, 7]


TCP = {
    "end": {
        "sum_sent": {"seconds": 2.0, "bytes": 900, "retransmits": 3},
        "sum_received": {"seconds": 2.1, "bytes": 800},
    }
}
UDP = {"end": {"sum": {"seconds": 2.0, "bytes": 1000, "packets": 10, "lost_packets": 4}}}


def test_what_iperf3_says() -> None:
    assert iperf3_load(json.dumps(TCP), udp=False) == Load(2.1, 800, retransmits=3)
    assert iperf3_load(json.dumps(UDP), udp=True) == Load(2.0, 600, loss_ratio=0.4)


@pytest.mark.parametrize(
    ("udp", "text"),
    [
        (False, "[]"),
        (False, '{"error": "unable to connect"}'),
        (False, json.dumps(UDP)),
        (False, json.dumps(TCP).replace("800", "null")),
        (False, json.dumps(TCP).replace("800", "-1")),
        (False, json.dumps(TCP).replace("800", "1" + "0" * 30)),
        (False, json.dumps(TCP).replace("2.1", "NaN")),
        (True, json.dumps(UDP).replace("10,", '"many",')),
        (True, "{" * 5000),
    ],
)
def test_a_vnf_changes_what_iperf3s_server_tells_its_client(udp: bool, text: str) -> None:
    with pytest.raises(HeadraceError, match=r"^iperf3: says no result: [^\n]*$"):
        iperf3_load(text, udp=udp)
