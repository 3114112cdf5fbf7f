# SPDX-License-Identifier: Apache-2.0
"""A deployment of third-party VNFs as objects of Kubernetes: a namespace that owns all of it, a
network attachment for each interface, a pod for each container.

An interface has its address and its routes from the CNI plugins (`static`, and `tuning` for what a
router needs), so no pod gets rights to set them. Objects and their text are a function of the study
alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal, get_args

from headrace.errors import BadInput
from headrace.ground.appliances.addressing import (
    TESTER,
    ContainerLayout,
    ContainerNode,
    NodeInterface,
)
from headrace.ground.appliances.graph import Supply, environment
from headrace.host.cluster import MANAGED
from headrace.host.cluster_owned import owning
from headrace.host.plumbing import SYSCTLS

Attachment = Literal["bridge", "macvlan", "sriov", "host-device"]
ATTACHMENTS: Mapping[str, Attachment] = {one: one for one in get_args(Attachment)}
Body = Mapping[str, object]

CHAIN = "headrace.io/chain"
CONTAINER = "vnf"
NETWORKS = "k8s.v1.cni.cncf.io/networks"  # Network Plumbing Working Group, multi-net-spec 1.3
_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
_CNI_VERSION = "1.0.0"
_CLAIM = "functions"  # a pod's claim of devices, and what it requests
_DEVICE = 'device.attributes["k8s.cni.cncf.io"]'  # as drivers for Multus have them
_CPU_SHARE = "100m"  # asked for where the study sets no limit
_WAYS = ("in", "out")  # of what a leaf watches
_SECOND = "mirror-out"  # a leaf's interface beside its own
_ALL = "protocol all pref 10 bpf bytecode '1,6 0 0 4294967295,' action mirred"
_FILES_MOST = 1 << 20  # bytes of a ConfigMap
_MEMORY_MB = 512  # where the study gives none
# What the namespaces of containers without Kubernetes have, too. A pod's own network may need IPv6.
# Devices of one NIC, or of one master, hear each other's broadcasts: who is asked for an address
# answers by the interface that has it, and not by whichever hears of it first.
_ROUTER = {
    f"net.{name.replace('/', '.')}": value
    for name, value in SYSCTLS.items()
    if name.startswith("ipv4/")
} | {"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2"}


@dataclass(frozen=True)
class PodNetwork:
    """How pods are joined. A bridge of the CNI plugin is its node's own: all pods are on one."""

    kind: Attachment
    master: str = ""  # macvlan: the nodes' device, by one name on all of them
    resource: str = ""  # sriov: what the device plugin, or the driver, calls the virtual functions
    claim: str = ""  # sriov: the device class by which a driver gives them (DRA); none: a plugin
    nodes: Mapping[str, str] = field(default_factory=dict)  # container, "" for all: its node
    # host-device: container/interface, and what its node calls the device that the pod is given
    devices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """One object, as the API server takes it."""

    body: Body

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        metadata = self.body["metadata"]
        assert isinstance(metadata, dict)
        return str(metadata["name"])


def manifests(
    namespace: str,
    layout: ContainerLayout,
    supplies: Mapping[str, Supply],
    network: PodNetwork,
) -> tuple[Manifest, ...]:
    """The namespace first: deleting it deletes all others."""
    return tuple(map(Manifest, _Objects(namespace, layout, supplies, network).all()))


def bridge_tag(namespace: str) -> str:
    """What names of a chain's bridges begin with: a node has those of all chains, of 15 characters
    at most (IFNAMSIZ)."""
    return "hr" + hashlib.sha256(namespace.encode()).hexdigest()[:6]


