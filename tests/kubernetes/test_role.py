# SPDX-License-Identifier: Apache-2.0
"""The role of docs/kubernetes.md: a user who has that and nothing else can do all that a run does,
and what the API server's audit log has of that user is all of the role and no more."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from support.cluster import OwnCluster, Right, documented_rights, documented_role

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_root,
    pytest.mark.usefixtures("images", "own_state"),
]

USER = "least"  # scripts/cluster.sh makes it
APPLIANCES = """name: least
deployment: {hosting: {kind: appliances, servers: 1}}
chain: [nat]
workload: {kind: http, object_kb: 16, connections: 8}
measure: {max: true, trial: 1 s}
warmup: 0.2 s
ground: {kubernetes: {nodes: node1}}
"""
ENGINES = """name: least
chain: [{{acl: {{rules: [{{action: permit}}]}}}}]
workload: {{frame: 128, flows: 256}}
measure: {{loads: [2k], trial: 1 s}}
warmup: 0.2 s
collect: {{period: 0.5}}
ground: {{kubernetes: {{cpus: 0, pod_cpus: {{tester: 1}}, nodes: node1, agent: {image}}}}}
"""
PREDICTED = """name: least
chain: [l2fwd]
measure: {max: true}
ground: {simulated: {server: reference}}
"""
# What nothing here asks for, as the role says beside it.
NOT_ASKED = {
    ("resource.k8s.io", "resourceclaimtemplates", "create"),  # of `claim`
    ("resource.k8s.io", "resourceslices", "list"),  # of v1, which Kubernetes 1.33 does not have
    ("", "pods/exec", "create"),  # Kubernetes 1.35
}
# What everybody may who has a certificate (the roles system:basic-user and system:discovery).
EVERYBODYS = {("authorization.k8s.io", "selfsubjectaccessreviews", "create")}
REFUSED = {("", "nodes/proxy", "get")}  # to doctor, which says so


@pytest.fixture
def bound(cluster: OwnCluster, tmp_path: Path) -> Iterator[None]:
    """The user has the role while the test runs."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "least"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        | {"name": documented_role()["metadata"]["name"]},
        "subjects": [{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    file = tmp_path / "role.json"
    items = [documented_role(), binding]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    cluster.kubectl("apply", "-f", file)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-f", file)


def as_user(cluster: OwnCluster, *arguments: object) -> CompletedProcess[str]:
    own = f"KUBECONFIG={cluster.home}/state/pki/{USER}.kubeconfig"
    every = ("env", own, sys.executable, "-m", "headrace", *arguments)
    return cluster.run(*every, timeout_s=400)


def asked(cluster: OwnCluster) -> set[Right]:
    """What the API server's audit log has of this user, of requests for objects."""
    rights = set()
    for line in (cluster.home / "state" / "log" / "audit").read_text().splitlines():
        event = json.loads(line)
        assert event["user"]["username"] == USER
        if (of := event.get("objectRef")) is not None and "resource" in of:
            part = f"/{of['subresource']}" if of.get("subresource") else ""
            rights.add((of.get("apiGroup", ""), of["resource"] + part, event["verb"]))
    return rights


@pytest.mark.usefixtures("bound")
def test_the_role_of_the_docs_is_what_runs_ask_for(
    cluster: OwnCluster, own_image: str, tmp_path: Path
) -> None:
    told = as_user(cluster, "doctor", "--kubernetes", "--json")
    checks = {one["name"]: one for one in json.loads(told.stdout)["checks"]}
    assert checks["rights"]["status"] == "ok", checks["rights"]
    assert checks["cpu manager"]["status"] == "unknown"  # nodes/proxy is not in the role
    texts = {"appliances": APPLIANCES, "engines": ENGINES.format(image=own_image)}
    for name, text in texts.items():
        spec = tmp_path / f"{name}.yaml"
        spec.write_text(text)
        done = as_user(cluster, "run", spec, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert cluster.left() == {}
    refused = tmp_path / "engines" / "samples" / "refused.json"
    assert not refused.exists() or "forbidden" not in refused.read_text(), refused.read_text()
    # An image that no node has: why its pod does not start is in events, and there is no log.
    spec = tmp_path / "predicted.yaml"
    spec.write_text(PREDICTED)
    for image in ("localhost/headrace/none:1", own_image):
        out = tmp_path / image.rpartition("/")[2].replace(":", "-")
        done = as_user(cluster, "campaign", spec, "--out", out, "--pods", image)
        assert "forbidden" not in done.stderr, done.stderr
        assert done.returncode == (0 if image == own_image else 1), done.stderr
    assert cluster.left() == {}
    assert asked(cluster) - EVERYBODYS - REFUSED == documented_rights() - NOT_ASKED
