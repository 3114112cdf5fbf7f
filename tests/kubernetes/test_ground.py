# SPDX-License-Identifier: Apache-2.0
"""Studies run on a real cluster: deployed, verified, measured, undone; and what is left when a pod,
the lab or the way to the API server goes in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.record.bundle import Bundle
from support.cluster import HUGEPAGES, OwnCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_root,
    pytest.mark.usefixtures("images", "own_state"),
]

APPLIANCES = """name: {name}
deployment: {{hosting: {{kind: appliances, servers: 2}}}}
chain: [{chain}]
workload: {{kind: http, object_kb: 16, connections: 8}}
measure: {{max: true, trial: {trial} s}}
warmup: 1 s
repetitions: {repetitions}
ground: {{kubernetes: {{}}}}
"""
ENGINES = """name: pods
chain:
  - acl: {rules: [{action: permit}], default: deny}
  - l2fwd: {}
deployment: {execution: EXECUTION}
workload: {frame: 128, flows: 256}
measure: {loads: [2k], trial: 1 s}
warmup: 0.2 s
ground: {kubernetes: {cpus: 0, pod_cpus: {tester: 1}, nodes: node1}}
"""

PROVING = 100  # packets that prove a path before the first trial, at most


def appliances(
    folder: Path, chain: str, name: str = "chain", trial: int = 2, repetitions: int = 1
) -> Path:
    spec = folder / f"{name}.yaml"
    spec.write_text(APPLIANCES.format(name=name, chain=chain, trial=trial, repetitions=repetitions))
    return spec


def rows(bundle: Path, table: str) -> list[dict[str, Any]]:
    with duckdb.connect() as db:
        query = db.execute(f"SELECT * FROM read_parquet('{bundle}/{table}.parquet')")
        names = [column[0] for column in query.description or ()]
        return [dict(zip(names, row, strict=True)) for row in query.fetchall()]


def test_a_chain_of_appliances_is_measured_and_leaves_nothing(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    spec, bundle = appliances(tmp_path, "nat, ip-firewall"), tmp_path / "bundle"
    done = cluster.headrace("run", spec, "--out", bundle)
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}
    [result] = rows(bundle, "results")
    application = result["application"]
    assert application["requests"] > 100
    assert application["errors"] == 0
    counters = dict(application["counters"])
    served = sum(dict(counters[name])["requests"] for name in ("server1", "server2"))
    assert served >= application["requests"] - 8  # one under way on each connection
    environment = json.loads((bundle / "environment.json").read_text())
    assert set(environment["kubernetes"]["nodes"]) == {"node1", "node2"}
    assert environment["kernel"] == {}  # of the lab's machine nothing
    pods = json.loads((bundle / "samples" / "pods.json").read_text())
    [places] = pods.values()
    assert {place["node"] for place in places.values()} == {"node1"}  # a bridge is a node's own


def test_an_ids_sees_both_ways(cluster: OwnCluster, tmp_path: Path) -> None:
    """Copies go by a bridge that learns where senders are: of a reply it would let none pass."""
    spec, bundle = appliances(tmp_path, "nat, ids"), tmp_path / "bundle"
    done = cluster.headrace("run", spec, "--out", bundle)
    assert done.returncode == 0, done.stderr
    trials = [one for one in rows(bundle, "trials") if one["phase"] != "warm-up"]
    checks = {f["check"]: f for one in trials for f in one["audit"]["findings"]}
    assert checks["ids: alerts"]["ok"], checks["ids: alerts"]["text"]


def explained(bundle: Path) -> set[tuple[str, str]]:
    command = [sys.executable, "-m", "headrace", "explain", str(bundle), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {(one["rule"], one["place"]) for one in json.loads(done.stdout)}


def test_a_pod_that_its_limit_stops_is_explained(cluster: OwnCluster, tmp_path: Path) -> None:
    spec, bundle = appliances(tmp_path, "l7-cache"), tmp_path / "bundle"
    limits = "servers: 2, vnfs: {l7-cache: {cpus: 0.1}}"
    spec.write_text(spec.read_text().replace("servers: 2", limits))
    done = cluster.headrace("run", spec, "--out", bundle)
    assert done.returncode == 0, done.stderr
    assert ("pod-throttled", "l7-cache") in explained(bundle)


def test_a_chain_over_two_nodes(cluster: OwnCluster, tmp_path: Path) -> None:
    """By macvlan on the device that joins the nodes."""
    spec, bundle = appliances(tmp_path, "nat, ip-firewall"), tmp_path / "bundle"
    ground = (
        "{network: macvlan, master: eth0, "
        "place: {client: node1, nat: node2, ip-firewall: node1, server1: node2, server2: node2}}"
    )
    spec.write_text(spec.read_text().replace("kubernetes: {}", f"kubernetes: {ground}"))
    done = cluster.headrace("run", spec, "--out", bundle)
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}
    [places] = json.loads((bundle / "samples" / "pods.json").read_text()).values()
    assert {name: place["node"] for name, place in places.items()} == {
        "client": "node1", "nat": "node2", "ip-firewall": "node1", "server1": "node2",
        "server2": "node2",
    }  # fmt: skip


def test_devices_of_a_node_are_given_and_come_back(cluster: OwnCluster, tmp_path: Path) -> None:
    """Two wires of a node, one on each side of the VNF."""
    wires = (("wire0a", "wire0b"), ("wire1a", "wire1b"))
    for one, other in wires:
        cluster.on_node("node1", "ip", "link", "add", one, "type", "veth", "peer", "name", other)
    spec, bundle = appliances(tmp_path, "ip-firewall"), tmp_path / "bundle"
    own = "ip-firewall/up: wire0b, ip-firewall/down: wire1a"
    devices = f"{{client/down: wire0a, {own}, server1/up: wire1b}}"
    places = "{client: node1, ip-firewall: node1, server1: node1}"
    ground = f"{{network: host-device, devices: {devices}, place: {places}}}"
    text = spec.read_text().replace("servers: 2", "servers: 1")
    spec.write_text(text.replace("kubernetes: {}", f"kubernetes: {ground}"))
    try:
        done = cluster.headrace("run", spec, "--out", bundle)
        assert done.returncode == 0, done.stderr
        assert cluster.left() == {}
        [result] = rows(bundle, "results")
        assert result["application"]["requests"] > 100
        assert result["application"]["errors"] == 0
        links = cluster.on_node("node1", "ip", "-brief", "link")
        assert all(f"{name}@" in links for pair in wires for name in pair), links
    finally:
        for one, _ in wires:
            cluster.on_node("node1", "ip", "link", "delete", one)


@pytest.mark.parametrize(
    ("execution", "link"), [("rtc", "memif"), ("pipeline", "memif"), ("pipeline", "vhost-user")]
)
def test_engines_in_pods_lose_nothing(
    cluster: OwnCluster, tmp_path: Path, execution: str, link: str
) -> None:
    spec, bundle = tmp_path / "pods.yaml", tmp_path / "bundle"
    spec.write_text(
        ENGINES.replace("EXECUTION", execution).replace("{cpus: 0", f"{{link: {link}, cpus: 0")
    )
    done = cluster.headrace("run", spec, "--out", bundle)
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}
    trials = [one for one in rows(bundle, "trials") if one["phase"] != "warm-up"]
    assert trials
    for one in trials:
        checks = {f["check"]: f["ok"] for f in one["audit"]["findings"]}
        assert checks["conservation"], one["audit"]
        assert one["sent"] == one["received"] > 0
    places = next(iter(json.loads((bundle / "samples" / "pods.json").read_text()).values()))
    assert places["tester"]["exclusive"]
    assert len(places["tester"]["cpus"]) == 1
    assert not places["vnf1"]["exclusive"]
    assert set(places["tester"]["cpus"]).isdisjoint(places["vnf1"]["cpus"])
    sharing = {place for rule, place in explained(bundle) if rule == "pod-shares-cpus"}
    assert "vnf1" in sharing
    assert "tester" not in sharing


def test_a_tester_on_a_node_of_its_own(cluster: OwnCluster, tmp_path: Path) -> None:
    """Two wires join the nodes, and are given to the pods; both ways. Kernels count as many packets
    as the trials say, and none between the pods that they do not."""
    wires = {"tester/left": "vnf1/in", "tester/right": "vnf1/out"}
    devices = {one: f"wire{i}" for i, pair in enumerate(wires.items()) for one in pair}
    for name in sorted(set(devices.values())):
        cluster.wire(name)
    ground = (
        "{network: host-device, place: {tester: node1}, "
        f"devices: {{{', '.join(f'{one}: {device}' for one, device in devices.items())}}}}}"
    )
    spec, bundle = tmp_path / "pods.yaml", tmp_path / "bundle"
    own = ENGINES.partition("ground: ")[0].replace("EXECUTION", "rtc")
    own = own.replace("flows: 256", "flows: 256, direction: both")
    spec.write_text(f"{own}ground: {{kubernetes: {ground}}}\n")
    try:
        done = cluster.headrace("run", spec, "--out", bundle)
        assert done.returncode == 0, done.stderr
        assert cluster.left() == {}
        every = Bundle(bundle).trials()
        trials = [one for one in every if one.phase != "warm-up"]
        assert {one.direction for one in trials} == {"forward", "reverse", "both"}
        for one in trials:
            checks = {finding.check: finding.ok for finding in one.audit.findings}
            assert checks["conservation"], one.audit
            assert one.sent == one.received > 1000
        places = next(iter(json.loads((bundle / "samples" / "pods.json").read_text()).values()))
        assert {pod: one["node"] for pod, one in places.items()} == {
            "tester": "node1", "vnf1": "node2",
        }  # fmt: skip
        assert all(one["exclusive"] for one in places.values())  # each node has one CPU to give
        ports = [one.counters.ports for one in every if one.direction == "both" and one.counters]
        for port, far in wires.items():  # back on the nodes, with what they counted
            there = cluster.packets("node1", devices[port])
            here = cluster.packets("node2", devices[far])
            assert (there.sent, there.received) == (here.received, here.sent)
            counted = [read[port.removeprefix("tester/")] for read in ports]
            assert 0 <= there.sent - sum(read.tx_packets for read in counted) <= PROVING
            assert 0 <= there.received - sum(read.rx_packets for read in counted) <= PROVING
    finally:
        for name in sorted(set(devices.values())):
            cluster.on_node("node1", "ip", "link", "delete", name)


# what goes in the middle ------------------------------------------------------------------------


@contextmanager
def begun(
    cluster: OwnCluster, spec: Path, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A run whose pods are up."""
    log = folder / "log"
    process = cluster.begin("run", spec, "--out", folder / "bundle", log=log)
    try:
        deadline = time.monotonic() + 120
        while "node1: " not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield process, log
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def last(log: Path) -> str:
    text = log.read_text()
    assert "Traceback" not in text
    return text.strip().splitlines()[-1]


