# SPDX-License-Identifier: Apache-2.0
"""Pods until they are ready, and in words why one is not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.errors import HeadraceError
from headrace.ground.kubernetes.manifests import Manifest
from headrace.host.cluster import Cluster
from headrace.host.tool import printable

_LOOK_S = 0.3
TOLD_S = 5.0  # by a kubelet, that a container has ended; it looks each second
_SIGNALLED = 128  # exit statuses above are those of signals, as shells and runtimes tell them
_PLACED_S = 30.0  # for a scheduler to find room, which may become free
# Why a container waits, where more waiting helps nobody.
_HOPELESS = frozenset(
    (
        "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
        "CreateContainerError", "CreateContainerConfigError", "RunContainerError",
    )
)  # fmt: skip

Pod = Mapping[str, Any]


def make(cluster: Cluster, objects: Sequence[Manifest]) -> None:
    """The namespace, then what it owns."""
    cluster.make_namespace(objects[0].body)
    for one in objects[1:]:
        cluster.create(one.body)


def wait_ready(cluster: Cluster, namespace: str, count: int, seconds: float) -> dict[str, str]:
    """The node of each pod, once all are ready."""
    began = time.monotonic()
    while True:
        pods = cluster.pods(namespace)
        waiting = [pod for pod in pods if not ready(pod)]
        if len(pods) == count and not waiting:
            return {name_of(pod): pod["spec"]["nodeName"] for pod in pods}
        waited = time.monotonic() - began
        for pod in waiting:
            if (why := ended(cluster, pod) or hopeless(pod, waited)) is not None:
                raise HeadraceError(why)
        if waited > seconds:
            raise HeadraceError(f"{_stuck(cluster, waiting[0])} after {seconds:.0f} s")
        time.sleep(_LOOK_S)


def name_of(pod: Pod) -> str:
    return str(pod["metadata"]["name"])


def ready(pod: Pod) -> bool:
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in pod.get("status", {}).get("conditions", ())
    )


def _containers(pod: Pod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    status = pod.get("status", {})
    for key in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(key, ()):
            yield one["name"], one.get("state", {})


def ended(cluster: Cluster, pod: Pod) -> str | None:
    """How a pod came to its end; None: it goes on."""
    name = name_of(pod)
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name}: somebody deleted it"
    status = pod.get("status", {})
    if status.get("phase") == "Failed" and status.get("reason"):  # evicted, refused by its node
        return f"pod {name}: {status['reason']}: {_told(status)}"
    for container, state in _containers(pod):
        over = state.get("terminated")
        if over is not None and (container != "mirror" or over["exitCode"]):
            how = over.get("reason") or "ended"
            words = cluster.logs(pod["metadata"]["namespace"], name, container)
            return (
                f"pod {name}: its container {container} ended ({how}, exit status "
                f"{over['exitCode']})" + (f": {words}" if words else "")
            )
    return None


def killed(status: int) -> bool:
    """Whether a command's exit status is that of a signal: its container may have ended."""
    return status > _SIGNALLED


def ended_within(
    cluster: Cluster, namespace: str, nodes: Mapping[str, str], within_s: float
) -> str | None:
    """How one of these pods came to its end; None: none has, within this time. `nodes`: of each."""
    deadline = time.monotonic() + within_s
    while True:
        pods = {name_of(pod): pod for pod in cluster.pods(namespace)}
        for name, node in nodes.items():
            if name not in pods:
                return f"pod {name} on {node}: somebody deleted it"
            if (why := ended(cluster, pods[name])) is not None:
                return why
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_S)


def hopeless(pod: Pod, waited_s: float) -> str | None:
    node = pod["spec"].get("nodeName")
    for _, state in _containers(pod):
        why = state.get("waiting", {})
        if why.get("reason") in _HOPELESS:
            return f"pod {name_of(pod)} on {node}: {why['reason']}: {_told(why)}"
    for one in pod.get("status", {}).get("conditions", ()):
        unplaced = one["type"] == "PodScheduled" and one["status"] == "False"
        if unplaced and waited_s > _PLACED_S:
            return f"pod {name_of(pod)}: no node has room for it: {_told(one)}"
    return None


def _stuck(cluster: Cluster, pod: Pod) -> str:
    node = pod["spec"].get("nodeName", "no node")
    namespace, name = pod["metadata"]["namespace"], name_of(pod)
    warnings = cluster.warnings(namespace, name)
    last = f": {_told({'message': warnings[-1]})}" if warnings else ""
    return f"pod {name} on {node}: not ready{last}"


def _told(status: Mapping[str, Any]) -> str:
    return printable(" ".join(str(status.get("message", "")).split()))