class _Objects:
    def __init__(
        self,
        namespace: str,
        layout: ContainerLayout,
        supplies: Mapping[str, Supply],
        network: PodNetwork,
    ) -> None:
        self.namespace, self.layout, self.supplies = namespace, layout, supplies
        self.network = network
        self.tag = bridge_tag(namespace)
        self._refuse()

    def _refuse(self) -> None:
        """What pods cannot have is bad input, before anything is made."""
        for node in self.layout.nodes:
            if node.kind == TESTER:
                raise BadInput(
                    "workload.kind: packets are made by an engine of the lab's own machine; "
                    "allowed on Kubernetes: http, tcp, udp and others that clients make"
                )
            devices = self.supplies[node.vnf].definition.devices
            if devices:
                raise BadInput(
                    f"VNF {node.vnf}: needs {', '.join(devices)}, which a pod has by a device "
                    "plugin only; allowed: VNFs without devices"
                )
            if self.supplies[node.vnf].definition.forwards == "itself":
                raise BadInput(
                    f"VNF {node.vnf}: reads frames itself, and the kernel of its pod would forward "
                    "beside it; allowed: VNFs for which the kernel or a process of theirs forwards"
                )
            for route in node.routes:
                if len(route.via) > 1:
                    raise BadInput(
                        f"{node.name}: equal shares to {len(route.via)} instances need a route "
                        "with several next hops, which no CNI plugin sets; allowed: one instance "
                        "behind it"
                    )
        if self.network.kind == "host-device":
            self._refuse_devices()
        leaves = self.layout.of_kind("leaf")
        if leaves and self.network.kind != "bridge":
            raise BadInput(
                f"VNF {leaves[0].vnf}: its copies of packets would reach the others of a "
                f"{self.network.kind} network, too; allowed with it: network bridge"
            )

    def _refuse_devices(self) -> None:
        """Each interface has a device, and each device is an interface's."""
        every = [f"{n.name}/{i.name}" for n in self.layout.nodes for i in n.interfaces]
        for problem, names in (
            ("has no device", [one for one in every if one not in self.network.devices]),
            ("is no interface of it", [one for one in self.network.devices if one not in every]),
        ):
            if names:
                raise BadInput(
                    f"network host-device: {names[0]} {problem}; allowed: a device for each of "
                    f"{', '.join(every)}"
                )

    def all(self) -> Iterator[Body]:
        yield owning(self.namespace)
        for node in self.layout.nodes:
            for interface in node.interfaces:
                yield self._attachment(node, interface)
        for number, leaf in enumerate(self.layout.of_kind("leaf")):
            for way in _WAYS:
                yield self._copies(leaf, number, way)
        for node in self.layout.nodes:
            if self.network.claim and node.interfaces:
                yield self._claim(node)
        for node in self.layout.nodes:
            yield self._pod(node)

    # networks ----------------------------------------------------------------------------

    def _definition(self, name: str, plugins: Sequence[Body]) -> Body:
        annotations = {_RESOURCE: self.network.resource} if self.network.kind == "sriov" else {}
        return network(self.namespace, name, f"{self.tag}-{name}", plugins, annotations)

    def _joined(self, lan: str, interface: str) -> dict[str, object]:
        """The plugin that makes an interface of one LAN."""
        if self.network.kind == "host-device":
            return {"type": self.network.kind, "device": self.network.devices[interface]}
        common: dict[str, object] = {"type": self.network.kind, "capabilities": {"mac": True}}
        if self.network.kind == "bridge":
            return {**common, "bridge": f"{self.tag}-{lan}"}
        if self.network.kind == "macvlan":
            return {**common, "master": self.network.master, "mode": "bridge"}
        return common

    def _attachment(self, node: ContainerNode, interface: NodeInterface) -> Body:
        addresses = [{"address": f"{interface.address}/24"}]
        if node.service and interface is node.interfaces[0]:
            addresses.append({"address": f"{node.service}/32"})
        near = IPv4Network(f"{interface.address}/24", strict=False)
        routes = [
            {"dst": route.destination, "gw": gateway}
            for route in node.routes
            for gateway in route.via
            if IPv4Network(gateway).subnet_of(near)
        ]
        ipam = {"type": "static", "addresses": addresses, "routes": routes}
        joined = self._joined(str(interface.lan), f"{node.name}/{interface.name}")
        tuning: dict[str, object] = {"type": "tuning", "sysctl": _ROUTER}
        if "capabilities" not in joined:  # a device that is given keeps its MAC address otherwise
            tuning["capabilities"] = {"mac": True}
        plugins: list[Body] = [{**joined, "ipam": ipam}, tuning]
        return self._definition(f"{node.name}-{interface.name}", plugins)

    def _copies(self, leaf: ContainerNode, number: int, way: str) -> Body:
        """A LAN of a leaf and what it watches, without addresses. Each way has its own: a bridge
        learns who sends where, and would take a reply's copy for one that has arrived."""
        joined = {**self._joined(f"c{number}{way[0]}", ""), "ipam": {}}
        return self._definition(f"{leaf.name}-copies-{way}", [joined])

    def _claim(self, node: ContainerNode) -> Body:
        """Virtual functions for a pod's interfaces. Multus takes those whose attribute is what the
        network attachment calls its resource, and tells the CNI plugin each one's address; it
        passes over one of which it knows none. To ask for an attribute that one of the class's
        devices does not have is an error, by which no device is allocated at all."""
        there = " && ".join(f'"{name}" in {_DEVICE}' for name in ("resourceName", "deviceID"))
        wanted = f"{there} && {_DEVICE}.resourceName == {json.dumps(self.network.resource)}"
        asked = {
            "deviceClassName": self.network.claim,
            "allocationMode": "ExactCount",
            "count": len(node.interfaces),
            "selectors": [{"cel": {"expression": wanted}}],
        }
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {
                "name": node.name, "namespace": self.namespace, "labels": self._labels(),
            },
            "spec": {"spec": {"devices": {"requests": [{"name": _CLAIM, "exactly": asked}]}}},
        }  # fmt: skip

    def _labels(self) -> dict[str, str]:
        return {**MANAGED, CHAIN: self.namespace}

    # pods --------------------------------------------------------------------------------

    def _pod(self, node: ContainerNode) -> Body:
        networks: list[Body] = [
            {"name": f"{node.name}-{i.name}", "interface": i.device, "mac": i.mac}
            for i in node.interfaces
        ]
        watching = [
            (leaf, [name for where, name in leaf.mirrors if where == node.name])
            for leaf in self.layout.of_kind("leaf")
        ]
        watching = [(leaf, names) for leaf, names in watching if names]
        networks += [
            {"name": f"{leaf.name}-copies-{way}", "interface": f"copies{number}{way[0]}"}
            for number, (leaf, _) in enumerate(watching)
            for way in _WAYS
        ]
        if node.kind == "leaf":
            ends = zip(_WAYS, (node.mirror, _SECOND), strict=True)
            networks += [
                {"name": f"{node.name}-copies-{way}", "interface": device} for way, device in ends
            ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": node.name,
                "namespace": self.namespace,
                "labels": {**self._labels(), "headrace.io/vnf": node.vnf},
                "annotations": {NETWORKS: json.dumps(networks)},
            },
            "spec": self._pod_spec(node, [names for _, names in watching]),
        }

    def _pod_spec(self, node: ContainerNode, watched: Sequence[Sequence[str]]) -> Body:
        supply = self.supplies[node.vnf]
        container: dict[str, object] = {
            "name": CONTAINER,
            "image": supply.image,
            "imagePullPolicy": "IfNotPresent",
            "env": [
                {"name": name, "value": value}
                for name, value in sorted(
                    environment(node, self.layout, self.supplies[node.vnf]).items()
                )
            ],
            "resources": self._resources(node),
            "securityContext": rights(supply.capabilities),
        }
        if supply.command:
            container["args"] = list(supply.command)
        health = ("/headrace/health",) if not supply.opaque else supply.health
        if health is not None:
            container["readinessProbe"] = {
                "exec": {"command": list(health)}, "periodSeconds": 1, "timeoutSeconds": 5,
                "failureThreshold": 3,
            }  # fmt: skip
        spec: dict[str, object] = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "dnsPolicy": "Default",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        if self.network.claim and node.interfaces:
            spec["resourceClaims"] = [{"name": _CLAIM, "resourceClaimTemplateName": node.name}]
        if watched:
            spec["initContainers"] = [self._before(_copying(watched))]
        elif node.kind == "leaf":
            spec["initContainers"] = [self._before(_merging(node.mirror))]
        return {**spec, **self._where(node)}

    def _resources(self, node: ContainerNode) -> Body:
        """Limits are what is asked for, so that with whole `cpus` the CPUs are the pod's own
        (static CPU manager). A VNF without `cpus` has no limit, as without Kubernetes."""
        given = self.supplies[node.vnf].allocation
        memory = f"{given.memory_mb or _MEMORY_MB}Mi"
        requests = {"cpu": f"{given.cpus:g}" if given.cpus else _CPU_SHARE, "memory": memory}
        limits = dict(requests) if given.cpus else {"memory": memory}
        if self.network.claim and node.interfaces:
            return {"requests": requests, "limits": limits, "claims": [{"name": _CLAIM}]}
        if self.network.kind == "sriov" and node.interfaces:
            functions = {self.network.resource: str(len(node.interfaces))}
            requests, limits = requests | functions, limits | functions
        return {"requests": requests, "limits": limits}

    def _before(self, lines: Sequence[str]) -> Body:
        """What is set in a pod's network before its VNF starts."""
        return {
            "name": "mirror",
            "image": self.supplies[self.layout.client.vnf].image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-ec", "\n".join(lines)],
            "resources": {
                "requests": {"cpu": _CPU_SHARE, "memory": "64Mi"}, "limits": {"memory": "64Mi"},
            },
            "securityContext": rights(("NET_ADMIN",)),
        }  # fmt: skip

    def _where(self, node: ContainerNode) -> Body:
        named = self.network.nodes.get(node.name) or self.network.nodes.get("")
        if named:
            return {"nodeSelector": {"kubernetes.io/hostname": named}}
        if self.network.kind != "bridge":
            return {}
        return together(self.namespace)