def namespace(cluster: OwnCluster) -> str:
    [one] = cluster.left()["cluster"]
    return str(one).removeprefix("namespace/")


def test_a_pod_that_is_deleted_is_named(cluster: OwnCluster, tmp_path: Path) -> None:
    spec = appliances(tmp_path, "nat, ip-firewall", trial=5, repetitions=4)
    with begun(cluster, spec, tmp_path) as (process, log):
        cluster.kubectl("delete", "pod", "-n", namespace(cluster), "nat", "--force")
        assert process.wait(120) == 1
    assert last(log) == "headrace: pod nat on node1: somebody deleted it"
    assert cluster.left() == {}


def test_a_container_that_is_killed_is_named(cluster: OwnCluster, tmp_path: Path) -> None:
    spec = tmp_path / "pods.yaml"
    spec.write_text(ENGINES.replace("EXECUTION", "rtc").replace("trial: 1 s", "trial: 20 s"))
    with begun(cluster, spec, tmp_path) as (process, log):
        path = "jsonpath={.status.containerStatuses[0].containerID}"
        told = cluster.kubectl("get", "pod", "-n", namespace(cluster), "vnf1", "-o", path)
        number = told.removeprefix("containerd://")
        cluster.on_node("node1", "ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", number)
        assert process.wait(120) == 1
    assert last(log).startswith("headrace: pod vnf1: its container engine ended (")
    assert cluster.left() == {}


