# SPDX-License-Identifier: Apache-2.0
"""One trial: the load, and what clients, appliances, interfaces and CPUs say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import mean

from headrace.ground.appliances import charge
from headrace.ground.appliances.addressing import ContainerNode
from headrace.ground.appliances.caches import Looked, looked_up
from headrace.ground.appliances.graph import ApplianceGraph, ChargeReading
from headrace.ground.appliances.load import Load
from headrace.ground.appliances.load.reported import whole_seconds
from headrace.ground.appliances.own_counters import Counters, grown, judge
from headrace.host.plumbing import InterfaceCount
from headrace.record.facts import Facts, LcoreTime, Observation
from headrace.record.figures import L1_OVERHEAD_BYTES, ApplicationFigures, Figures
from headrace.record.verdict import Finding
from headrace.spec.workload import AnyWorkload, Http, Packets, Stream

_FCS_BYTES = 4

Interfaces = Mapping[str, Mapping[str, InterfaceCount]]


@dataclass(frozen=True)
class Began:
    """What was counted when a load began."""

    interfaces: Interfaces
    charge: ChargeReading


@dataclass(frozen=True)
class Observed:
    """A load, and what grew while it ran."""

    workload: AnyWorkload
    asked_s: float
    load_pps: float  # 0: as fast as possible
    load: Load
    used: charge.Used
    cycles: dict[str, float]  # container: for each packet that it received
    clients: InterfaceCount  # of the clients' interface
    servers: InterfaceCount  # of the servers' interfaces, together
    clocks: tuple[LcoreTime, ...]  # of the CPUs
    cpus: int  # of all machines


def begin(deployed: ApplianceGraph) -> Began:
    return Began(deployed.interface_counts(), deployed.charge())


def end(
    deployed: ApplianceGraph,
    workload: AnyWorkload,
    asked_s: float,
    load_pps: float,
    began: Began,
    load: Load,
) -> Observed:
    ended = deployed.charge()
    elapsed = ended.at_s - began.charge.at_s
    interfaces = deployed.interface_counts()

    def counted(ends: Sequence[ContainerNode], side: str) -> InterfaceCount:
        each = [(node.name, node.interface(side).device) for node in ends]
        return _sum([_grown(began.interfaces[n][d], interfaces[n][d]) for n, d in each])

    polling = 1.0 if isinstance(workload, Packets) else 0.0
    used = charge.used(deployed, began.charge, ended, polling, load.duration_s)
    received = _received(began.interfaces, interfaces)
    cycles = _cycles(used, received, elapsed, deployed.hz())
    layout = deployed.layout
    return Observed(
        workload, asked_s, load_pps, load, used, cycles, counted([layout.client], "down"),
        counted(layout.of_kind("server"), "up"),
        _stolen(began.charge, ended, elapsed), deployed.cpus,
    )  # fmt: skip


def _stolen(before: ChargeReading, after: ChargeReading, seconds: float) -> tuple[LcoreTime, ...]:
    """What a hypervisor took of CPUs on which no poller of ours runs. Whom the kernel lets run
    there is a part of what is measured."""
    return tuple(
        LcoreTime(cpu, seconds, seconds, max(0, now - before.stolen_ns.get(cpu, now)) / 1e9)
        for cpu, now in after.stolen_ns.items()
    )


def _received(before: Interfaces, after: Interfaces) -> dict[str, int]:
    """Packets, by container."""
    return {
        name: sum(_grown(before[name][d], c).rx_packets for d, c in devices.items() if d != "lo")
        for name, devices in after.items()
    }


def _cycles(
    used: charge.Used, received: Mapping[str, int], seconds: float, hz: Sequence[float]
) -> dict[str, float]:
    """CPU time by the CPUs' frequency, over the packets that a container's interfaces received:
    segments that were never cut count as one. None without what the stack took."""
    return {
        name: (used.stack[name] + used.processes.get(name, 0.0)) * seconds * mean(hz) / packets
        for name, packets in received.items()
        if packets and hz and name in used.stack
    }


def asked_s(workload: AnyWorkload, seconds: float) -> float:
    """The duration that the load generator is given: most take whole seconds."""
    own = isinstance(workload, Packets)
    return seconds if own else float(whole_seconds(seconds))


def observation(
    deployed: ApplianceGraph,
    seen: Observed,
    before: Counters,
    after: Counters,
    verified: list[Finding],
) -> Observation:
    """`before` and `after` are the appliances' own counters."""
    looked = None
    if isinstance(seen.workload, Http):
        looked = looked_up(deployed, grown(before, after))
    return Observation(
        direction="forward" if seen.load.packets else "both",
        figures=_figures(seen, _application(seen, looked, grown(before, after))),
        facts=_facts(seen, [*verified, *judge(deployed, before, after, seen.workload)]),
    )


