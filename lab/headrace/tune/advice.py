# SPDX-License-Identifier: Apache-2.0
"""The advice: NfvInsight's three findings in terms of today's Linux.

Each says from the path as it is and a run on it whether it would apply and why, and what it
changes. Trying it is the runner's part.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from headrace.errors import HeadraceError
from headrace.host import settings
from headrace.host.settings import Setting
from headrace.tune.gains import Topic
from headrace.tune.path import BRIDGE_NF, ServerPath
from headrace.tune.program import find_shortcut, ways
from headrace.tune.seen import Seen
from headrace.tune.wish import Protocol

MTU_MAX = 65535
_HEADERS = 28  # IPv4 and UDP
_PAGE_MTU = 3498  # a page less the kernel's headroom and shared info (drivers/net/veth.c), a tag
_AF_XDP = 44  # linux/socket.h; the module has no name for it
_CONCENTRATED = 0.6  # of all softirq time on one core


@dataclass(frozen=True)
class Situation:
    """What an advice decides from."""

    path: ServerPath
    protocol: Protocol
    before: Seen  # a run on the path as it was
    cpus: tuple[int, ...]
    message_bytes: int

    def mtu(self) -> int:
        return min(
            int(_device(namespace, device, "mtu").read())
            for namespace, device in self.path.devices()
        )


@dataclass(frozen=True)
class Verdict:
    applies: bool
    why: str


Way = Literal["peer", "xdp", "xsk"]


class Advice(ABC):
    name: ClassVar[str]
    finding: ClassVar[Topic]
    shortcut: ClassVar[Way | None] = None
    warning: ClassVar[str] = ""  # what it costs besides

    @abstractmethod
    def applies(self, s: Situation) -> Verdict: ...

    def changes(self, s: Situation) -> list[Setting]:
        return []

    def segment(self, s: Situation) -> int:
        """UDP_SEGMENT's size for the sender; 0: as before."""
        return 0


def _device(namespace: str, device: str, what: str, value: str = "") -> Setting:
    return Setting(namespace=namespace, target=f"/sys/class/net/{device}/{what}", value=value)


def _offload(namespace: str, device: str, feature: str, value: str) -> Setting:
    return Setting(kind="offload", namespace=namespace, target=f"{device}:{feature}", value=value)


def _queues(namespace: str, device: str, kind: str) -> list[str]:
    listed = settings.run(namespace, ["ls", f"/sys/class/net/{device}/queues"]).split()
    return sorted((q for q in listed if q.startswith(kind)), key=lambda q: int(q[3:]))


def busiest(seen: Seen) -> tuple[str, float]:
    """The core with the most softirq time and its share of all."""
    total = sum(seen.softirq_s.values())
    core = max(seen.softirq_s, key=lambda c: seen.softirq_s[c])
    return core, seen.softirq_s[core] / total if total else 0.0


def _concentrated(s: Situation) -> Verdict:
    if len(s.cpus) < 2:
        return Verdict(False, "there is one CPU only")
    core, share = busiest(s.before)
    where = f"{share:.0%} of the softirq time is {core}'s"
    return Verdict(share >= _CONCENTRATED, where)


class Rps(Advice):
    """Packets go on another core's backlog, by flow (Linux' Documentation/networking/scaling)."""

    name = "rps"
    finding: ClassVar[Topic] = "spread"

    def applies(self, s: Situation) -> Verdict:
        return _concentrated(s)

    def changes(self, s: Situation) -> list[Setting]:
        core, _ = busiest(s.before)
        mask = settings.cpu_mask([c for c in s.cpus if f"cpu{c}" != core])
        return [
            _device(namespace, device, f"queues/{queue}/rps_cpus", mask)
            for namespace, device in s.path.ports()
            for queue in _queues(namespace, device, "rx-")
        ]


class Xps(Advice):
    """Each core sends through a queue of its own."""

    name = "xps"
    finding: ClassVar[Topic] = "spread"

    def applies(self, s: Situation) -> Verdict:
        queues = {d: len(_queues(n, d, "tx-")) for n, d in _ends(s.path)}
        if max(queues.values()) < 2:
            return Verdict(False, "each device has one transmit queue")
        return _concentrated(s)

    def changes(self, s: Situation) -> list[Setting]:
        return [
            _device(namespace, device, f"queues/{queue}/xps_cpus", settings.cpu_mask([cpu]))
            for namespace, device in _ends(s.path)
            for queue, cpu in zip(_queues(namespace, device, "tx-"), s.cpus, strict=False)
        ]