def killed_lab(cluster: OwnCluster, folder: Path) -> str:
    """The namespace of a lab that was killed beside its engines."""
    spec = folder / "pods.yaml"
    spec.write_text(ENGINES.replace("EXECUTION", "rtc").replace("trial: 1 s", "trial: 20 s"))
    with begun(cluster, spec, folder) as (process, _):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return namespace(cluster)


def cleaned(cluster: OwnCluster, name: str) -> None:
    done = cluster.headrace("clean")
    assert done.returncode == 0, done.stderr
    assert f"removed namespace {name}" in done.stdout
    assert cluster.left() == {}
    assert cluster.headrace("clean").stdout == "nothing to clean\n"


def test_what_a_killed_lab_left_is_cleaned(cluster: OwnCluster, tmp_path: Path) -> None:
    """Neither engines nor pods, bridges, folders: by `clean` alone, from the ledger. Until then
    doctor tells of it."""
    name = killed_lab(cluster, tmp_path)
    engines = ("exec", "-n", name, "vnf1", "--", "sh", "-c", "grep -l headrace-eng /proc/*/comm")
    deadline = time.monotonic() + 30  # an engine ends when its client is gone
    while cluster.run("kubectl", *engines).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    told = cluster.headrace("doctor", "--kubernetes", "--json").stdout
    [runs] = [one for one in json.loads(told)["checks"] if one["name"] == "runs"]
    assert runs["status"] == "limited" and f"namespaces: {name} (since " in runs["found"], runs
    cleaned(cluster, name)


