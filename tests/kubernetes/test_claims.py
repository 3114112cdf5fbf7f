# SPDX-License-Identifier: Apache-2.0
"""Virtual functions that are claimed of a driver (dynamic resource allocation): exported manifests,
taken by a real API server and allocated by Kubernetes' own scheduler, on nodes that kwok simulates.
What a driver does on its node then is not seen here: there is none."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import OURS, SCRIPT, Kubectl, OwnCluster

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

CLASS, RESOURCE, NODE = "vf.example.com", "lab/vf", "fake1"
SERVED = "resource.k8s.io/v1beta2"  # as this cluster's version has it; its fields are those of v1
# Those of client, NAT and server, and one more, with which nobody can begin another chain's NAT.
DEVICES = 5
_OURS = "k8s.cni.cncf.io"  # the attributes by which Multus knows a device
# Of the same driver, and first in its list, are what no network attachment means: one that says
# nothing, and one whose address Multus is not told.
OTHERS: list[dict[str, Any]] = [
    {"name": "other"},
    {"name": "unnamed", "attributes": {f"{_OURS}/resourceName": {"string": RESOURCE}}},
]
OBJECTS = [
    {
        "apiVersion": SERVED, "kind": "DeviceClass", "metadata": {"name": CLASS},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{CLASS}"'}}]},
    },
    {
        "apiVersion": SERVED, "kind": "ResourceSlice", "metadata": {"name": "slice"},
        "spec": {
            "driver": CLASS,
            "nodeName": NODE,
            "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                *OTHERS,
                *(
                    {
                        "name": f"vf{number}",
                        "attributes": {
                            f"{_OURS}/resourceName": {"string": RESOURCE},
                            f"{_OURS}/deviceID": {"string": f"0000:3b:02.{number}"},
                        },
                    }
                    for number in range(DEVICES)
                ),
            ],
        },
    },
]  # fmt: skip


@pytest.fixture
def driver(cluster: OwnCluster, kubectl: Kubectl, tmp_path: Path) -> Iterator[None]:
    """What a driver on one of two simulated nodes tells of its devices."""
    if not list(cluster.home.glob("bin-*/kwok")):
        pytest.skip("no kwok is built here: scripts/cluster.sh build")
    file = tmp_path / "driver.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    subprocess.run([SCRIPT, "fake", "2"], check=True, timeout=300)
    try:
        kubectl("cordon", "node1", "node2")
        kubectl("create", "-f", file)
        yield
    finally:
        kubectl("delete", "namespaces", "-l", OURS, "--timeout=120s")
        kubectl("delete", "-f", file, "--ignore-not-found")
        kubectl("delete", "nodes", "-l", "type=kwok")
        kubectl("uncordon", "node1", "node2")


def applied(cluster: OwnCluster, kubectl: Kubectl, folder: Path, name: str) -> None:
    spec, manifests = folder / f"{name}.yaml", folder / name
    spec.write_text(
        f"name: {name}\ndeployment: {{hosting: {{kind: appliances, servers: 1}}}}\nchain: [nat]\n"
    )
    options = ("--network", "sriov", "--resource", RESOURCE, "--claim", CLASS)
    done = cluster.headrace("export", "kubernetes", spec, manifests, *options)
    assert done.returncode == 0, done.stderr
    networks = manifests / f"{name}-1" / "networks.yaml"
    assert networks.read_text().count("apiVersion: resource.k8s.io/v1\n") == 3
    networks.write_text(networks.read_text().replace("resource.k8s.io/v1\n", f"{SERVED}\n"))
    kubectl("apply", "-k", networks.parent)


def listed(kubectl: Kubectl, kind: str, study: str) -> list[Any]:
    text = kubectl("get", kind, "-n", f"headrace-{study}-1", "-o", "json")
    return list(json.loads(text)["items"])


@pytest.mark.usefixtures("driver")
def test_claims_are_allocated_by_the_scheduler(
    cluster: OwnCluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    applied(cluster, kubectl, tmp_path, "first")
    deadline = time.monotonic() + 60
    while any(pod["spec"].get("nodeName") is None for pod in listed(kubectl, "pods", "first")):
        assert time.monotonic() < deadline, kubectl("get", "events", "-n", "headrace-first-1")
        time.sleep(0.5)
    assert {pod["spec"]["nodeName"] for pod in listed(kubectl, "pods", "first")} == {NODE}
    given = [
        result["device"]
        for claim in listed(kubectl, "resourceclaims", "first")
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(given) == len(set(given)) == 4
    assert not set(given) & {one["name"] for one in OTHERS}
    applied(cluster, kubectl, tmp_path, "second")
    kubectl(
        "wait", "-n", "headrace-second-1", "pod/nat", "--timeout=60s",
        "--for=jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable",
    )  # fmt: skip
