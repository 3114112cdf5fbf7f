# SPDX-License-Identifier: Apache-2.0
"""500 chains on a cluster of 1,000 nodes that kwok simulates: written, applied, and placed by
Kubernetes' own scheduler, each chain on one node."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from support.cluster import OURS, SCRIPT, Kubectl, OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

NODES, CHAINS, AT_ONCE, APPLIED_S, PLACED_S = 1000, 500, 4, 900, 300
SPEC = f"""name: many
deployment: {{hosting: {{kind: appliances, servers: 1}}}}
graphs:
  vnfs: [nat, ip-firewall, l4-lb, l7-cache, ids, monitor, router, compression, proxy]
  base: headrace
  sample: {CHAINS}
"""


# What was exported, made as the ground makes its own deployments, and where its pods came to be.
APPLY = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import yaml
from headrace.ground.kubernetes.manifests import Manifest
from headrace.ground.kubernetes.waiting import make
from headrace.host.cluster import Cluster
cluster = Cluster()
def apply(folder):
    texts = ((folder / f"{name}.yaml").read_text() for name in ("namespace", "networks", "pods"))
    objects = [Manifest(one) for text in texts for one in yaml.load_all(text, yaml.CSafeLoader)]
    make(cluster, objects)
    return sum(one.kind == "Pod" for one in objects)
with ThreadPoolExecutor(int(sys.argv[2])) as pool:
    print(json.dumps(list(pool.map(apply, sorted(Path(sys.argv[1]).iterdir())))))
"""
PLACED = "-o=jsonpath={range .items[*]}{.metadata.namespace} {.spec.nodeName}{'\\n'}{end}"


def test_many_chains_are_placed(cluster: OwnCluster, kubectl: Kubectl, tmp_path: Path) -> None:
    if not list(cluster.home.glob("bin-*/kwok")):
        pytest.skip("no kwok is built here: scripts/cluster.sh build")
    spec, folder = tmp_path / "many.yaml", tmp_path / "manifests"
    spec.write_text(SPEC)
    times: dict[str, float] = {}

    def timed(what: str, began: float) -> None:
        times[what] = round(time.monotonic() - began, 1)

    began = time.monotonic()
    done = cluster.headrace("export", "kubernetes", spec, folder, "--network", "bridge")
    assert done.returncode == 0, done.stderr
    assert len(list(folder.iterdir())) == CHAINS
    timed("planned and written", began)
    began = time.monotonic()
    subprocess.run([SCRIPT, "fake", str(NODES)], check=True, timeout=300)
    kubectl("cordon", "node1", "node2")
    timed("nodes ready", began)
    try:
        began = time.monotonic()
        command = (sys.executable, "-c", APPLY, folder, AT_ONCE)
        done = cluster.run(*command, timeout_s=APPLIED_S)
        assert done.returncode == 0, done.stderr
        timed("applied", began)
        began = time.monotonic()
        pods = placed(kubectl, sum(json.loads(done.stdout)))
        timed("all run after the last was applied", began)
        nodes = defaultdict(set)
        for namespace, node in pods:
            nodes[namespace].add(node)
        assert len(nodes) == CHAINS
        assert all(len(one) == 1 for one in nodes.values())  # bridges are a node's own
        assert len(set().union(*nodes.values())) > 1
    finally:
        kubectl("delete", "namespaces", "-l", OURS, "--wait=false")
        kubectl("uncordon", "node1", "node2")
        kubectl("delete", "nodes", "-l", "type=kwok", "--wait=false")
    print(f"{NODES} nodes, {CHAINS} chains, {len(pods)} pods; seconds: {times}")


def placed(kubectl: Kubectl, count: int) -> list[tuple[str, str]]:
    """The namespace and node of each pod, once all run. Until then only names of those that do not
    are asked for: all of 5,500 pods are 50 MB, and seconds of the API server's time."""
    deadline = time.monotonic() + PLACED_S
    waiting = ("get", "pods", "-A", "-l", OURS, "--field-selector=status.phase!=Running")
    while left := len(kubectl(*waiting, "-o", "name").split()):
        assert time.monotonic() < deadline, f"{left} of {count} pods wait after {PLACED_S} s"
        time.sleep(3)
    every = kubectl("get", "pods", "-A", "-l", OURS, PLACED).splitlines()
    pods = [(namespace, node) for namespace, node in (line.split() for line in every)]
    assert len(pods) == count
    return pods
