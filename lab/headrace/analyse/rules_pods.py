# SPDX-License-Identifier: Apache-2.0
"""Rules on pods: where a node put their CPUs, memory and devices against each other, and what it
stopped (the kubelet's CPU, memory and topology managers); what of the cluster's own network is on
the packets' way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.pairs import PairedResults, pair_results
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules_kernel import MIN_PACKETS
from headrace.analyse.rules_machine import THROTTLED
from headrace.analyse.summary import key_of, summarise
from headrace.analyse.units import percent, plural
from headrace.record.estimates import Paired
from headrace.record.pods import PodPlace
from headrace.record.points import PointRow
from headrace.record.rows import Result

_PRIVILEGED = "ground.kubernetes.privileged"
# What the kernel says of a thread for which it keeps loads behind stores. Before Linux 5.16 it did
# so to each whose system calls are filtered, as a pod's are that is not privileged (the kernel's
# documentation of spec_store_bypass_disable).
_HELD = ("thread force mitigated", "thread mitigated")
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


def rights(e: Evidence) -> Iterator[Diagnosis]:
    """What pods without rights carry, by privileged ones that were measured beside them."""
    for confined, privileged in _by_rights(e.points):
        own = [r for r in e.results if r.chain == confined.point and r.goal != "fixed"]
        for one in summarise(own):  # a load that is given says nothing of what could be carried
            key = one.key.model_copy(update={"chain": privileged.point})
            theirs = [r for r in e.results if key_of(r) == key]
            if not _in_turn(one.results, theirs):
                continue  # what the machine did meanwhile would be the pods'
            pair = pair_results(one.key, theirs, one.results)
            if pair.paired is not None:
                yield _price(e, confined.point, privileged.point, pair, pair.paired)


def _by_rights(points: Sequence[PointRow]) -> Iterator[tuple[PointRow, PointRow]]:
    """Points of a group that differ in that only."""
    for one, other in permutations(points, 2):
        alike = other.values == {**one.values, _PRIVILEGED: True}
        if alike and one.group == other.group and one.values.get(_PRIVILEGED) is False:
            yield one, other


def _in_turn(ours: Sequence[Result], theirs: Sequence[Result]) -> bool:
    """Whether no two of one side followed each other."""
    each = sorted((r.trial or 0, side) for side in (0, 1) for r in (ours, theirs)[side])
    return all(one != other for (_, one), (_, other) in pairwise(each))


def _price(
    e: Evidence, confined: str, privileged: str, results: PairedResults, pair: Paired
) -> Diagnosis:
    ratio = pair.ratio
    text = (
        f"pods without rights ({confined}) carry {percent(1 - ratio.value, 2)} less than "
        f"privileged ones ({privileged})"
    )
    slower = pair.verdict == "slower"
    if not slower:
        text = (
            f"pods without rights ({confined}) carry no less than privileged ones ({privileged}) "
            "that would show"
        )
    evidence = [
        f"{ratio.value:.3f} times as much (95 %: {ratio.low:.3f} to {ratio.high:.3f}), "
        f"{plural(pair.pairs, 'pair')} of repetitions"
    ]
    if results.doubted:
        of = plural(pair.pairs, "pair")
        evidence.append(f"the audit doubts a rate in {results.doubted} of {of}")
    own = [
        pod
        for name, pods in e.pods.items()
        if name == f"{results.key.execution}, {confined}"
        for pod in pods.values()
    ]
    held = {pod.store_bypass for pod in own} & set(_HELD)
    if held:
        evidence.append(f"loads wait for stores there (Speculation_Store_Bypass: {min(held)})")
    return Diagnosis(
        rule="pod-rights",
        weight=Weight.ADVICE,
        share=1 - ratio.value if slower else 0.0,
        place=confined,
        text=text,
        evidence=tuple(evidence),
        remedy="nodes with Linux 5.16 or later, or `spec_store_bypass_disable=prctl` on their "
        "kernel's command line"
        if slower and held
        else "",
    )


RULES = (misaligned, shared_cpus, throttled, cluster_network, rights)
