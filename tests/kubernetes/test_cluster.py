# SPDX-License-Identifier: Apache-2.0
"""`headrace export kubernetes` on a real cluster (scripts/cluster.sh): `make test-kubernetes`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import REPO
from support.cluster import OURS, Kubectl, OwnCluster

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
def without_graph(cluster: OwnCluster, kubectl: Kubectl) -> Iterator[None]:
    """What a failed test left would have the CPUs of the next one's pods. Bridges are their node's,
    which no deleted namespace removes, and others look for what is left there."""
    yield
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    for name in cluster.left().get("node1", ()):
        cluster.on_node("node1", "ip", "link", "delete", name)
    assert cluster.left() == {}


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
    deadline = time.monotonic() + 60  # it writes what it saw once a second at most
    while counters("ids")["packets"] <= REQUESTS:  # by copies alone: it has no address
        assert time.monotonic() < deadline, counters("ids")
        time.sleep(0.5)
    kubectl("delete", "namespace", NAMESPACE)
    assert kubectl("get", "pods,network-attachment-definitions", "-A", "-o", "name") == ""


# engines ----------------------------------------------------------------------------------------

# One CPU is a pod's own: the chain's pods have what others leave of the other one.
OWN = """name: own
chain:
  - acl: {{rules_file: my.rules}}
  - l2fwd: {{}}
deployment: {{execution: pipeline}}
ground: {{kubernetes: {{link: {link}, cpus: 0, pod_cpus: {{tester: 1}}, nodes: node1}}}}
"""
ANY = "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\n"
OWN_NAMESPACE, CHAIN_PODS, PACKETS = "headrace-own-1", ("vnf1", "vnf2"), 1000


@pytest.fixture
def without_engines(cluster: OwnCluster, kubectl: Kubectl) -> Iterator[None]:
    """The folder of sockets is its node's, which no deleted namespace removes."""
    yield
    kubectl("delete", "namespace", OWN_NAMESPACE, "--ignore-not-found")
    cluster.on_node("node1", "rm", "-r", f"/run/{OWN_NAMESPACE}")


def asked(kubectl: Kubectl, pod: str, request: dict[str, Any]) -> dict[str, Any]:
    """What a pod's engine answers to one request."""
    script = f"echo '{json.dumps(request)}' | socat -t 9 - UNIX-CONNECT:/run/headrace/control.sock"
    answer = kubectl("exec", "-n", OWN_NAMESPACE, pod, "--", "sh", "-ec", script)
    told: dict[str, Any] = json.loads(answer)
    assert told["ok"], told
    return told


def ready(kubectl: Kubectl) -> dict[str, bool]:
    """Each pod, and whether it is."""
    text = kubectl("get", "pods", "-n", OWN_NAMESPACE, "-o", "json")
    return {
        pod["metadata"]["name"]: any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", ())
        )
        for pod in json.loads(text)["items"]
    }


def running(kubectl: Kubectl, pod: str) -> None:
    """Returns once its engine answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            asked(kubectl, pod, {"cmd": "info"})
            return
        except AssertionError:
            assert time.monotonic() < deadline, f"no engine runs in {pod}"
            time.sleep(0.5)


def looked(kubectl: Kubectl, pod: str) -> None:
    """Returns once the kubelet has looked whether it is ready, and told that it is not, again."""
    fields = f"--field-selector=reason=Unhealthy,involvedObject.name={pod}"
    told = ("get", "events", "-n", OWN_NAMESPACE, fields, "-o", "jsonpath={.items[*].count}")
    before = None
    deadline = time.monotonic() + 60
    while True:
        counted = sum(map(int, kubectl(*told).split()))
        before = counted if before is None else before
        if counted > before:
            return
        assert time.monotonic() < deadline, kubectl("get", "events", "-n", OWN_NAMESPACE)
        time.sleep(0.5)


@pytest.mark.usefixtures("images", "without_engines")
@pytest.mark.parametrize("link", ["memif", "vhost-user"])
def test_a_chain_of_engines_runs_by_its_manifests_alone(
    link: str, tmp_path: Path, kubectl: Kubectl
) -> None:
    """No lab is there. A pod is ready once all its links are up, and not when its engine is; then
    each packet that the tester is told to send comes back through both functions."""
    (tmp_path / "my.rules").write_text(ANY)
    spec, folder = tmp_path / "own.yaml", tmp_path / "own"
    spec.write_text(OWN.format(link=link))
    command = [sys.executable, "-m", "headrace", "export", "kubernetes", spec, folder]
    subprocess.run(command, check=True, timeout=120)
    folder /= "own-1"
    first, *_ = yaml.safe_load_all((folder / "pods.yaml").read_text())
    (tmp_path / "first.yaml").write_text(yaml.safe_dump(first))
    kubectl("apply", "-f", folder / "namespace.yaml")
    kubectl("apply", "-f", folder / "plans.yaml", "-f", tmp_path / "first.yaml")
    running(kubectl, "tester")
    looked(kubectl, "tester")
    assert ready(kubectl) == {"tester": False}
    kubectl("apply", "-k", folder)
    kubectl("wait", "-n", OWN_NAMESPACE, "--for=condition=Ready", "pod", "--all", "--timeout=120s")
    assert set(ready(kubectl)) == {"tester", *CHAIN_PODS}
    load = {"gen-forward": {"rate_pps": 1000, "packets": PACKETS}}
    asked(kubectl, "tester", {"cmd": "start", "sources": load})
    deadline = time.monotonic() + 60
    while True:
        links = asked(kubectl, "tester", {"cmd": "read"})["links"]
        if links["sink-forward"]["received"] == PACKETS:
            break
        assert time.monotonic() < deadline, links
        time.sleep(0.5)
    assert links["gen-forward"]["sent"] == PACKETS
    for pod in CHAIN_PODS:
        segments = asked(kubectl, pod, {"cmd": "read"})["segments"]
        [counts] = [nf for [one] in segments.values() for nf in one["nfs"].values()]
        assert (counts["in"], sum(counts["dropped"].values())) == (PACKETS, 0), pod
