# SPDX-License-Identifier: Apache-2.0
"""`headrace export kubernetes` on a real cluster (scripts/cluster.sh): `make test-kubernetes`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import REPO
from support.cluster import OURS, Kubectl

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

STUDY = REPO / "studies" / "nfvinsight" / "enterprise.yaml"
GRAPH = "enterprise-07"  # nat (ids) -> l7-cache -> ip-firewall -> l4-lb
NAMESPACE = f"headrace-{GRAPH}"
REQUESTS = 20
# Proxies need a moment to find what is behind them.
ANSWERED = (
    "timeout 60 sh -c 'until curl -sf --max-time 3 -o /dev/null"
    " http://$HR_TARGET:$HR_PORT/o/16/first; do sleep 0.3; done'"
)
FETCH = (
    f"for i in $(seq {REQUESTS}); do"
    " curl -sf --max-time 9 http://$HR_TARGET:$HR_PORT/o/16/$i | sha256sum; done"
)


def export(folder: Path) -> Path:
    command = [sys.executable, "-m", "headrace", "export", "kubernetes", STUDY, folder]
    subprocess.run([*command, "--node", "node1", "--network", "bridge"], check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("exported"))


def test_the_text_depends_on_the_study_alone(exported: Path, tmp_path: Path) -> None:
    again = export(tmp_path / "again")
    files = sorted(file.relative_to(exported) for file in exported.rglob("*.yaml"))
    assert len(files) == 4 * len(list(exported.iterdir()))
    for file in files:
        assert (again / file).read_text() == (exported / file).read_text(), file


def test_the_api_server_takes_every_object(exported: Path, kubectl: Kubectl) -> None:
    for folder in sorted(exported.iterdir()):
        kubectl("apply", "-f", folder / "namespace.yaml")
        taken = kubectl("apply", "-k", folder, "--dry-run=server", "-o", "name").split()
        pods = [one for one in taken if one.startswith("pod/")]
        assert len(pods) == (folder / "pods.yaml").read_text().count("kind: Pod")
    kubectl("delete", "namespace", "-l", OURS, "--timeout=120s")


@pytest.fixture
def without_graph(kubectl: Kubectl) -> Iterator[None]:
    """What a failed test left would have the CPUs of the next one's pods."""
    yield
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


@pytest.mark.usefixtures("images", "without_graph")
def test_a_graph_carries_requests_and_leaves_nothing(exported: Path, kubectl: Kubectl) -> None:
    """Each object is asked for once, on a connection of its own: what is counted is known."""
    kubectl("apply", "-k", exported / GRAPH)
    kubectl("wait", "-n", NAMESPACE, "--for=condition=Ready", "pod", "--all", "--timeout=120s")

    def inside(pod: str, *command: str) -> str:
        return kubectl("exec", "-n", NAMESPACE, "-c", "vnf", pod, "--", *command)

    def counters(pod: str) -> dict[str, int]:
        lines = (line.split() for line in inside(pod, "/headrace/counters").splitlines())
        return {name: int(float(value)) for name, value in lines}

    inside("client", "sh", "-ec", ANSWERED)
    before = {pod: counters(pod) for pod in ("nat", "l7-cache", "server1", "server2")}
    arrived = inside("client", "sh", "-ec", FETCH).splitlines()
    served = inside("server1", "sha256sum", "/srv/objects/16.bin").split()[0]
    assert [line.split()[0] for line in arrived] == [served] * REQUESTS
    grown = {
        pod: {name: value - old.get(name, 0) for name, value in counters(pod).items()}
        for pod, old in before.items()
    }
    assert grown["nat"]["connections_packets"] == REQUESTS
    assert grown["l7-cache"]["requests"] == REQUESTS
    assert grown["l7-cache"]["hits"] == 0
    assert grown["server1"]["requests"] + grown["server2"]["requests"] == REQUESTS
    assert counters("ids")["packets"] > REQUESTS  # by copies alone: it has no address
    kubectl("delete", "namespace", NAMESPACE)
    assert kubectl("get", "pods,network-attachment-definitions", "-A", "-o", "name") == ""
