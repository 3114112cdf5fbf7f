# SPDX-License-Identifier: Apache-2.0
"""Rules on the kernel's share of the path: softirqs, sockets, conntrack, fragments, bridges."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.units import percent
from headrace.collect.cores import softirq

# A core that spends this share of its time in softirqs has hardly any left for what they feed.
SOFTIRQ_FULL = 0.60
SOFTIRQ_IDLE = 0.5  # of the fullest core: where the others stay below, the work is not spread
FRAGMENTS = 0.05  # of the packets received
LOST = 1e-4  # of the packets: below, one drop at the start is not the limit
MIN_PACKETS = 1000
_NOT_OURS = "OTHERHOST"  # a frame to somebody else that a socket read: of a switch in user space


def softirq_on_one_core(e: Evidence) -> Iterator[Diagnosis]:
    """NfvInsight table 3: all softirqs on one core, the others idle."""
    cpu = _softirq_core(e)
    if cpu is None:
        return
    busy = softirq(e.hardware)
    others = max(v for c, v in busy.items() if c != cpu)
    squeezed = e.os.change("softnet_squeezed").get(cpu, 0)
    dropped = _backlog_drops(e).get(cpu, 0)
    lost = (f"{dropped:.0f} packets found {cpu}'s backlog queue full",) if dropped else ()
    yield Diagnosis(
        rule="softirq-on-one-core",
        weight=Weight.LOSS if dropped else Weight.SHORTAGE,
        share=busy[cpu],
        place=cpu,
        text=f"{cpu} spends {percent(busy[cpu], 2)} of its time in softirqs, the next core "
        f"{percent(others, 2)}",
        evidence=(f"NAPI ran out of its budget {squeezed:.0f} times on {cpu}", *lost),
        remedy="spread them: RPS (rps_cpus of the receiving device's queues), more RX queues, "
        "or threaded NAPI (echo 1 > /sys/class/net/DEVICE/threaded)",
    )


def _softirq_core(e: Evidence) -> str | None:
    """The one that has nearly all softirqs, if that is most of its time."""
    busy = softirq(e.hardware)
    if len(busy) < 2:
        return None
    cpu = max(busy, key=lambda c: busy[c])
    others = max(v for c, v in busy.items() if c != cpu)
    return cpu if busy[cpu] >= SOFTIRQ_FULL and others <= SOFTIRQ_IDLE * busy[cpu] else None


def _backlog_drops(e: Evidence) -> dict[str, float]:
    seen = e.os.change("softnet_packets")
    return {
        cpu: count
        for cpu, count in e.os.change("softnet_dropped_packets").items()
        if count > LOST * max(seen.get(cpu, 0), MIN_PACKETS)
    }


def backlog_full(e: Evidence) -> Iterator[Diagnosis]:
    """Where one core has all softirqs, that is why its queue is full, and said so."""
    seen, alone = e.os.change("softnet_packets"), _softirq_core(e)
    for cpu, count in _backlog_drops(e).items():
        if cpu != alone:
            yield Diagnosis(
                rule="backlog-full",
                weight=Weight.LOSS,
                share=count / (count + seen.get(cpu, 0)),
                place=cpu,
                text=f"{cpu}'s backlog queue was full: {count:.0f} packets dropped",
                remedy="give the core less to do, or raise net.core.netdev_max_backlog",
            )


def socket_buffer_full(e: Evidence) -> Iterator[Diagnosis]:
    for metric, what, remedy in (
        (
            "udp_receive_buffer_full_packets",
            "UDP packets found the receiver's socket buffer full",
            "read faster, or raise SO_RCVBUF (net.core.rmem_max)",
        ),
        (
            "tcp_receive_queue_full_segments",
            "TCP segments found the receiver's queue full",
            "read faster, or raise net.ipv4.tcp_rmem",
        ),
    ):
        for place, count in e.os.change(metric).items():
            if count < 10:
                continue
            yield Diagnosis(
                rule="socket-buffer-full",
                weight=Weight.LOSS,
                share=_share(count, place, e),
                place=place,
                text=f"{count:.0f} {what} ({place}'s namespace)",
                evidence=_drops(e, "SOCKET_RCVBUFF"),
                remedy=remedy,
            )


def accept_queue_full(e: Evidence) -> Iterator[Diagnosis]:
    for place, count in e.os.change("tcp_accept_queue_full_connections").items():
        if count >= 10:
            yield Diagnosis(
                rule="accept-queue-full",
                weight=Weight.LOSS,
                share=_share(count, place, e),
                place=place,
                text=f"{count:.0f} connections found the listener's accept queue full",
                remedy="accept faster, or raise the backlog of listen() and net.core.somaxconn",
            )


def conntrack_full(e: Evidence) -> Iterator[Diagnosis]:
    """`drop` counts packets of new connections for which the table had no room."""
    for place, count in e.os.change("conntrack_drop").items():
        if count >= 10:
            entries = e.os.peak("conntrack_entries").get(place, 0)
            yield Diagnosis(
                rule="conntrack-full",
                weight=Weight.LOSS,
                share=_share(count, place, e),
                place=place,
                text=f"the connection tracking table of {place}'s namespace was full: {count:.0f} "
                "packets of new connections dropped",
                evidence=(f"it held {entries:.0f} entries at most",),
                remedy="raise net.netfilter.nf_conntrack_max, shorten its timeouts, or do not "
                "track what needs no state (nftables `notrack`)",
            )


def fragments(e: Evidence) -> Iterator[Diagnosis]:
    """NfvInsight figure 19: datagrams larger than the MTU are cut and put together again."""
    came = e.os.change("ip_received_packets")
    for place, count in e.os.change("ip_fragments_received").items():
        received = came.get(place, 0)
        if received < MIN_PACKETS or count < FRAGMENTS * received:
            continue
        whole = e.os.change("ip_datagrams_reassembled").get(place, 0)
        failed = e.os.change("ip_reassembly_failures").get(place, 0)
        yield Diagnosis(
            rule="fragments",
            weight=Weight.LOSS if failed > FRAGMENTS * (whole + 1) else Weight.SHORTAGE,
            share=min(1.0, count / received),
            place=place,
            text=f"{percent(count / received, 2)} of the packets are IP fragments, reassembled in "
            f"{place}'s namespace",
            evidence=(
                f"{count:.0f} fragments became {whole:.0f} datagrams; {failed:.0f} failures",
                *_waiting(e),
            ),
            remedy="one MTU along the whole path, as large as the datagrams where it stays inside "
            "the server (jumbo frames on veth and bridge), or UDP GSO in the application",
        )


def bridge_netfilter(e: Evidence) -> Iterator[Diagnosis]:
    """Each bridged packet runs through iptables, fragments are reassembled and cut again."""
    ports = e.virtual_switch.change("rx_packets")
    forwarded = {
        bridge: sum(v for p, v in ports.items() if p.startswith(f"{bridge}/"))
        for bridge, on in e.virtual_switch.now("bridge_netfilter").items()
        if on
    }
    busy = {bridge: packets for bridge, packets in forwarded.items() if packets >= MIN_PACKETS}
    if busy:
        yield Diagnosis(
            rule="bridge-netfilter",
            weight=Weight.ADVICE,
            share=1.0,
            place="bridges",
            text="netfilter sees each packet that is bridged: "
            + ", ".join(f"{packets:.0f} of {bridge}" for bridge, packets in busy.items()),
            evidence=("kube-proxy's and network policies' rules are among those of a node",)
            if e.pods
            else (),
            remedy="sysctl net.bridge.bridge-nf-call-iptables=0 (and -ip6tables, -arptables), "
            "unless rules depend on it",
        )


def retransmissions(e: Evidence) -> Iterator[Diagnosis]:
    sent = e.os.change("tcp_sent_segments")
    for place, count in e.os.change("tcp_retransmitted_segments").items():
        share = count / sent[place] if sent.get(place) else 0.0
        if count >= 100 and share > 0.01:
            yield Diagnosis(
                rule="retransmissions",
                weight=Weight.ADVICE,
                share=share,
                place=place,
                text=f"{percent(share, 2)} of the TCP segments sent from {place}'s namespace are "
                "repeated",
                evidence=_drops(e),
                remedy="look for the drops above: something on the way has no room",
            )


def _share(count: float, place: str, e: Evidence) -> float:
    received = e.os.change("ip_received_packets").get(place, 0)
    return min(1.0, count / received) if received else 1.0


def _drops(e: Evidence, reason: str | None = None) -> tuple[str, ...]:
    if e.stack is None:
        return ()
    return tuple(
        f"{d.packets} packets dropped on {d.netns or d.netns_inum}/{d.device}: {d.reason}"
        for d in sorted(e.stack.drops, key=lambda d: -d.packets)
        if (d.reason == reason if reason else d.reason != _NOT_OURS)
    )[:3]


def _waiting(e: Evidence) -> tuple[str, ...]:
    if e.stack is None:
        return ()
    return tuple(
        f"a fragment waits {s.mean_ns / 1000:.0f} µs for the others in the mean, at most "
        f"{s.max_ns / 1000:.0f} µs ({s.place})"
        for s in e.stack.stages
        if s.to == "reassembled"
    )


RULES = (
    softirq_on_one_core,
    backlog_full,
    socket_buffer_full,
    accept_queue_full,
    conntrack_full,
    fragments,
    bridge_netfilter,
    retransmissions,
)
