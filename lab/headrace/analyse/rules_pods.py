# SPDX-License-Identifier: Apache-2.0
"""Rules on pods: where a node put their CPUs, memory and devices against each other, and what it
stopped (the kubelet's CPU, memory and topology managers); what of the cluster's own network is on
the packets' way."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules_kernel import MIN_PACKETS
from headrace.analyse.rules_machine import THROTTLED
from headrace.analyse.units import percent
from headrace.record.pods import PodPlace

_CLUSTER_DEVICE = "eth0"  # as the kubelet's runtime calls a pod's own (CRI)
_BESIDE = 0.05  # of a pod's packets: probes and name servers are far less


def _places(e: Evidence) -> Iterator[tuple[str, PodPlace]]:
    for pods in e.pods.values():
        yield from pods.items()


def misaligned(e: Evidence) -> Iterator[Diagnosis]:
    """A packet that crosses sockets pays for it at each touch."""
    for name, pod in _places(e):
        wrong = {
            address: node
            for address, node in pod.devices.items()
            if node >= 0 and pod.cpu_nodes and node not in pod.cpu_nodes
        }
        parts = [f"{address} is on NUMA node {node}" for address, node in sorted(wrong.items())]
        if pod.exclusive and len(pod.cpu_nodes) > 1:
            parts.append("its CPUs are on several")
        if pod.cpu_nodes and pod.memory_nodes and not set(pod.cpu_nodes) & set(pod.memory_nodes):
            parts.append(f"its memory is on {', '.join(map(str, pod.memory_nodes))} only")
        if parts:
            yield Diagnosis(
                rule="pod-misaligned",
                weight=Weight.SHORTAGE,
                share=1.0,
                place=name,
                text=f"pod {name} on {pod.node} has CPUs of NUMA node "
                f"{', '.join(map(str, pod.cpu_nodes))}, and {'; '.join(parts)}",
                evidence=(f"CPUs {', '.join(map(str, pod.cpus))}",),
                remedy="the kubelet's `topologyManagerPolicy: single-numa-node`, with "
                "`topologyManagerScope: pod`, and a device plugin that tells the nodes of its "
                "devices",
            )


def shared_cpus(e: Evidence) -> Iterator[Diagnosis]:
    """Who polls loses packets whenever others have its CPU."""
    for name, pod in _places(e):
        if pod.polls and not pod.exclusive:
            yield Diagnosis(
                rule="pod-shares-cpus",
                weight=Weight.ADVICE,
                share=0.5,
                place=name,
                text=f"pod {name} polls on CPUs of {pod.node} that all pods without CPUs of their "
                f"own share ({', '.join(map(str, pod.cpus))})",
                evidence=(f"its quality of service is {pod.qos}",),
                remedy="`ground.kubernetes.cpus: 1` or more, and the kubelet's "
                "`cpuManagerPolicy: static`",
            )


def throttled(e: Evidence) -> Iterator[Diagnosis]:
    for name, pod in _places(e):
        share = pod.throttled / pod.periods if pod.periods else 0.0
        if share >= THROTTLED:
            limit = f"{pod.cpu_limit:g} CPUs" if pod.cpu_limit else "its limit"
            yield Diagnosis(
                rule="pod-throttled",
                weight=Weight.SHORTAGE,
                share=share,
                place=name,
                text=f"pod {name} on {pod.node} used up {limit} in {percent(share, 2)} of the "
                "periods and was stopped",
                evidence=(f"{pod.throttled} of {pod.periods} periods",),
                remedy="a greater limit (`vnfs.NAME.cpus`), or whole CPUs of its own",
            )


def cluster_network(e: Evidence) -> Iterator[Diagnosis]:
    """The CNI plugin's network, its policies and kube-proxy's rules are in each packet's way there;
    chains are wired past it."""
    received = e.virtualization.change("rx_packets")
    for pod in {name for name, _ in _places(e)}:
        own = {p: n for p, n in received.items() if p.startswith(f"{pod}/")}
        whole, by = sum(own.values()), own.get(f"{pod}/{_CLUSTER_DEVICE}", 0.0)
        if by >= MIN_PACKETS and by >= _BESIDE * whole:
            yield Diagnosis(
                rule="pod-cluster-network",
                weight=Weight.SHORTAGE,
                share=by / whole,
                place=pod,
                text=f"{percent(by / whole, 2)} of the packets that pod {pod} received came by the "
                f"cluster's own network ({_CLUSTER_DEVICE}), which the CNI plugin, its policies "
                "and kube-proxy's rules are a part of",
                evidence=(f"{by:.0f} of {whole:.0f} packets",),
                remedy="routes by the chain's own interfaces (network attachments), and peers "
                "called by their addresses there instead of by a Service",
            )


RULES = (misaligned, shared_cpus, throttled, cluster_network)