def test_what_a_deleted_namespace_did_not_own_is_cleaned(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    """Somebody has deleted it, and its pods with it: the folder of their sockets is its node's."""
    name = killed_lab(cluster, tmp_path)
    cluster.kubectl("delete", "namespace", name, "--timeout=100s")
    left = cluster.left()  # these nodes have one /run, as they are one machine
    assert "cluster" not in left
    assert left["node1"] == [f"/run/{name}"]
    cleaned(cluster, name)


def test_the_way_to_the_api_server_is_cut(cluster: OwnCluster, tmp_path: Path) -> None:
    """What could not be undone then is undone by `clean` when it is there again."""
    spec = appliances(tmp_path, "nat, ip-firewall", trial=5, repetitions=4)
    rule = ("INPUT", "-p", "tcp", "--dport", "6443", "-i", "lo", "-j", "DROP")
    with begun(cluster, spec, tmp_path) as (process, log):
        cluster.on_node("node1", "iptables", "-I", *rule)
        try:
            assert process.wait(200) == 1
        finally:
            cluster.on_node("node1", "iptables", "-D", *rule)
    assert last(log).startswith("headrace: Kubernetes: "), log.read_text()
    assert namespace(cluster)
    deadline = time.monotonic() + 120
    while "NotReady" in cluster.kubectl("get", "nodes"):
        assert time.monotonic() < deadline
        time.sleep(1)
    done = cluster.headrace("clean")
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}


# what it can do ---------------------------------------------------------------------------------


def test_doctor_looks_at_the_cluster(cluster: OwnCluster) -> None:
    done = cluster.headrace("doctor", "--kubernetes", "--json")
    assert done.returncode == 0, done.stderr
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert checks["api server"]["found"].endswith("Kubernetes v1.33.1")
    assert {
        n: checks[n]["status"] for n in ("nodes", "cpu manager", "multus", "rights")
    } == dict.fromkeys(("nodes", "cpu manager", "multus", "rights"), "ok")
    assert checks["device plugins"]["status"] == "missing"
    assert checks["runs"]["found"] == "the cluster has no namespace of headrace's"
    claims = checks["dra drivers"]
    assert claims["status"] == "missing" and "has v1beta2, v1beta1; " in claims["found"], claims
    pages = f"{2 * int(HUGEPAGES)}Mi of 2Mi"
    assert checks["hugepages"]["found"] == f"node1: {pages}, node2: {pages}"
