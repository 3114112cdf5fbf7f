# SPDX-License-Identifier: Apache-2.0
"""What a Kubernetes cluster can do for headrace, by what its API server and kubelets say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.doctor.check import CheckGroup, DoctorCheck
from headrace.errors import HeadraceError
from headrace.host.cluster import Cluster

GROUP = CheckGroup("kubernetes")
_MULTUS = (
    "kubectl apply -f https://raw.githubusercontent.com/k8snetworkplumbingwg/multus-cni/master/"
    "deployments/multus-daemonset.yml"
)
_PLUGINS = (
    "the CNI plugins bridge, macvlan, host-device, static and tuning belong into /opt/cni/bin of "
    "each node"
)
_KUBELET = "set {} in the kubelet's configuration, remove /var/lib/kubelet/{}_state, restart it"
# What is asked of the API server: group, resource, verbs (docs/kubernetes.md has them as a role).
RIGHTS = (
    ("", "namespaces", ("get", "list", "create", "delete")),
    ("", "pods", ("list", "create", "deletecollection")),
    # By a WebSocket, which is a GET; servers of Kubernetes 1.35 and later want both.
    ("", "pods/exec", ("get", "create")),
    ("", "pods/log", ("get",)),
    ("", "events", ("list",)),
    ("", "serviceaccounts", ("list",)),
    ("", "nodes", ("list",)),
    ("", "configmaps", ("create",)),
    ("apps", "daemonsets", ("create", "delete")),
    ("batch", "jobs", ("get", "create", "delete")),
    ("k8s.cni.cncf.io", "network-attachment-definitions", ("create",)),
    ("resource.k8s.io", "resourceclaimtemplates", ("create",)),
    ("resource.k8s.io", "resourceslices", ("list",)),
)
_OURS = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


def checks(cluster: Cluster) -> Iterator[DoctorCheck]:
    """An API server that does not answer is the one finding."""
    try:
        version = cluster.version()
    except HeadraceError as why:
        yield GROUP("api server", "missing", str(why), required=True)
        return
    yield GROUP("api server", "ok", f"{cluster.server}: Kubernetes {version}")
    yield _rights(cluster)
    nodes = cluster.nodes()
    yield _ready(nodes)
    yield from _kubelets(cluster, nodes)
    yield _networks(cluster)
    yield _hugepages(nodes)
    yield _devices(nodes)
    yield _claims(cluster)
    yield _left(cluster)


def _rights(cluster: Cluster) -> DoctorCheck:
    denied = [
        f"{verb} {resource}"
        for group, resource, verbs in RIGHTS
        for verb in verbs
        if not cluster.may(verb, resource, group)
    ]
    if not denied:
        return GROUP("rights", "ok", "this user may do all that a run does")
    mend = (
        "kubectl create clusterrolebinding headrace --clusterrole=headrace --user=USER, with the "
        "role of docs/kubernetes.md"
    )
    return GROUP("rights", "missing", f"denied: {', '.join(denied)}", mend=mend, required=True)


def _ready(nodes: Sequence[Mapping[str, Any]]) -> DoctorCheck:
    ready = [node for node in nodes if _is_ready(node)]
    texts = [
        f"{name_of(node)} ({node['status']['allocatable'].get('cpu', '?')} of "
        f"{node['status']['capacity'].get('cpu', '?')} CPUs, "
        f"{node['status']['nodeInfo']['kernelVersion']})"
        for node in ready
    ]
    if not ready:
        return GROUP("nodes", "missing", f"none of {len(nodes)} is ready", required=True)
    status = "ok" if len(ready) == len(nodes) else "limited"
    text = f"{len(ready)} of {len(nodes)} ready: {some(texts)}"
    return GROUP("nodes", status, text)  # type: ignore[arg-type]


def some(texts: Sequence[str], most: int = 4) -> str:
    """Names so many of them; a cluster has thousands of nodes."""
    return ", ".join(texts[:most]) + (
        f", and {len(texts) - most} more" if len(texts) > most else ""
    )


def name_of(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["name"])


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _kubelets(cluster: Cluster, nodes: Sequence[Mapping[str, Any]]) -> Iterator[DoctorCheck]:
    """Goes by each kubelet's own word (configz)."""
    configs: dict[str, Mapping[str, Any]] = {}
    for node in filter(_is_ready, nodes[:8]):
        try:
            configs[name_of(node)] = cluster.kubelet(name_of(node))
        except HeadraceError as why:
            yield GROUP("cpu manager", "unknown", str(why))
            return
    yield _policy(
        configs, "cpu manager", "cpuManagerPolicy", "static",
        "pods with whole CPUs share them with others: figures of pollers are those of a shared CPU",
        "cpu_manager",
    )  # fmt: skip
    yield _policy(
        configs, "topology manager", "topologyManagerPolicy", "single-numa-node",
        "CPUs, memory and virtual functions of a pod may lie on different NUMA nodes",
        "memory_manager",
    )  # fmt: skip


