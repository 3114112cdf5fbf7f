# SPDX-License-Identifier: Apache-2.0
"""A packet's way through VNFs in processes: the host's switch each time that it forwards, limits of
its NIC, and VNFs, with what each costs an lcore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.ground.hosted.parts import NIC, Vnf
from headrace.layout.layout import Hop, NfCost
from headrace.layout.predicted_latency import BURST
from headrace.model.scaled import SHORTEST, ScaledFunction, hand_over
from headrace.record.figures import L1_OVERHEAD_BYTES
from headrace.spec.described import DescribedServer, HostedCost
from headrace.spec.hosting import Hosting
from headrace.spec.study import Experiment

DEVICES = {"uplink in": -2, "switch to host": -3, "switch from host": -4, "uplink out": -5}
CAP = -10  # of the first VNF's licence; the next one's is one less


@dataclass(frozen=True)
class WayStage:
    """Functions on a replica for each chain, or on one for all. `extra`: cycles of `nfs` that polls
    cost at the maximum rate; the events have these polls themselves."""

    nfs: tuple[str, ...]
    cpus: tuple[int, ...]
    owners: tuple[str, ...]
    room: int
    poll: float = 0.0
    idle: float = 1.0
    extra: float = 0.0
    vnf: bool = False


def vnf_idle(cost: HostedCost | None, wait: str, corner: float = 0.0) -> float:
    """Cycles of a VNF's poll that finds nothing."""
    assert cost is not None
    return cost.vnf_idle.at(corner) + (0.0 if wait == "poll" else cost.pause.at(corner))


@dataclass(frozen=True)
class _SwitchStages:
    """The host's switch on the lcore `nic`, behind a ring or behind the links of all chains."""

    hosting: Hosting
    cost: HostedCost
    nic: int
    chains: Sequence[Sequence[Vnf]]
    standing: int  # VNFs
    hz: float
    corner: float

    def _divided(self, name: str) -> float:
        """Cycles of a packet that come of each VNF's having its part of a burst."""
        if not name.endswith("to link"):
            return 0.0
        cost, several = self.cost, min(len(self.chains), BURST)
        cycles = cost.reach.at(self.corner) * (several - 1)
        if self.hosting.wait == "interrupt":  # it sleeps whenever it has nothing
            cycles += cost.rouse_us.at(self.corner) * 1e-6 * self.hz * several
        return cycles / BURST

    @property
    def _at_once(self) -> int:
        """Links of each step that have packets: as many VNFs run as there are lcores."""
        lcores = len({chain[-1].lcores[0] for chain in self.chains})
        return min(lcores, len(self.chains))

    @property
    def _in_vain(self) -> int:
        """Links that each turn polls and that have none. It does so for each burst that comes by
        the wire, however few of the packets come back."""
        links = len(self.chains) + self.standing
        return len(self.chains[0]) * max(0, links - self._at_once)

    def from_ring(self, name: str, room: int) -> WayStage:
        idle = self.cost.idle.at(self.corner)
        unused = self.standing if self.hosting.wait != "poll" else 0
        once = self.cost.poll.at(self.corner) + unused * idle
        extra = once / BURST + self._divided(name)
        if name == "ring to link":
            extra += idle * self._in_vain / BURST
        return WayStage((name,), (self.nic,), (NIC,), room, once, idle * (1 + unused), extra)

    def from_links(self, name: str) -> WayStage:
        n, idle, poll = len(self.chains), *(
            one.at(self.corner) for one in (self.cost.idle, self.cost.poll)
        )  # fmt: skip
        extra = poll * min(1.0, self._at_once / BURST) + self._divided(name)
        slots = self.hosting.slots
        return WayStage((name,), (self.nic,) * n, (NIC,) * n, slots, poll, idle, extra)


def way_of(
    experiment: Experiment,
    chains: Sequence[Sequence[Vnf]],
    standing: Sequence[int],
    nic: int,
    cost: HostedCost,
    hz: float,
    corner: float,
    switch_gbps: float | None,
) -> Iterator[WayStage]:
    """In a packet's order, docs/design/nic.md's table of hops: with `vepa` each frame that leaves a
    VNF goes by the wire to the bridge outside; with `sriov` the NIC switches, and no lcore."""
    hosting, vepa = experiment.hosting, experiment.study.deployment.network == "vepa"
    deployment, n = experiment.study.deployment, len(chains)
    wire = 4096 if deployment.wire == "auto" else deployment.wire
    sriov = deployment.network == "sriov"
    vnf_poll, ring = cost.vnf_poll.at(corner), deployment.ring.size
    stages = _SwitchStages(hosting, cost, nic, chains, len(standing), hz, corner)

    def device(name: str, cpu: int) -> WayStage:
        return WayStage((name,), (cpu,), ("",), hosting.nic_queue)

    def wire_to(name: str) -> list[WayStage]:
        return [] if hosting.uplink_gbps is None else [device(name, DEVICES[name])]

    def host_to(name: str) -> list[WayStage]:
        return [] if switch_gbps is None else [device(name, DEVICES[name])]

    if vepa:
        yield stages.from_ring("bridge", wire)
    yield from wire_to("uplink in")
    if not sriov:
        yield stages.from_ring("ring to link", ring if vepa else wire)
    for step in range(len(chains[0])):
        here = [chain[step] for chain in chains]
        yield from host_to("switch to host")
        yield WayStage(
            (*here[0].nodes, "mac-out"), tuple(v.lcores[0] for v in here),
            tuple(v.name for v in here), hosting.slots, vnf_poll,
            vnf_idle(cost, hosting.wait, corner), vnf_poll / BURST, vnf=True,
        )  # fmt: skip
        if hosting.rate_cap_gbps is not None:
            first = CAP - step * n
            cpus = tuple(first - i for i in range(n))
            yield WayStage(("rate cap",), cpus, ("",) * n, hosting.nic_queue)
        yield from host_to("switch from host")
        last = step == len(chains[0]) - 1
        if sriov:
            yield from wire_to("uplink out") if last else ()
            continue
        yield stages.from_links("link to ring" if last or vepa else "link to link")
        if last or vepa:
            yield from wire_to("uplink out")
        if vepa:
            yield stages.from_ring("bridge", ring)
            if not last:
                yield from wire_to("uplink in")
                yield stages.from_ring("ring to link", ring)


