# SPDX-License-Identifier: Apache-2.0
"""Devices that a plugin offers (`network: sriov`), on a real cluster: counted by the scheduler,
given by the kubelet, told to the CNI plugin by Multus, and back on the node afterwards.

A NIC with virtual functions is not at hand. In its place are veths whose other ends are ports of a
bridge, as virtual functions are ports of their NIC's switch, and a CNI plugin that sets a virtual
function's address and moves it as `sriov` does, but by its name instead of its PCI address."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.record.bundle import Bundle
from support.cluster import OwnCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_root,
    pytest.mark.usefixtures("images", "own_state"),
]

RESOURCE, SWITCH = "lab/vf", "pf0"
FUNCTIONS = tuple(f"vf{number}" for number in range(5))  # one more than the chain wants
# multi-net-spec 1.3: of a network with a resource's name the CNI plugin is told its device.
CNI = """#!/usr/bin/python3
import json, os, subprocess, sys
config = json.load(sys.stdin)
config["type"], config["device"] = "host-device", config.pop("deviceID")
config.pop("pciBusID", None)
mac = config.get("runtimeConfig", {}).get("mac")
if os.environ["CNI_COMMAND"] == "ADD" and mac:
    subprocess.run(["ip", "link", "set", config["device"], "address", mac], check=True)
own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "host-device")
sys.exit(subprocess.run([own], input=json.dumps(config).encode()).returncode)
"""
SPEC = f"""name: functions
deployment: {{hosting: {{kind: appliances, servers: 1}}}}
chain: [nat]
workload: {{kind: http, object_kb: 16, connections: 8}}
measure: {{max: true, trial: 2 s}}
warmup: 1 s
ground: {{kubernetes: {{network: sriov, resource: {RESOURCE}, nodes: node1}}}}
"""


def offered(cluster: OwnCluster) -> str:
    path = f"jsonpath={{.status.allocatable.{RESOURCE}}}"
    return cluster.kubectl("get", "node", "node1", "-o", path)


@pytest.fixture
def functions(cluster: OwnCluster) -> Iterator[Path]:
    """They are there, and the node's kubelet offers them. Gives what their plugin says."""
    [program] = cluster.home.glob("bin-*/device-plugin") or [None]
    if program is None:
        pytest.skip("no device plugin is built here: scripts/cluster.sh build")
    state = cluster.home / "state"
    plugin, log = state / "fs1" / "cni-bin" / "sriov", state / "log" / "device-plugin"
    plugin.write_text(CNI)
    plugin.chmod(0o755)
    cluster.on_node("node1", "ip", "link", "add", SWITCH, "up", "type", "bridge")
    for name in FUNCTIONS:
        port = ("peer", "name", f"{name}p")
        cluster.on_node("node1", "ip", "link", "add", name, "type", "veth", *port)
        cluster.on_node("node1", "ip", "link", "set", f"{name}p", "up", "master", SWITCH)
    begin = f"setsid {program} {RESOURCE} {' '.join(FUNCTIONS)} >{log} 2>&1 </dev/null & echo $!"
    pid = cluster.on_node("node1", "sh", "-c", begin).strip()
    try:
        deadline = time.monotonic() + 60
        while offered(cluster) != str(len(FUNCTIONS)):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        yield log
    finally:
        cluster.on_node("node1", "kill", pid)
        for name in FUNCTIONS:
            cluster.on_node("node1", "ip", "link", "delete", name)
        cluster.on_node("node1", "ip", "link", "delete", SWITCH)
        plugin.unlink()


def test_a_chain_has_the_functions_that_the_kubelet_gave(
    cluster: OwnCluster, functions: Path, tmp_path: Path
) -> None:
    """Each interface has one of its own; all come back, and doctor has seen what is offered."""
    spec, bundle = tmp_path / "functions.yaml", tmp_path / "bundle"
    spec.write_text(SPEC)
    done = cluster.headrace("run", spec, "--out", bundle)
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}
    [result] = Bundle(bundle).results()
    assert result.application is not None
    assert result.application.requests > 100
    assert result.application.errors == 0
    given = [one.split() for one in re.findall(r"given: \[(.*)\]", functions.read_text())]
    assert sorted(map(len, given)) == [1, 1, 2]  # client, server, NAT
    names = [name for pod in given for name in pod]
    assert len(names) == len(set(names)) and set(names) < set(FUNCTIONS)
    for name in names:  # a NAT forwards as many as it is sent, and the node has counted them
        counted = cluster.packets("node1", name)
        assert counted.sent > 1000 and counted.received > 1000, (name, counted)
    links = cluster.on_node("node1", "ip", "-brief", "link")
    assert all(f"{name}@" in links for name in FUNCTIONS), links
    told = cluster.headrace("doctor", "--kubernetes", "--json").stdout
    [devices] = [one for one in json.loads(told)["checks"] if one["name"] == "device plugins"]
    assert devices["found"] == f"{RESOURCE} (node1: {len(FUNCTIONS)})"
