# SPDX-License-Identifier: Apache-2.0
"""What a run made in a cluster: one namespace, which owns the rest, and bridges of the nodes, which
no object owns. Its line in the ledger has all that is needed to undo it from anywhere."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from headrace.errors import HeadraceError
from headrace.host.cluster import MANAGED, Cluster
from headrace.record.frozen import Record

AGENTS = "headrace-agents"
_SWEPT_S = 60.0
_LOOK_S = 0.3
# Bridges of this name's beginning, without ports by now: CNI's plugin makes them, and removes none.
_BRIDGES = """for path in /sys/class/net/"$0"-*; do
    [ -e "$path" ] || continue
    ip link delete "${path##*/}"
done"""
_FOLDER = 'rm -rf "/host/$0"'
_RUN = "/run/"  # where folders are, on nodes


class Sweep(Record):
    """What no object owns on nodes: bridges that the CNI plugin left, or a folder of sockets."""

    nodes: tuple[str, ...]
    image: str  # with a shell; for bridges, with `ip`
    tag: str | None = None  # what names of bridges begin with, and a `-`
    folder: str | None = None  # below /run

    @property
    def text(self) -> str:
        return self.folder or f"bridges {self.tag}-*"


class OwnedNamespace(Record):
    """The ledger's line."""

    kubeconfig: str
    context: str | None
    namespace: str
    sweep: Sweep | None = None
    agents: bool = False  # whether a DaemonSet AGENTS may be there, which makes its pods again


def owned(cluster: Cluster, namespace: str, sweep: Sweep | None, *, agents: bool = False) -> str:
    return OwnedNamespace(
        kubeconfig=cluster.kubeconfig,
        context=cluster.context,
        namespace=namespace,
        sweep=sweep,
        agents=agents,
    ).model_dump_json()


def remove(name: str) -> bool:
    """Undo a line of the ledger, wherever KUBECONFIG leads now."""
    one = OwnedNamespace.model_validate_json(name)
    cluster = Cluster(one.context, one.kubeconfig)
    if one.sweep is None:
        return cluster.delete_namespace(one.namespace)
    phase = cluster.phase(one.namespace)
    if phase is None and not cluster.may("create", "namespaces", ""):
        return False  # who may not make it has not made it
    failure: HeadraceError | None = None
    try:
        if phase != "Active":
            _make_again(cluster, one.namespace)
        elif one.agents:
            cluster.delete_daemon_set(one.namespace, AGENTS)
        sweep(cluster, one.namespace, one.sweep)
    except HeadraceError as why:
        failure = why
    cluster.delete_namespace(one.namespace)
    if failure is not None:
        raise failure
    return True


def _make_again(cluster: Cluster, namespace: str) -> None:
    """One that somebody has deleted, or deletes: for what it did not own to be removed from."""
    cluster.delete_namespace(namespace)  # waits for one that is on its way
    cluster.make_namespace(owning(namespace))


def owning(namespace: str) -> dict[str, object]:
    """The object that owns a deployment. VNFs have capabilities such as NET_ADMIN, and pods that
    share sockets a folder of their node (hostPath): more than the other levels allow."""
    labels = {**MANAGED, "pod-security.kubernetes.io/enforce": "privileged"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "labels": labels},
    }


def sweep(cluster: Cluster, namespace: str, what: Sweep) -> None:
    """Removes them once no pod uses them, by a pod in each node's own network."""
    cluster.delete_pods(namespace)
    for node in what.nodes:
        cluster.create(_sweeper(namespace, what, node))
    deadline = time.monotonic() + _SWEPT_S
    while left := [pod for pod in cluster.pods(namespace) if _phase(pod) != "Succeeded"]:
        failed = [pod for pod in left if _phase(pod) == "Failed"]
        if failed or time.monotonic() > deadline:
            nodes = ", ".join(sorted(pod["spec"]["nodeName"] for pod in failed or left))
            raise HeadraceError(
                f"Kubernetes: {what.text} stay on {nodes}, as no pod could remove them; to be done "
                "there by hand"
            )
        time.sleep(_LOOK_S)


def _phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _sweeper(namespace: str, what: Sweep, node: str) -> dict[str, Any]:
    """It is bound to its node at once: nobody has to find room for it."""
    command = ["sh", "-ec", _BRIDGES, what.tag]
    more: dict[str, Any] = {"hostNetwork": True}
    mounts: list[dict[str, str]] = []
    if what.folder is not None:
        command = ["sh", "-ec", _FOLDER, what.folder.removeprefix(_RUN)]
        more = {"volumes": [{"name": "run", "hostPath": {"path": _RUN, "type": "Directory"}}]}
        mounts = [{"name": "run", "mountPath": "/host"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"sweep-{secrets.token_hex(3)}", "namespace": namespace, "labels": MANAGED,
        },
        "spec": {
            "nodeName": node,
            **more,
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "sweep",
                    "image": what.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "volumeMounts": mounts,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {
                            "drop": ["ALL"], "add": [] if what.folder else ["NET_ADMIN"],
                        },
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }
            ],
        },
    }  # fmt: skip