@dataclass(frozen=True)
class EndCosts:
    """Cycles of a packet at the ends of a link to a VNF, and of the switch between them."""

    take: float
    give: float
    vnf_take: float
    vnf_give: float
    switch: float

    @classmethod
    def by_functions(
        cls, server: DescribedServer, cost: HostedCost, remote: float, corner: float
    ) -> EndCosts:
        """A NIC writes frames into the last-level cache of its socket (Intel DDIO), and who takes
        gathers them from there; `remote`: the share that is taken on another socket."""
        assert cost.vf_take is not None and cost.vf_give is not None  # refuse.py
        near = server.levels[-2].gather_cycles.at(corner)
        away, llc = server.remote_cycles, server.levels[-2].cycles.at(corner)
        farther = 1.0 if away is None or not llc else away.at(corner) / llc
        take = cost.vf_take.at(corner) + near * (1 - remote + remote * farther)
        give = cost.vf_give.at(corner)
        return cls(take, give, take, give, 0.0)

    @classmethod
    def of(
        cls, home: DescribedServer, server: DescribedServer, cost: HostedCost, frame: float,
        remote: float, corner: float,
    ) -> EndCosts:  # fmt: skip
        """Each end copies the frame; who takes waits for lines that another core wrote, who gives
        for those that another core read. `remote`: the share of packets whose other end is on
        another socket."""
        kib = max(0.0, frame - SHORTEST) / 1024
        far, own, vnf_own = (
            hand_over(home, server, each.at(corner) + kib * longer.at(corner), remote)
            for each, longer in (
                (cost.far, cost.far_kib), (cost.own, cost.own_kib), (cost.own, cost.vnf_own_kib),
            )
        )  # fmt: skip
        near = kib * cost.copy_kib.at(corner)
        return cls(
            cost.take.at(corner) + near + far, cost.give.at(corner) + near + own,
            cost.vnf_take.at(corner) + near + far, cost.vnf_give.at(corner) + near + vnf_own,
            cost.switch.at(corner),
        )  # fmt: skip


@dataclass(frozen=True)
class WayCosts:
    """Functions of the way on one lcore."""

    links: EndCosts
    own: Mapping[str, ScaledFunction]
    out: ScaledFunction  # of the VNF's addresses
    hz: float
    experiment: Experiment
    longer: float
    switch_gbps: float | None
    reading: frozenset[str]  # nodes whose packets have to be classified

    def function(self, name: str, stage: WayStage) -> NfCost:
        links, out = self.links, self.out
        if stage.vnf and name in self.own:
            one = self.own[name]
            sorting = one.rx - one.rx_known if name in self.reading else 0.0
            return self._cost(name, links.vnf_take + sorting, one.base + one.wait, 0.0, one.loop)
        if stage.vnf:
            give = links.vnf_give + stage.extra
            return self._cost(name, links.vnf_take, out.base, give, out.loop)
        if name in ("uplink in", "uplink out", "switch to host", "switch from host", "rate cap"):
            hosting = self.experiment.hosting
            gbps = {"u": hosting.uplink_gbps, "s": self.switch_gbps, "r": hosting.rate_cap_gbps}
            bits = (self.experiment.frame.mean_bytes + L1_OVERHEAD_BYTES) * 8
            took = self.hz * bits / ((gbps[name[0]] or 0.0) * 1e9)
            return NfCost(name, Hop(0, 0), Hop(took, took), Hop(0, 0), 0)
        rx = links.take if name.startswith("link") else out.rx
        tx = links.give if name.endswith("link") else out.tx
        return self._cost(NIC, rx, links.switch, tx + stage.extra, 0.0, out.far)

    def _cost(
        self, name: str, rx: float, work: float, tx: float, loop: float, far: float = 0.0
    ) -> NfCost:
        rx, work, tx, far = (self.longer * one for one in (rx, work, tx, far))
        far = 0.0 if rx == self.longer * self.links.take else far
        return NfCost(name, Hop(rx, rx + far), Hop(work, work), Hop(tx, tx), self.longer * loop)