def _copying(watched: Sequence[Sequence[str]]) -> list[str]:
    """Copies of both directions go to a leaf's LANs, of each to its own."""
    lines = []
    for number, names in enumerate(watched):
        lines += [f"ip link set copies{number}{way[0]} up" for way in _WAYS]
        for name in names:
            lines.append(f"tc qdisc replace dev {name} clsact")
            lines += [
                f"tc filter add dev {name} {hook} {_ALL} egress mirror dev copies{number}{way[0]}"
                for hook, way in zip(("ingress", "egress"), _WAYS, strict=True)
            ]
    return lines


def _merging(mirror: str) -> list[str]:
    """A leaf listens at one interface: what comes by the other is as if it came there."""
    return [
        f"ip link set {mirror} up",
        f"ip link set {_SECOND} up",
        f"tc qdisc replace dev {_SECOND} clsact",
        f"tc filter add dev {_SECOND} ingress {_ALL} ingress redirect dev {mirror}",
    ]


def network(
    namespace: str,
    name: str,
    cni: str,
    plugins: Sequence[Body],
    annotations: Mapping[str, str] | None = None,
) -> Body:
    """An attachment to a network, which CNI calls `cni`."""
    labels = {**MANAGED, CHAIN: namespace}
    metadata: dict[str, object] = {"name": name, "namespace": namespace, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    config = {"cniVersion": _CNI_VERSION, "name": cni, "plugins": plugins}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata,
        "spec": {"config": json.dumps(config)},
    }


