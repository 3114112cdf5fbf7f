# SPDX-License-Identifier: Apache-2.0
"""Layers of pods, read by agents on a real cluster's nodes: held against what the pods themselves
say of their control groups, and gone with the deployment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from headrace.collect.samples import Samples
from headrace.collect.watch import trial_times
from support.cluster import OwnCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_root,
    pytest.mark.usefixtures("images", "own_state"),
]

SPEC = """name: read
deployment: {{hosting: {{kind: appliances, servers: 1}}}}
chain: [nat]
workload: {{kind: http, object_kb: 16, connections: 8}}
measure: {{max: true, trial: 4 s}}
warmup: 1 s
collect: {{period: 0.5, trace: 0.1}}
ground: {{kubernetes: {{agent: {image}, {more}}}}}
"""
ENGINES = """name: read
chain: [{{acl: {{rules: [{{action: permit}}]}}}}]
workload: {{frame: 128, flows: 256}}
measure: {{loads: [2k], trial: 2 s}}
warmup: 0.2 s
collect: {{period: 0.5, trace: 0.1}}
ground: {{kubernetes: {{cpus: 0, pod_cpus: {{tester: 1}}, nodes: node1, agent: {image}}}}}
"""
WITHIN = "--timeout=120s"  # of its own accord kubectl waits for 30
# A pod that a restricted namespace takes, and agents that it does not.
FORBIDDEN = """
import json, sys, time
from headrace.ground.kubernetes.agents import agents_on
from headrace.host.cluster import Cluster
from headrace.host.stopwatch import Stopwatch
from headrace.spec.collect import Collect
collect = Collect.model_validate({"layers": ["os"]})
began = time.monotonic()
with agents_on(Cluster(), "restricted", sys.argv[1], collect, Stopwatch()) as elsewhere:
    [layer] = elsewhere.collectors(["os"])
    print(json.dumps([layer.refusal(), time.monotonic() - began]))
"""


def measured(cluster: OwnCluster, folder: Path, text: str) -> Path:
    spec, bundle = folder / "read.yaml", folder / "bundle"
    spec.write_text(text)
    done = cluster.headrace("run", spec, "--out", bundle)
    assert done.returncode == 0, done.stderr
    assert cluster.left() == {}
    return bundle


def application(bundle: Path) -> Any:
    query = f"SELECT application FROM read_parquet('{bundle}/results.parquet')"
    with duckdb.connect() as db:
        [(one,)] = db.execute(query).fetchall()
    return one


def test_what_agents_read_is_what_pods_say_of_themselves(
    cluster: OwnCluster, own_image: str, tmp_path: Path
) -> None:
    bundle = measured(cluster, tmp_path, SPEC.format(image=own_image, more="nodes: node1"))
    samples, [trial] = Samples(bundle / "samples"), trial_times(bundle / "samples")
    assert set(samples.refused) <= {"application"}, samples.refused
    groups = samples.window("virtualization", trial.begin_ns, trial.end_ns)
    assert set(groups.rate("cgroup_cpu_ns")) == {"client", "nat", "server1"}
    by_pod = dict(application(bundle)["cpu"])  # by each pod, asked by a command in it
    for name in ("client", "server1"):
        assert groups.rate("cgroup_cpu_ns")[name] / 1e9 == pytest.approx(by_pod[name], rel=0.3)
    devices = groups.change("rx_packets")
    assert devices["nat/up"] > 100 < devices["nat/down"], devices
    switch = samples.window("virtual-switch", trial.begin_ns, trial.end_ns)
    assert switch.now("bridge_fdb_entries")
    hardware = samples.window("hardware", trial.begin_ns, trial.end_ns)
    assert {"cpu0@node1", "cpu1@node1"} <= set(hardware.rate("cpu_user_s"))
    assert samples.window("os").change("collector_cpu_ns")["node1"] > 0


def test_two_nodes_have_an_agent_each(cluster: OwnCluster, own_image: str, tmp_path: Path) -> None:
    more = "network: macvlan, master: eth0, place: {client: node1, nat: node2, server1: node1}"
    bundle = measured(cluster, tmp_path, SPEC.format(image=own_image, more=more))
    samples = Samples(bundle / "samples")
    places = samples.window("hardware").rate("cpu_user_s")
    assert {"cpu0@node1", "cpu0@node2"} <= set(places)
    assert set(samples.window("virtualization").now("cgroup_memory_bytes")) == {
        "client", "nat", "server1",
    }  # fmt: skip
    absent = next((bundle / "samples").glob("stack-absent.txt")).read_text()
    assert absent == "packets' ways are followed on one node; this deployment is on 2\n"


def test_engines_are_read_by_their_pods(
    cluster: OwnCluster, own_image: str, tmp_path: Path
) -> None:
    """The tester polls on a CPU of its own: its group has all of that, or what there was of it."""
    bundle = measured(cluster, tmp_path, ENGINES.format(image=own_image))
    samples = Samples(bundle / "samples")
    used = samples.window("virtualization").rate("cgroup_cpu_ns")
    assert set(used) == {"tester", "vnf1"}
    assert 0.3e9 < used["tester"] < 2.1e9, used  # the program's other threads have the reserved one
    assert samples.window("os").change("collector_cpu_ns")["node1"] > 0
    assert {"cpu0@node1", "cpu1@node1"} <= set(samples.window("hardware").rate("cpu_user_s"))


def test_a_namespace_that_forbids_them_is_quoted(
    cluster: OwnCluster, own_image: str, tmp_path: Path
) -> None:
    container = {"name": "c", "image": own_image, "command": ["sleep", "600"]}
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "restricted"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }  # fmt: skip
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    try:
        cluster.kubectl("create", "namespace", "restricted")
        cluster.kubectl("wait", "-n", "restricted", "--for=create", "serviceaccount/default")
        cluster.kubectl("apply", "-f", tmp_path / "pod.json")
        cluster.kubectl("wait", "-n", "restricted", "--for=condition=Ready", "pod/p", WITHIN)
        label = "pod-security.kubernetes.io/enforce=restricted"
        cluster.kubectl("label", "namespace", "restricted", label)
        done = cluster.run(sys.executable, "-c", FORBIDDEN, own_image)
        assert done.returncode == 0, done.stderr
        why, seconds = json.loads(done.stdout)
        assert why.startswith("agents of nodes: Error creating: pods "), why
        assert 'violates PodSecurity "restricted:latest": host namespaces' in why
        assert seconds < 60
    finally:
        cluster.kubectl("delete", "namespace", "restricted", WITHIN)
