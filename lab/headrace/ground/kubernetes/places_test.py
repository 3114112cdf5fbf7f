# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.ground.kubernetes.places import note, place_in
from headrace.record.own import sample_record
from headrace.record.pods import PODS, DeployedPodPlaces

TEXT = """cpus 2-3
mems 0-63
node 0 0-1
node 1 2-5
device 0000:81:00.1 1
store-bypass thread force mitigated
nr_periods 120
nr_throttled 7
throttled_time 12345
"""


def pod(cpu: str | None, qos: str) -> dict[str, Any]:
    limits = {} if cpu is None else {"cpu": cpu}
    container = {"name": "vnf", "resources": {"limits": limits}}
    spec = {"nodeName": "n", "containers": [container]}
    return {"metadata": {"name": "nat"}, "spec": spec, "status": {"qosClass": qos}}


def test_what_a_node_gave_a_pod() -> None:
    one = place_in(TEXT, pod("2", "Guaranteed"), "vnf", polls=True)
    assert (one.cpus, one.exclusive, one.cpu_nodes, one.memory_nodes) == (
        (2, 3),
        True,
        (1,),
        (0, 1),
    )
    assert (one.devices, one.periods, one.throttled) == ({"0000:81:00.1": 1}, 120, 7)
    assert one.store_bypass == "thread force mitigated"


def test_cpus_are_its_own_only_where_it_asked_for_as_many_whole_ones() -> None:
    """Under no static CPU manager it may run on all of the node's."""
    assert not place_in(TEXT, pod("1", "Guaranteed"), "vnf", polls=True).exclusive
    assert not place_in(TEXT, pod("2", "Burstable"), "vnf", polls=True).exclusive
    half = place_in(TEXT, pod("500m", "Guaranteed"), "vnf", polls=False)
    assert (half.exclusive, half.cpu_limit) == (False, 0.5)
    assert place_in(TEXT, pod(None, "BestEffort"), "vnf", polls=False).cpu_limit is None


def test_deployments_are_noted_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    one = place_in(TEXT, pod("2", "Guaranteed"), "vnf", polls=True)
    note(tmp_path, "a", {"nat": one})
    note(tmp_path, "b", {"nat": one})
    known = sample_record(tmp_path / "samples", PODS, DeployedPodPlaces)
    assert known is not None
    assert known.root == {"a": {"nat": one}, "b": {"nat": one}}