def _policy(
    configs: Mapping[str, Mapping[str, Any]],
    name: str,
    key: str,
    wanted: str,
    means: str,
    file: str,
) -> DoctorCheck:
    policies = {node: str(config.get(key, "none")) for node, config in configs.items()}
    text = some([f"{node}: {policy}" for node, policy in policies.items()])
    if all(policy == wanted for policy in policies.values()):
        return GROUP(name, "ok", text)
    return GROUP(name, "limited", text, means, _KUBELET.format(f"{key}: {wanted}", file))


def _networks(cluster: Cluster) -> DoctorCheck:
    if cluster.serves("k8s.cni.cncf.io", "network-attachment-definitions"):
        return GROUP("multus", "ok", f"network attachments are known; {_PLUGINS}")
    means = "third-party VNFs cannot be joined; chains of headrace's own functions run"
    return GROUP("multus", "missing", "no network attachments", means, _MULTUS)


def _hugepages(nodes: Sequence[Mapping[str, Any]]) -> DoctorCheck:
    texts = [
        f"{name_of(node)}: {amount} of {kind.removeprefix('hugepages-')}"
        for node in nodes
        for kind, amount in node["status"]["allocatable"].items()
        if kind.startswith("hugepages-") and amount not in ("0", 0)
    ]
    if texts:
        return GROUP("hugepages", "ok", some(texts))
    means = "engines in pods have ordinary memory: more TLB misses, so lower figures"
    mend = "on each node: sysctl vm.nr_hugepages=1024, then restart its kubelet"
    return GROUP("hugepages", "missing", "no node has any", means, mend)


def _devices(nodes: Sequence[Mapping[str, Any]]) -> DoctorCheck:
    """What device plugins tell kubelets: extended resources have a domain. Of one that has ended a
    kubelet goes on to say that there are none."""
    texts = sorted(
        {
            f"{kind} ({name_of(node)}: {amount})"
            for node in nodes
            for kind, amount in node["status"]["allocatable"].items()
            if kind not in _OURS and "/" in kind and amount not in ("0", 0)
        }
    )
    if texts:
        return GROUP("device plugins", "ok", some(texts))
    means = "no virtual functions for pods (network sriov)"
    mend = (
        "deploy the SR-IOV network device plugin (k8snetworkplumbingwg/sriov-network-device-plugin)"
    )
    return GROUP("device plugins", "missing", "none", means, mend)


def _claims(cluster: Cluster) -> DoctorCheck:
    name, wanted = "dra drivers", "claims of headrace's are of resource.k8s.io/v1 (Kubernetes 1.34)"
    versions = cluster.versions("resource.k8s.io")
    if "v1" not in versions:
        has = ", ".join(versions) if versions else "no resource claims"
        return GROUP(name, "missing", f"the API server has {has}; {wanted}")
    try:
        drivers = cluster.drivers("v1")
    except HeadraceError as why:
        return GROUP(name, "unknown", str(why))
    if not drivers:
        return GROUP(name, "missing", "resource claims are known, and no driver offers any")
    return GROUP(name, "ok", some(drivers))


def _left(cluster: Cluster) -> DoctorCheck:
    """What runs have there, also those whose ledgers are on other machines, or lost."""
    namespaces = cluster.namespaces()
    if not namespaces:
        return GROUP("runs", "ok", "the cluster has no namespace of headrace's")
    texts = [f"{name_of(one)} (since {one['metadata']['creationTimestamp']})" for one in namespaces]
    means = "what a run that is over left has CPUs and devices which others want"
    mend = (
        "headrace clean, where the run was; where its machine is gone, and nobody has exported it: "
        f"kubectl delete namespace {name_of(namespaces[0])}"
    )
    return GROUP("runs", "limited", f"namespaces: {some(texts)}", means, mend)
