# SPDX-License-Identifier: Apache-2.0
"""Agents on the nodes of a deployment, by which its layers are read: a DaemonSet of the
deployment's own namespace, each pod of which runs `headrace agent` over a stream.

An agent reads what is its node's and other pods', so it is in the node's namespaces of processes
and of the network, and sees its control groups. It is root there without a capability but for
those in `rights_of`, and can write nowhere but in its own /tmp.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import headrace
from headrace.collect.elsewhere import (
    A,
    AgentsThere,
    Elsewhere,
    HelloThere,
    RefusedElsewhere,
    ask_as,
)
from headrace.engine.control import Control, ControlError
from headrace.errors import HeadraceError
from headrace.ground.kubernetes.manifests import Body, rights
from headrace.ground.kubernetes.tunnel import Tunnel
from headrace.ground.kubernetes.waiting import Pod, ended, hopeless, name_of, ready
from headrace.host.cluster import MANAGED, Cluster
from headrace.host.cluster_owned import AGENTS
from headrace.host.stopwatch import Stopwatch
from headrace.host.tool import printable
from headrace.spec.collect import Collect

_CONTAINER = "agent"
_ROLE = {"headrace.io/role": "agent"}
_COMMAND = ("headrace", "agent")
_UP_S = 120.0
_LOOK_S = 0.3
_ANSWER_S = 30.0
_MEMORY_MB = 512
_COUNTS = frozenset({"os", "hardware"})  # layers that count by BPF programs and perf events


def rights_of(collect: Collect) -> tuple[str, ...]:
    """Capabilities: other processes' namespaces and I/O; what counts and traces packets."""
    counts = bool(collect.trace) or not _COUNTS.isdisjoint(collect.layers)
    return ("SYS_PTRACE", *(("BPF", "PERFMON") if counts else ()))


def daemon_set(namespace: str, image: str, nodes: Collection[str], collect: Collect) -> Body:
    labels = {**MANAGED, **_ROLE}
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": sorted(nodes)}
    memory = f"{_MEMORY_MB}Mi"
    container = {
        "name": _CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],  # the agent is started by what the lab asks
        "env": [{"name": name, "value": "/tmp"} for name in ("HOME", "XDG_RUNTIME_DIR")],
        "workingDir": "/tmp",
        "resources": {"requests": {"memory": memory}, "limits": {"memory": memory}},
        "securityContext": {
            **rights(rights_of(collect)), "readOnlyRootFilesystem": True, "runAsUser": 0,
        },
        "volumeMounts": [
            {"name": "groups", "mountPath": "/sys/fs/cgroup", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }  # fmt: skip
    spec: Body = {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [where]}]
                }
            }
        },
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostPID": True,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            {"name": "groups", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": AGENTS, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": _ROLE},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


class NodeAgent:
    """The agent of one node; asked by the sampler's thread and the measuring one in turn."""

    def __init__(self, cluster: Cluster, namespace: str, pod: str, node: str) -> None:
        self.node = node
        self.turn = threading.RLock()
        self._tunnel = Tunnel(cluster, namespace, pod, _CONTAINER, _COMMAND, beats=True)
        self._control = Control(self._tunnel.socket, _ANSWER_S)

    def send(self, cmd: str, **arguments: object) -> None:
        try:
            self._control.send(cmd, **arguments)
        except HeadraceError as why:
            raise self._lost(why) from None

    def receive_as(self, cmd: str, kind: type[A]) -> A:
        try:
            return self._control.receive_as(cmd, kind)
        except ControlError as why:
            raise HeadraceError(f"agent on {self.node}: {why.msg}") from None
        except HeadraceError as why:
            raise self._lost(why) from None

    def _lost(self, why: HeadraceError) -> HeadraceError:
        """No other answer of it can be told from one that comes late."""
        self.close()
        words = self._tunnel.last_words or str(why).removeprefix("engine: ")
        return HeadraceError(f"agent on {self.node}: {words}")

    def close(self) -> None:
        self._control.close()
        self._tunnel.close()


@contextmanager
def agents_on(
    cluster: Cluster, namespace: str, image: str | None, collect: Collect, watch: Stopwatch,
    bridges: str | None = None,
) -> Iterator[Elsewhere | None]:  # fmt: skip
    """Agents beside the pods that are up in a namespace; None where no layers are asked for, or no
    image can read them. Where the cluster forbids them, what was to be read is refused in its
    words, and the measurement goes on."""
    if image is None or not collect.layers:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            with watch.phase("starting agents"):
                elsewhere: Elsewhere = _started(stack, cluster, namespace, image, collect, bridges)
        except HeadraceError as why:
            elsewhere = RefusedElsewhere(str(why))
        yield elsewhere


def _started(
    stack: contextlib.ExitStack, cluster: Cluster, namespace: str, image: str, collect: Collect,
    bridges: str | None,
) -> AgentsThere:  # fmt: skip
    containers: dict[str, dict[str, str]] = {}
    for pod in cluster.pods(namespace):
        containers.setdefault(pod["spec"]["nodeName"], {}).update(dict(_running(pod)))
    cluster.create(daemon_set(namespace, image, containers, collect))
    agents = {}
    for node, pod_name in sorted(_wait(cluster, namespace, set(containers)).items()):
        agents[node] = NodeAgent(cluster, namespace, pod_name, node)
        stack.callback(agents[node].close)
        version = ask_as(agents[node], "hello", HelloThere).version
        if version != headrace.__version__:
            raise HeadraceError(
                f"ground.kubernetes.agent: headrace is {printable(version)} in {image}; allowed: "
                f"{headrace.__version__}, as here"
            )
    own = {name for each in containers.values() for name in each}
    told = {node: {"containers": containers[node], "bridges": bridges} for node in agents}
    return AgentsThere(agents, own, told)


def _running(pod: Pod) -> Iterator[tuple[str, str]]:
    """What the report calls its containers, and their ids: its pod's name, and where a pod has
    several, their own."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    for one in statuses:
        name = name_of(pod) if len(statuses) == 1 else f"{name_of(pod)}/{one['name']}"
        yield name, str(one.get("containerID", "")).rpartition("//")[2]


def _wait(cluster: Cluster, namespace: str, nodes: set[str]) -> dict[str, str]:
    """The agents' pods by node, once all are ready. A pod that admission refuses is never there:
    its DaemonSet's events say why."""
    [(label, value)] = _ROLE.items()
    began = time.monotonic()
    while True:
        pods = cluster.pods(namespace, f"{label}={value}")
        up = {pod["spec"]["nodeName"]: name_of(pod) for pod in pods if ready(pod)}
        if set(up) == nodes:
            return up
        waited = time.monotonic() - began
        for pod in pods:
            if (why := ended(cluster, pod) or hopeless(pod, waited)) is not None:
                raise HeadraceError(why)
        if refused := cluster.warnings(namespace, AGENTS):
            raise HeadraceError(f"agents of nodes: {printable(' '.join(refused[-1].split()))}")
        if waited > _UP_S:
            missing = ", ".join(sorted(nodes - set(up)))
            raise HeadraceError(f"agents of nodes: none is ready on {missing} after {_UP_S:g} s")
        time.sleep(_LOOK_S)
