# SPDX-License-Identifier: Apache-2.0
"""500 chains on a cluster of 1,000 nodes that kwok simulates: written, applied, and placed by
Kubernetes' own scheduler, each chain on one node."""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.cluster import OURS, SCRIPT, Kubectl, OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

NODES, CHAINS, AT_ONCE, PLACED_S = 1000, 500, 8, 900
SPEC = f"""name: many
deployment: {{hosting: {{kind: appliances, servers: 1}}}}
graphs:
  vnfs: [nat, ip-firewall, l4-lb, l7-cache, ids, monitor, router, compression, proxy]
  base: headrace
  sample: {CHAINS}
"""


def test_many_chains_are_placed(cluster: OwnCluster, kubectl: Kubectl, tmp_path: Path) -> None:
    if not list(cluster.home.glob("bin-*/kwok")):
        pytest.skip("no kwok is built here: scripts/cluster.sh build")
    spec, folder = tmp_path / "many.yaml", tmp_path / "manifests"
    spec.write_text(SPEC)
    times = {}

    def timed(what: str, began: float) -> None:
        times[what] = round(time.monotonic() - began, 1)

    began = time.monotonic()
    done = cluster.headrace("export", "kubernetes", spec, folder, "--network", "bridge")
    assert done.returncode == 0, done.stderr
    folders = sorted(folder.iterdir())
    assert len(folders) == CHAINS
    timed("written", began)
    began = time.monotonic()
    subprocess.run([SCRIPT, "fake", str(NODES)], check=True, timeout=300)
    kubectl("cordon", "node1", "node2")
    timed("nodes ready", began)
    try:
        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            parts = [folders[i::AT_ONCE] for i in range(AT_ONCE)]
            list(pool.map(lambda part: apply(kubectl, part, tmp_path), parts))
        timed("applied", began)
        every = (one.read_text() for one in folder.rglob("pods.yaml"))
        pods = placed(kubectl, sum(text.count("kind: Pod") for text in every))
        timed("applied and placed", began)
        nodes = defaultdict(set)
        for pod in pods:
            nodes[pod["metadata"]["namespace"]].add(pod["spec"]["nodeName"])
        assert len(nodes) == CHAINS
        assert all(len(one) == 1 for one in nodes.values())  # bridges are a node's own
        assert len(set().union(*nodes.values())) > 1
    finally:
        kubectl("delete", "namespaces", "-l", OURS, "--wait=false")
        kubectl("uncordon", "node1", "node2")
        kubectl("delete", "nodes", "-l", "type=kwok", "--wait=false")
    print(f"{NODES} nodes, {CHAINS} chains, {len(pods)} pods: {times}")


def apply(kubectl: Kubectl, folders: list[Path], scratch: Path) -> None:
    """The namespaces first, then what is in them."""
    for name in ("namespace.yaml", "networks.yaml", "pods.yaml"):
        whole = scratch / f"{folders[0].name}-{name}"
        whole.write_text("---\n".join((one / name).read_text() for one in folders))
        kubectl("create", "-f", whole)


def placed(kubectl: Kubectl, count: int) -> list[Any]:
    """All pods, once each has its node and runs there. Until then only names of those that do not
    are asked for: all of 5,500 pods are 50 MB, and seconds of the API server's time."""
    deadline = time.monotonic() + PLACED_S
    waiting = ("get", "pods", "-A", "-l", OURS, "--field-selector=status.phase!=Running")
    while left := len(kubectl(*waiting, "-o", "name").split()):
        assert time.monotonic() < deadline, f"{left} of {count} pods wait after {PLACED_S} s"
        time.sleep(5)
    pods = json.loads(kubectl("get", "pods", "-A", "-l", OURS, "-o", "json"))["items"]
    assert len(pods) == count
    return list(pods)