def _facts(seen: Observed, more: list[Finding]) -> Facts:
    load, own = seen.load, seen.load.packets
    received = own.received if own else 0
    if own and own.strangers:
        received = min(received, own.sent)  # more tells nothing
    errors = Finding(
        check="errors", ok=load.errors == 0, value=load.errors, limit=0,
        text=f"The clients report {load.errors} errors.",
    )  # fmt: skip
    return Facts(
        sent=own.sent if own else 0,
        received=received,
        lost=own.sent - received if own else 0,
        asked=own.intended if own else None,
        intended_s=own.asked_s if own and own.asked_s else seen.asked_s,
        took_s=load.duration_s,
        behind_s=own.behind_s if own else None,
        undecided=own.undecided if own else None,
        clocks=(*seen.clocks, *(own.clocks if own else ())),
        others_cpus=seen.used.others,  # the lab itself and the containers' tool take some of it
        cpus=seen.cpus,
        more=(*more, errors),
    )


def _figures(seen: Observed, application: ApplicationFigures) -> Figures:
    """Packets are the generator's own where it counts them. Else they are those of both directions,
    where each arrives: at interfaces of clients and servers. What was never cut counts as one."""
    load, clients, servers = seen.load, seen.clients, seen.servers
    seconds, own = load.duration_s, load.packets
    to_servers, to_clients = _l2_bytes(servers), _l2_bytes(clients)
    if own:
        received, sent = own.received, own.sent
        l2_bytes = load.bytes if isinstance(seen.workload, Packets) else to_servers
    else:
        received = clients.rx_packets + servers.rx_packets
        sent = clients.tx_packets + servers.tx_packets
        l2_bytes = to_servers + to_clients
    return Figures(
        load_pps=(seen.load_pps or own.intended / seconds) if own else 0,
        throughput_pps=received / seconds,
        throughput_gbps_l1=(l2_bytes + received * L1_OVERHEAD_BYTES) * 8 / seconds / 1e9,
        throughput_gbps_l2=l2_bytes * 8 / seconds / 1e9,
        offered_pps=(own.intended if own else sent) / seconds,
        sent_pps=sent / seconds,
        received_pps=received / seconds,
        loss_ratio=load.loss_ratio,
        latency_ns=load.latency,
        duration_s=seconds,
        intended=own.intended if own else 0,
        sent=sent,
        received=received,
        lost=max(0, sent - received) if own else 0,
        reordered=own.reordered if own else 0,
        duplicated=own.duplicated if own else 0,
        latency_hdr=own.latency_hdr if own else None,
        application=application,
        labels=() if open_loop(seen.workload) else ("closed-loop",),
    )


def _application(
    seen: Observed, looked: Looked | None, counters: Mapping[str, Mapping[str, int]]
) -> ApplicationFigures:
    load, seconds = seen.load, seen.load.duration_s
    to_servers, to_clients = _l2_bytes(seen.servers), _l2_bytes(seen.clients)
    asked = seen.workload.repeated if isinstance(seen.workload, Http) else None
    return ApplicationFigures(
        gbps=load.gbps, requests=load.requests, requests_per_s=load.requests_per_s,
        errors=load.errors, retransmits=load.retransmits, cpu=seen.used.processes,
        stack=seen.used.stack, quota=seen.used.quota, cycles=seen.cycles,
        to_servers_gbps=None if load.packets else to_servers * 8 / seconds / 1e9,
        to_clients_gbps=None if load.packets else to_clients * 8 / seconds / 1e9,
        hit_ratio=looked.ratio if looked else None,
        hit_ratio_asked=asked if looked else None,
        counters={
            name: {key: max(0, value) for key, value in values.items()}
            for name, values in counters.items()
        },
    )  # fmt: skip


def open_loop(workload: AnyWorkload) -> bool:
    if isinstance(workload, Stream):
        return workload.kind == "udp"
    return workload.kind in ("packets", "pcap")


def _l2_bytes(count: InterfaceCount) -> int:
    return count.rx_bytes + count.rx_packets * _FCS_BYTES


def _sum(counts: Sequence[InterfaceCount]) -> InterfaceCount:
    return InterfaceCount(
        *(sum(getattr(c, f.name) for c in counts) for f in fields(InterfaceCount))
    )


def _grown(before: InterfaceCount, after: InterfaceCount) -> InterfaceCount:
    return InterfaceCount(
        after.rx_packets - before.rx_packets,
        after.tx_packets - before.tx_packets,
        after.rx_bytes - before.rx_bytes,
        after.tx_bytes - before.tx_bytes,
    )
