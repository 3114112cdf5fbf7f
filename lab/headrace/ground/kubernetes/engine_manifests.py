# SPDX-License-Identifier: Apache-2.0
"""Pods of headrace's own engines: a namespace, and a pod for each part of a chain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.ground.kubernetes.cut import SOCKETS, PlanCut
from headrace.ground.kubernetes.engine_start import GIVEN, OWN, probe, start
from headrace.ground.kubernetes.manifests import (
    CHAIN,
    NETWORKS,
    Body,
    Manifest,
    config_map,
    network,
    rights,
    together,
)
from headrace.host.cluster import MANAGED
from headrace.host.cluster_owned import owning
from headrace.spec.hosting import PROGRAM_MB

ENGINE = "engine"  # the container
_FILES = "plans"  # the object with what pods are given
_CONTROL_MB = 64  # for commands beside the engine
# For packet sockets, their rings, which the driver locks, and the device, whose address it sets.
_OF_DEVICES = ("IPC_LOCK", "NET_ADMIN", "NET_RAW")
# DPDK asks on which NUMA node each page is, which the runtime's filter of system calls withholds
# from who may not set its own (get_mempolicy(2), set_mempolicy(2)).
_OF_PAGES = ("SYS_NICE",)


@dataclass(frozen=True)
class EnginePods:
    """How engines' pods are made. `cpus`: exclusive ones of each; pods that are not named have
    none. `files`: what pods are given that start their engines themselves, each by its plan; those
    of a lab wait for it."""

    namespace: str
    image: str
    nodes: Mapping[str, str]  # of each pod; those that are not named are on one, whichever it is
    cpus: Mapping[str, int]
    memory_mb: int  # of DPDK's
    hugepages: bool
    privileged: bool  # all rights, for who wants to know what having none costs
    devices: Mapping[str, str] = field(default_factory=dict)  # pod/device: as its node calls it
    selector: Mapping[str, str] = field(default_factory=dict)  # labels of all nodes
    files: Mapping[str, bytes] = field(default_factory=dict)


def folder_of(namespace: str) -> str:
    """The folder on the node: sockets by which its pods meet."""
    return f"/run/{namespace}"


def engine_manifests(parts: PlanCut, how: EnginePods) -> tuple[Manifest, ...]:
    """The namespace first: deleting it deletes all others."""
    return tuple(map(Manifest, _bodies(parts, how)))


def _bodies(parts: PlanCut, how: EnginePods) -> Iterator[Body]:
    yield owning(how.namespace)
    for pod in parts.plans:
        for device in parts.devices(pod):
            yield _attachment(pod, device, how)
    if how.files:
        yield config_map(how.namespace, _FILES, how.files, "plans and the files that they name")
    for pod in parts.plans:
        yield _pod(pod, parts, how)


def _attachment(pod: str, device: str, how: EnginePods) -> Body:
    """A device of the node that becomes the pod's, for packets to any address and none of the
    kernel's own."""
    quiet = {"net.ipv6.conf.IFNAME.disable_ipv6": "1"}
    plugins: list[Body] = [
        {"type": "host-device", "device": how.devices[f"{pod}/{device}"]},
        {"type": "tuning", "promisc": True, "sysctl": quiet},
    ]
    name = f"{pod}-{device}"
    return network(how.namespace, name, name, plugins)


def _pod(pod: str, parts: PlanCut, how: EnginePods) -> Body:
    devices = parts.devices(pod)
    capabilities = (*(_OF_DEVICES if devices else ()), *(_OF_PAGES if how.hugepages else ()))
    confined: dict[str, object] = {**rights(capabilities), "readOnlyRootFilesystem": True}
    if how.privileged:
        confined = {"privileged": True, "readOnlyRootFilesystem": True}
    spec: dict[str, object] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "Default",
        # A lab is told that an engine died; one that no lab started is started again.
        "restartPolicy": "Always" if how.files else "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": ENGINE,
                "image": how.image,
                "imagePullPolicy": "IfNotPresent",
                **_command(pod, parts, how),
                "resources": _resources(pod, parts, how),
                "securityContext": confined,
                "volumeMounts": _mounts(pod, parts, how),
            }
        ],
        "volumes": [{"name": name, **source} for name, _, source in _volumes(how)],
        **_where(pod, how),
    }
    metadata: dict[str, object] = {
        "name": pod, "namespace": how.namespace, "labels": {**MANAGED, CHAIN: how.namespace},
    }  # fmt: skip
    if devices:
        given = [{"name": f"{pod}-{device}", "interface": device} for device in devices]
        metadata["annotations"] = {NETWORKS: json.dumps(given)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _command(pod: str, parts: PlanCut, how: EnginePods) -> dict[str, object]:
    if not how.files:
        return {"command": ["sleep", "infinity"]}  # engines are started by what the lab asks
    return {"command": ["sh", "-ec", start(pod, parts)], "startupProbe": probe()}


def _where(pod: str, how: EnginePods) -> dict[str, object]:
    labels = dict(how.selector)
    if pod in how.nodes:
        return {"nodeSelector": {**labels, "kubernetes.io/hostname": how.nodes[pod]}}
    return {**({"nodeSelector": labels} if labels else {}), **together(how.namespace)}


def _mounts(pod: str, parts: PlanCut, how: EnginePods) -> list[dict[str, object]]:
    """Who only calls makes no file in a folder of the node's, where its driver lets it."""
    mounts: list[dict[str, object]] = [
        {"name": name, "mountPath": path} for name, path, _ in _volumes(how)
    ]
    mounts[0]["readOnly"] = not parts.writes(pod)
    return mounts


def _volumes(how: EnginePods) -> Sequence[tuple[str, str, dict[str, object]]]:
    links = {"hostPath": {"path": folder_of(how.namespace), "type": "DirectoryOrCreate"}}
    volumes: list[tuple[str, str, dict[str, object]]] = [
        ("links", SOCKETS, dict(links)),
        ("own", OWN, {"emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}}),
        ("tmp", "/tmp", {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}),
        ("dpdk", "/var/run/dpdk", {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}),
    ]
    if how.files:
        volumes.append(("given", GIVEN, {"configMap": {"name": _FILES}}))
    if how.hugepages:
        volumes.append(("hugepages", "/dev/hugepages", {"emptyDir": {"medium": "HugePages"}}))
    return volumes


def _resources(pod: str, parts: PlanCut, how: EnginePods) -> Body:
    """Where a pod has CPUs of its own, limits are requests: guaranteed, and with whole CPUs
    exclusive under the kubelet's static CPU manager."""
    shared = sum(wire.memory_bytes for wire in parts.of(pod)) >> 20
    ordinary = PROGRAM_MB + _CONTROL_MB + shared + (0 if how.hugepages else how.memory_mb)
    memory = {"memory": f"{ordinary}Mi"}
    if how.hugepages:
        memory["hugepages-2Mi"] = f"{how.memory_mb + how.memory_mb % 2}Mi"
    cpus = how.cpus.get(pod, 0)
    if cpus:
        given = {"cpu": str(cpus), **memory}
        return {"requests": given, "limits": dict(given)}
    return {"requests": memory, "limits": dict(memory)}