def together(namespace: str) -> Body:
    """A pod goes where the first of its chain is."""
    term = {
        "labelSelector": {"matchLabels": {CHAIN: namespace}},
        "topologyKey": "kubernetes.io/hostname",
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAffinity": required}}


def config_map(namespace: str, name: str, files: Mapping[str, bytes], what: str) -> Body:
    """Files that pods are given by an object. `what`: as a user is told of those that are too
    large for one."""
    whole = sum(map(len, files.values()))
    if whole > _FILES_MOST:
        raise BadInput(
            f"Kubernetes: {what} have {whole} bytes; allowed: {_FILES_MOST}, as pods are given "
            "them by an object of the API server"
        )
    texts, others = dict[str, str](), dict[str, str]()
    for key, data in files.items():
        try:
            texts[key] = data.decode()
        except UnicodeDecodeError:
            others[key] = base64.b64encode(data).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": MANAGED},
        "immutable": True,
        "data": texts,
        **({"binaryData": others} if others else {}),
    }


def file_key(number: int, file: Path) -> str:
    """What a file is called in such an object: no two the same, of letters that it may have."""
    return f"{number}-{re.sub(r'[^A-Za-z0-9_.-]', '-', file.name)}"


def rights(capabilities: Sequence[str]) -> Body:
    """Rights as containers without Kubernetes have them (host/runtime.py)."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": sorted(capabilities)},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
