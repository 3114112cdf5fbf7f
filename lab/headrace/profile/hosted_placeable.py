# SPDX-License-Identifier: Apache-2.0
"""Chains whose VNFs are hosted apart and a described server as a placement problem: which functions
make a VNF, on which lcore each is, and the host's lcores.

What VNFs and the host's switch cost is asked of the simulated ground (priced_hosted.py), for cuts
from which each function's part follows. A segment is a VNF; it has as many replicas as the chain
has copies, each on another lcore. The host's lcores are limits that all VNFs of all chains share:
each VNF is one time more that the switch forwards, and the switch has links to all of them.

With an oversubscription of N:1 up to N VNFs share an lcore. Who waits when it has nothing leaves
the lcore to the others, so that what they take adds up, as the simulated ground has it; who polls
does not, and is refused. Meanwhile packets wait in the VNF's link (`waits`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from headrace.engine.place import Placement
from headrace.errors import BadInput
from headrace.ground.hosted.arrangement import Arrangement, placement_of
from headrace.ground.hosted.parts import Vnf, switch_cpu
from headrace.ground.simulated.costs import counted
from headrace.ground.simulated.hosted_way import CAP, DEVICES
from headrace.ground.simulated.priced_hosted import priced_hosted
from headrace.ground.simulated.refuse import check_covered
from headrace.profile.machine_links import machines_cautions
from headrace.profile.placeable import Placeable
from headrace.spec.described import DescribedServer
from headrace.spec.hosting import Hosting
from headrace.spec.placement import (
    FINE,
    WHOLE,
    ChainLoads,
    ChosenPlacement,
    Door,
    FunctionLoads,
    PlacementProblem,
    SharedLimit,
    ThreadMode,
)
from headrace.spec.study import Experiment

_NEVER = 1000  # times its load: fewer replicas than there are copies
HOST = {
    1: ("the host",),
    2: ("the source", "switch and sink"),
    3: ("the source", "the switch", "the sink"),
}
# Where a NIC switches, and no lcore.
ENDS = {1: ("source and sink",), 2: ("the source", "the sink")}


@dataclass(frozen=True)
class HostedPlaceable(Placeable):
    """`experiments`: one of each chain, all deployed alike. `copies`: of chains that have others
    than the deployment says."""

    copies: Mapping[str, int] = field(default_factory=dict)

    def check(self) -> None:
        study, hosting, at = self._first.study, self._hosting, ("deployment", "hosting")
        if any(one.study.deployment != study.deployment for one in self.experiments):
            raise self.doc.error(
                ("deployment",), "differs between chains; allowed with hosted VNFs: one for all"
            )
        if self.wish.servers != 1:
            raise BadInput(f"--servers {self.wish.servers}: allowed with hosted VNFs: 1")
        if self.wish.aim not in ("rate", "lcores", "watts"):
            raise BadInput(f"--aim {self.wish.aim}: allowed with hosted VNFs: rate, lcores, watts")
        if study.deployment.network not in ("veb", "vepa", "sriov"):
            raise self.doc.error(
                ("deployment", "network"), "cannot place VNFs behind it; allowed: veb, vepa, sriov"
            )
        for key, problem in (
            ("cpus", "a limit of CPU time; allowed: none"),
            ("shares", "weights of VNFs that share lcores; allowed: none, they share evenly"),
            ("switch_gbps", "behind a limit beside the switch's own lcore; allowed: none"),
            ("uplink_gbps", "behind a limit beside the switch's own lcore; allowed: none"),
        ):
            if getattr(hosting, key) is not None:
                raise self.doc.error((*at, key), f"cannot place {problem}")
        if self._shared_by > 1 and hosting.wait == "poll":
            raise self.doc.error(
                (*at, "oversubscription"),
                "cannot place VNFs that share lcores and poll (`wait: poll`), as each takes all "
                "that it gets of one; allowed: with wait adaptive or interrupt",
                value=f"{self._shared_by}:1",
            )
        if hosting.carrying != hosting.chains:
            raise self.doc.error((*at, "active"), "cannot place chains that stand by")
        if hosting.kind == "vm" and hosting.vm.vcpus != 1:
            raise self.doc.error(
                (*at, "vm", "vcpus"), "cannot place; allowed: 1", value=hosting.vm.vcpus
            )
        for one in study.demands.values():
            if one.latency is not None:
                raise self.doc.error(
                    ("demands",), "a latency of hosted VNFs; allowed: rates, and `headrace run` "
                    "on the simulated ground predicts delays"
                )  # fmt: skip
        super().check()

    def covered(self) -> None:
        """A machine's VNF is asked for as a process, where no description has its links."""
        for one in self.experiments:
            check_covered(self._as_process(one), self.doc, self.home, self.server)

    def cautions(self, placement: ChosenPlacement, factor: float) -> tuple[str, ...]:
        """`factor`: of the chains' rates at which they are placed."""
        hosts = ", ".join(map(str, self.host_cpus))
        who = "Source and sink" if self._on_nic else "Source, switch and sink"
        told = f"{who} have lcore {hosts}. Delays of hosted VNFs are not predicted"
        waits = self._waits(placement, factor)
        if self._hosting.kind != "vm":
            return (f"{told}.", *waits)
        if self.home.machines is None:
            return (
                f"{told}; links to machines were not measured, and cost here what processes' do.",
                *waits,
            )
        return (f"{told}.", *machines_cautions(self.home), *waits)

    def problem(self) -> PlacementProblem:
        return super().problem().model_copy(update={"lcore_segments": self._shared_by})

    @property
    def _first(self) -> Experiment:
        return self.experiments[0]

    @property
    def _hosting(self) -> Hosting:
        return self._first.hosting

    def copies_of(self, one: Experiment) -> int:
        return self.copies.get(one.chain, self._hosting.chains)

    @property
    def _links(self) -> int:
        """The switch has one to each VNF of a chain in one VNF, of all copies of all chains."""
        return sum(self.copies_of(one) for one in self.experiments)

    @property
    def _shared_by(self) -> int:
        """How many VNFs may share an lcore."""
        return self._hosting.oversubscription or 1

    def _as_process(self, one: Experiment) -> Experiment:
        """Machines have links like a process' where no description says what theirs cost."""
        if self._hosting.kind != "vm" or self.home.machines is not None:
            return one
        study = one.study
        hosting = study.deployment.hosting.model_copy(update={"kind": "process"})
        deployment = study.deployment.model_copy(update={"hosting": hosting})
        return replace(one, study=study.model_copy(update={"deployment": deployment}))

    @property
    def _on_nic(self) -> bool:
        """Each VNF has a virtual function of a NIC, which switches."""
        return self._first.study.deployment.network == "sriov"

    @property
    def _switches(self) -> str:
        return "the NIC's switch" if self._on_nic else "the host's switch"

    @property
    def _licensed(self) -> bool:
        return self._hosting.rate_cap_gbps is not None

    def functions_of(self, one: Experiment, segment: int, segments: int) -> tuple[int, ...]:
        """The virtual function of this VNF of each copy, as `run` gives them: those behind the
        source's, from the first copy's first VNF on."""
        if not self._on_nic:
            return ()
        return tuple(1 + copy * segments + segment for copy in range(self.copies_of(one)))

    # --- the host's lcores ---

    @property
    def _who(self) -> dict[int, tuple[str, ...]]:
        return ENDS if self._on_nic else HOST

    @cached_property
    def _host_area(self) -> int:
        """On the socket of the first port, or the first of all."""
        socket = self.server.ports[0].socket if self.server.ports else 0
        return socket * (self._areas // self.server.sockets)

    @cached_property
    def host_cpus(self) -> tuple[int, ...]:
        """Those of source, switch and sink: as many as the study names, or one that has all."""
        told = self._first.study.deployment.lcores.traffic
        cores = super()._cores(self._host_area)
        count = 1 if told is None else len(told)
        if count not in self._who:
            raise self.doc.error(
                ("deployment", "lcores", "traffic"),
                f"too many; allowed: 1 to {max(self._who)}",
                value=list(told or ()),
            )
        if count >= len(cores):
            raise BadInput(
                f"server {self.server.name}: no lcores beside the host's {count} in the cache "
                f"of its switch; allowed: {len(cores) - 1}"
            )
        return tuple(cores[:count])

    def _cores(self, area: int) -> range:
        cores = super()._cores(area)
        return cores[len(self.host_cpus) :] if area == self._host_area else cores

    def _modes(self) -> tuple[ThreadMode, ...]:
        return (ThreadMode(threads=1, speed=WHOLE),)

    @cached_property
    def _limits(self) -> list[SharedLimit]:
        names = [f"lcore of {who}" for who in self._who[len(self.host_cpus)]]
        names += [self._switches] if self._on_nic else []
        if self._licensed:
            several = len(self.experiments) > 1
            each = [f" of {one.chain}" if several else "" for one in self.experiments]
            names += [f"the licence of each VNF{chain}" for chain in each]
        shared = [SharedLimit(name=f"{self.server.name}: {one}", capacity=WHOLE) for one in names]
        return [*shared, *super()._limits]

    # --- the chain ---

    def _chain(self, one: Experiment) -> ChainLoads:
        demand, names = self.demand(one), [node.name for node in one.nodes]
        vnf, copies = partial(self._vnf, one), self.copies_of(one)
        rate, areas = demand.rate, range(self._areas)
        whole = [vnf(0, end) for end in range(1, len(names) + 1)]
        work = [0.0, *(b - a for a, b in itertools.pairwise(whole))]
        enter = [vnf(i, i + 1) - work[i] for i in range(len(names))]
        apart = [
            vnf(0, 1, remote=True) - whole[0] if self._remote_area(area) else 0.0 for area in areas
        ]
        fixed, each, farther = self._host(one)
        limits, licence = list(range(len(fixed))), self.licence_of(one)
        if licence is not None:
            limits[-1] = licence
        doors = (Door(name=self._switches, server=0, node=self._host_node, uses=tuple(
            (i, math.ceil(self._share(cycles, rate) * WHOLE))
            for i, cycles in zip(limits, fixed, strict=True)
        )),)  # fmt: skip
        functions = tuple(
            FunctionLoads(
                name=name,
                work=(self._load(work[i], demand),) * len(areas),
                enter=(self._load(enter[i], demand),) * 3,
                leave=0,
                memory=(0,) * len(areas),
                delay_ns=(0,) * len(areas),
                enter_ns=(0, 0, 0),
            )
            for i, name in enumerate(names)
        )
        return ChainLoads(
            name=one.chain,
            rate_pps=rate,
            within_ns=None,
            functions=functions,
            doors=doors,
            spread=tuple(
                FINE if k == copies else k * FINE * _NEVER for k in range(1, copies + 1)
            ),
            apart=tuple(self._load(more, demand) for more in apart),
            switch=self._switch,
            switched=tuple(
                math.ceil(self._share(each + (farther if self._remote_area(a) else 0.0), rate)
                          * WHOLE)
                for a in areas
            ),
        )  # fmt: skip

    def licence_of(self, one: Experiment) -> int | None:
        """The number of the limit that this chain's licences are, behind those that all share."""
        if not self._licensed:
            return None
        names = [each.chain for each in self.experiments]
        return len(self._shared) - 1 + names.index(one.chain)

    def _share(self, cycles: float, rate: float) -> float:
        return cycles * rate / (self.server.clock_mhz.value * 1e6)

    @property
    def _host_node(self) -> int:
        return self._host_area // (self._areas // self.server.sockets)

    def _remote_area(self, area: int) -> bool:
        return area // (self._areas // self.server.sockets) != self._host_node

    @property
    def _switch(self) -> int:
        """Its number among what all VNFs share."""
        hosts = len(self.host_cpus)
        return hosts if self._on_nic else min(1, hosts - 1)

    # --- lcores that VNFs share ---

    def _waits(self, placement: ChosenPlacement, factor: float) -> Iterator[str]:
        """While a VNF's lcore has the others in turn, a slice each, its packets wait in its link
        (priced_hosted.py); where that does not hold them some are lost."""
        on: dict[int, list[float]] = {}  # packets/s of each VNF
        for one, way in zip(self.experiments, placement.ways, strict=True):
            each = self.demand(one).rate * factor / self.copies_of(one)
            for segment in way.segments:
                for lcore in segment.lcores:
                    on.setdefault(self.cpu(segment.area, lcore, 1), []).append(each)
        slots = self._hosting.slots
        for cpu, rates in sorted(on.items()):
            turn_s = self._turn_us(len(rates)) * 1e-6
            if len(rates) > 1 and (most := max(rates) * turn_s) > slots:
                yield (
                    f"On lcore {cpu} {len(rates)} VNFs take turns of up to {turn_s * 1e3:.3g} ms "
                    f"in all, in which {most:.0f} packets may come to one of them, whose link has "
                    f"{slots} slots: bursts of them are lost where the lcore is full."
                )

    def _turn_us(self, vnfs: int) -> float:
        """Until so many that never wait have all had their lcore."""
        kind, scheduler = self._as_process(self._first).hosting.kind, self.server.scheduler
        cost = self.home.links_to(kind)
        assert cost is not None  # it is covered
        slice_us = cost.slice_us.value if scheduler is None else scheduler.slice_us(vnfs)
        return vnfs * (slice_us + cost.change_us.value)

    # --- what the simulated ground has it cost ---

    def _vnf(self, one: Experiment, first: int, end: int, remote: bool = False) -> float:
        """Cycles of a VNF of these functions for each of its packets."""
        cut = [(0, first), (first, end), (end, len(one.nodes))]
        parts = [part for part in cut if part[0] < part[1]]
        number = parts.index((first, end))
        busy, cpus = self._priced(one, tuple(parts), 1, remote)
        return busy[cpus[number]]

    def _host(self, chain: Experiment) -> tuple[list[float], float, float]:
        """Cycles of each that all VNFs share for a packet, without VNFs; what the switch has for
        each VNF, and how much more where that is on another socket."""
        n, links = len(chain.nodes), self._links
        one, _ = self._priced(chain, ((0, n),), links, False)
        far, _ = self._priced(chain, ((0, n),), links, True)
        if n > 1:
            two, _ = self._priced(chain, ((0, 1), (1, n)), links, False)
        else:
            two = one
        switch = self._shared[self._switch]
        # A NIC's has a frame once for each VNF, and nothing else of it.
        each = one[switch] if self._on_nic else two[switch] - one[switch]
        fixed = [one.get(cpu, 0.0) - (each if cpu == switch else 0.0) for cpu in self._shared]
        if self._licensed:  # a licence is of a VNF of this chain's copies, not of all chains'
            fixed[-1] *= links / self.copies_of(chain)
        return fixed, each, far[switch] - one[switch]

    @property
    def _shared(self) -> list[int]:
        """The host's lcores, and devices, as the simulated ground numbers them."""
        cpus = sorted(set(self._wide_hosts))
        cpus += [DEVICES["switch to host"]] if self._on_nic else []
        return [*cpus, CAP] if self._licensed else cpus

    @cached_property
    def _wide(self) -> DescribedServer:
        """The server with lcores for every cut that is asked about: what they cost is the same."""
        more = 3 * self._links + len(self.host_cpus)
        cores = max(self.server.cores_per_socket, more)
        return self.server.model_copy(update={"cores_per_socket": cores, "threads_per_core": 1})

    @cached_property
    def _wide_hosts(self) -> list[int]:
        first = self._host_node * self._wide.cores_per_socket
        return list(range(first, first + len(self.host_cpus)))

    def _priced(
        self, one: Experiment, parts: Sequence[tuple[int, int]], copies: int, remote: bool
    ) -> tuple[dict[int, float], list[int]]:
        """Cycles of each lcore for one of its chain's packets, and the first copy's lcores. Copies
        are on as few lcores as may be: the switch polls in vain what does not run meanwhile."""
        nodes = [node.name for node in one.nodes]
        hosts, wide = self._wide_hosts, self._wide
        ratio = min(copies, self._shared_by)
        each = -(-copies // ratio)  # lcores
        far = (self._host_node + 1) % wide.sockets
        free = far * wide.cores_per_socket if remote else hosts[-1] + 1
        chains = [
            [
                Vnf(
                    f"vnf{c + 1}.{s + 1}",
                    (),
                    tuple(nodes[a:b]),
                    (free + s * each + c // ratio,),
                    None,
                )
                for s, (a, b) in enumerate(parts)
            ]
            for c in range(copies)
        ]  # fmt: skip
        bare = Arrangement(hosts, chains)
        several = [vnf for chain in chains for vnf in chain]
        network = self._first.study.deployment.network
        placement: Placement = placement_of(several, hosts, (), network)
        assert self._on_nic or placement.segments[0].cpus == (switch_cpu(hosts),)
        count = counted(self.home, one, self.doc)
        one = self._of_copies(one, copies)
        if copies == 1:
            own = self.copies_of(one)
            flows = {n.name for n in one.nodes if self.home.functions[n.nf].entries == "flows"}
            count = {k: v // own if k in flows else v for k, v in count.items()}
        layout = priced_hosted(self.home, wide, one, bare, placement, count, self.wish.corner)
        return layout.busiest(), [vnf.lcores[0] for vnf in chains[0]]

    def _of_copies(self, one: Experiment, copies: int) -> Experiment:
        process = self._as_process(one)
        study = process.study
        hosting = study.deployment.hosting.model_copy(update={"chains": copies, "active": None})
        deployment = study.deployment.model_copy(update={"hosting": hosting})
        return replace(process, study=study.model_copy(update={"deployment": deployment}))