class ThreadedNapi(Advice):
    """NAPI in a thread that the scheduler places. A veth polls by NAPI while GRO is on."""

    name = "threaded-napi"
    finding: ClassVar[Topic] = "spread"

    def applies(self, s: Situation) -> Verdict:
        try:
            _device(s.path.receiver.namespace, s.path.receiver.device, "threaded").read()
        except HeadraceError:
            return Verdict(False, "this kernel has no threaded NAPI")
        return _concentrated(s)

    def changes(self, s: Situation) -> list[Setting]:
        r = s.path.receiver
        return [
            _offload(r.namespace, r.device, "generic-receive-offload", "on"),
            _device(r.namespace, r.device, "threaded", "1"),
        ]


class IrqAffinity(Advice):
    """A NIC's interrupts, one core for each queue."""

    name = "irq-affinity"
    finding: ClassVar[Topic] = "spread"

    def applies(self, s: Situation) -> Verdict:
        irqs = _irqs(s.path)
        if not irqs:
            return Verdict(False, "no device of this path has interrupts")
        if len(s.cpus) < 2:
            return Verdict(False, "there is one CPU only")
        return Verdict(len(irqs) > 1, f"the path's devices have {len(irqs)} interrupts")

    def changes(self, s: Situation) -> list[Setting]:
        return [
            Setting(
                namespace="", target=f"/proc/irq/{irq}/smp_affinity_list",
                value=str(s.cpus[i % len(s.cpus)]),
            )
            for i, irq in enumerate(_irqs(s.path))
        ]  # fmt: skip


def _irqs(path: ServerPath) -> list[int]:
    irqs: set[int] = set()
    for namespace, device in path.devices():
        folder = f"/sys/class/net/{device}/device/msi_irqs"
        script = 'if [ -d "$1" ]; then ls "$1"; fi'
        irqs |= {
            int(i) for i in settings.run(namespace, ["sh", "-c", script, "sh", folder]).split()
        }
    return sorted(i for i in irqs if Path(f"/proc/irq/{i}").exists())


def _ends(path: ServerPath) -> list[tuple[str, str]]:
    return [(st.namespace, st.device) for st in path.stations] + path.ports()


class JumboMtu(Advice):
    """The whole path takes what an application sends in one piece."""

    name = "jumbo-mtu"
    finding: ClassVar[Topic] = "whole"

    def applies(self, s: Situation) -> Verdict:
        mtu = s.mtu()
        if mtu >= min(s.message_bytes + _HEADERS, MTU_MAX):
            return Verdict(False, f"the path's MTU is {mtu} already")
        pieces = f"sends of {s.message_bytes} bytes meet an MTU of {mtu}"
        fragments = s.before.grown["receiver"]["fragments"]
        if fragments:
            pieces += f": {fragments} IP fragments came"
        return Verdict(True, pieces)

    def changes(self, s: Situation) -> list[Setting]:
        return [_device(n, d, "mtu", str(MTU_MAX)) for n, d in s.path.devices()]


class BridgeNetfilterOff(Advice):
    """Bridged packets do not run through iptables; fragments are not put together and cut again."""

    name = "bridge-netfilter-off"
    finding: ClassVar[Topic] = "whole"
    warning = "rules of iptables and nftables' ip family no longer see what this bridge passes"

    def applies(self, s: Situation) -> Verdict:
        try:
            on = Setting(namespace=s.path.namespace, target=BRIDGE_NF, value="").read() == "1"
        except HeadraceError:
            return Verdict(False, "this kernel has no bridge-netfilter, or it is not loaded")
        if not on:
            return Verdict(False, "bridge-netfilter is off already")
        fragments = s.before.grown["server"]["fragments"]
        again = (
            f"; it put {fragments} IP fragments together and cut them again" if fragments else ""
        )
        return Verdict(True, f"the bridge passes its packets through netfilter{again}")

    def changes(self, s: Situation) -> list[Setting]:
        return [Setting(namespace=s.path.namespace, target=BRIDGE_NF, value="0")]


class WholeAndUnfiltered(Advice):
    """The two above at once: what NfvInsight figure 19 comes to without both."""

    name = "jumbo-mtu, bridge-netfilter-off"
    finding: ClassVar[Topic] = "whole"
    warning = BridgeNetfilterOff.warning
    _parts = (JumboMtu(), BridgeNetfilterOff())

    def applies(self, s: Situation) -> Verdict:
        verdicts = [p.applies(s) for p in self._parts]
        return Verdict(all(v.applies for v in verdicts), "; ".join(v.why for v in verdicts))

    def changes(self, s: Situation) -> list[Setting]:
        return [c for p in self._parts for c in p.changes(s)]


class Tso(Advice):
    """The stack hands TCP's 64 KB to the veth uncut."""

    name = "tso"
    finding: ClassVar[Topic] = "whole"
    _FEATURES = ("tx-checksumming", "scatter-gather", "tcp-segmentation-offload")

    def applies(self, s: Situation) -> Verdict:
        if s.protocol != "tcp":
            return Verdict(False, "it is for TCP only")
        off = [d for n, d in _ends(s.path) if self._off(n, d)]
        if not off:
            return Verdict(False, "TSO is on along the path already")
        return Verdict(True, f"TSO is off on {', '.join(off)}: the mean packet has "
                       f"{s.before.packet_bytes:.0f} bytes")  # fmt: skip

    def _off(self, namespace: str, device: str) -> bool:
        return settings.offloads(namespace, device).get(self._FEATURES[-1]) == "off"

    def changes(self, s: Situation) -> list[Setting]:
        return [
            _offload(n, d, feature, "on") for n, d in _ends(s.path) for feature in self._FEATURES
        ]


class UdpGso(Advice):
    """The application has the kernel cut its datagrams as late as can be (UDP_SEGMENT, UDP_GRO)."""

    name = "udp-gso"
    finding: ClassVar[Topic] = "whole"
    warning = "the application must set UDP_SEGMENT, and its messages become datagrams of the MTU"

    def applies(self, s: Situation) -> Verdict:
        if s.protocol != "udp":
            return Verdict(False, "it is for UDP only")
        if s.mtu() >= s.message_bytes + _HEADERS:
            return Verdict(False, "datagrams pass in one piece already")
        return Verdict(True, f"each send becomes {-(-s.message_bytes // (s.mtu() - 20))} fragments")

    def segment(self, s: Situation) -> int:
        return s.mtu() - _HEADERS


class RedirectPeer(Advice):
    """tc at the port's ingress: bpf_redirect_peer into the other station's namespace."""

    name = "redirect-peer"
    finding: ClassVar[Topic] = "short"
    shortcut: ClassVar[Way | None] = "peer"
    warning = "the bridge's rules, counters and learning no longer see what takes the shorter way"

    def applies(self, s: Situation) -> Verdict:
        return _stays_inside(s)


class RedirectXdp(Advice):
    """XDP_REDIRECT between the ports. A veth delivers that by NAPI only (GRO), and a checksum
    that was left to a device would never be made: the stations make their own."""

    name = "redirect-xdp"
    finding: ClassVar[Topic] = "short"
    shortcut: ClassVar[Way | None] = "xdp"
    warning = f"{RedirectPeer.warning}; checksum offload and TSO are off in the stations"

    def applies(self, s: Situation) -> Verdict:
        return _stays_inside(s)

    def changes(self, s: Situation) -> list[Setting]:
        changes = []
        for st in s.path.stations:
            changes.append(_offload(st.namespace, st.device, "generic-receive-offload", "on"))
            changes.append(_offload(st.namespace, st.device, "tx-checksumming", "off"))
        return changes


class AfXdp(Advice):
    """Frames go from port to port through a process with an AF_XDP socket on each. They are raw:
    the stations make their own checksums, as for XDP_REDIRECT."""

    name = "af-xdp"
    finding: ClassVar[Topic] = "short"
    shortcut: ClassVar[Way | None] = "xsk"
    warning = (
        f"{RedirectXdp.warning}; a process must run for it, and each frame is copied out of the "
        "kernel and back"
    )

    def applies(self, s: Situation) -> Verdict:
        if (mtu := s.mtu()) > _PAGE_MTU:
            return Verdict(False, f"a frame of AF_XDP is one page, and the path's MTU is {mtu}")
        if (why := _no_af_xdp()) is not None:
            return Verdict(False, why)
        return _stays_inside(s)

    def changes(self, s: Situation) -> list[Setting]:
        return [_offload(st.namespace, st.device, "tx-checksumming", "off")
                for st in s.path.stations]  # fmt: skip


def _no_af_xdp() -> str | None:
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW).close()
    except OSError as error:
        return f"this kernel has no AF_XDP: {error.strerror}"
    if "xsk" not in ways(find_shortcut()):
        return "headrace-shortcut was built without libxdp (Debian: libxdp-dev)"
    return None


def _stays_inside(s: Situation) -> Verdict:
    ports = ", ".join(st.port for st in s.path.stations)
    return Verdict(True, f"{ports} are veths of one bridge: this traffic never leaves the server")


ALL: tuple[Advice, ...] = (
    Rps(),
    Xps(),
    ThreadedNapi(),
    IrqAffinity(),
    JumboMtu(),
    BridgeNetfilterOff(),
    WholeAndUnfiltered(),
    Tso(),
    UdpGso(),
    RedirectPeer(),
    RedirectXdp(),
    AfXdp(),
)
