# SPDX-License-Identifier: Apache-2.0
"""The chains of a study and a described server as a placement problem in whole numbers.

Functions cost what the simulated ground has them cost (model/scaled.py). A function's tables share
its lcore's own caches with its chain's, and the last-level cache with an even part of all chains'.
Packets come by a port, into the last-level cache of its socket: the first segment takes them from
there as from another core. Latency is that of lcores as busy as they may be, which poll as many
segments as they may.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.errors import BadInput
from headrace.ground.simulated.entries import entries
from headrace.ground.simulated.refuse import check_covered
from headrace.model.amat import miss_rate
from headrace.model.scaled import WorkingSet, at, busiest_share, scaled
from headrace.record.figures import L1_OVERHEAD_BYTES
from headrace.spec.described import DescribedFunction, DescribedServer
from headrace.spec.document import Document
from headrace.spec.placement import (
    FINE,
    WHOLE,
    Area,
    ChainLoads,
    Door,
    FunctionLoads,
    PlacedServer,
    PlacementAim,
    PlacementProblem,
    SharedLimit,
    ThreadMode,
)
from headrace.spec.study import Demand, Experiment

_EQUAL_PPS = 1e7  # of each chain, where the rate is asked for and no demands are given
_LINE = 64
_REPLICAS = 64
_WATT = 1000  # the aim counts whole milliwatts
_IDLE = 100.0  # cycles of a poll in vain, where the description has none


@dataclass(frozen=True)
class PlacementWish:
    """`full`: how busy an lcore or a limit may be, as a share. `factor`: of the rates that are
    asked for. `corner`: see Sourced.at."""

    aim: PlacementAim = "rate"
    full: float = 0.8
    servers: int = 1
    lcore_segments: int = 4
    factor: float = 1.0
    corner: float = 0.0


@dataclass(frozen=True)
class Placeable:
    """`experiments`: one of each chain."""

    doc: Document
    experiments: Sequence[Experiment]
    server: DescribedServer
    home: DescribedServer  # that functions' costs were measured on
    wish: PlacementWish

    def problem(self) -> PlacementProblem:
        self.check()
        return PlacementProblem(
            name=self.experiments[0].study.name,
            aim=self.wish.aim,
            full=round(self.wish.full * WHOLE),
            lcore_segments=self.wish.lcore_segments,
            weight_ns=1 if self.wish.aim == "latency" else 0,
            modes=self._modes(),
            servers=tuple(self._server(i) for i in range(self.wish.servers)),
            areas=tuple(self._area(s, i) for s in self._servers for i in range(self._areas)),
            limits=tuple(self._limits),
            chains=tuple(self._chain(one) for one in self.experiments),
        )

    def check(self) -> None:
        """BadInput for what is not covered, or not asked."""
        self.covered()
        for one in self.experiments:
            if one.chain not in one.study.demands and (
                self.wish.aim != "rate" or one.study.demands
            ):
                raise self.doc.error(
                    ("demands",),
                    f"says nothing of chain {one.chain}; allowed: {{{one.chain}: {{rate: 1M}}}}",
                )
        for key, needed in (("price_usd", "money"), ("power", "watts")):
            if self.wish.aim == needed and getattr(self.server, key) is None:
                raise BadInput(f"--aim {needed}: server {self.server.name} has no `{key}`")
        if self.server.sockets > 1 and self.server.remote_cycles is None:
            raise BadInput(
                f"server {self.server.name}: has {self.server.sockets} sockets and no "
                "`remote_cycles`, what a line from another socket's cache takes; allowed: with it"
            )

    def covered(self) -> None:
        for one in self.experiments:
            check_covered(one, self.doc, self.home, self.server)

    # --- the servers ---

    @property
    def _servers(self) -> range:
        return range(self.wish.servers)

    @cached_property
    def _cache(self) -> int:
        """Cores of a last-level cache."""
        levels = self.server.levels
        shared = levels[-2].shared_by if len(levels) > 1 else 1
        return min(max(shared, 1), self.server.cores_per_socket)

    @cached_property
    def _areas(self) -> int:
        return self.server.sockets * -(-self.server.cores_per_socket // self._cache)

    def _cores(self, area: int) -> range:
        """The numbers of its cores on one server."""
        each = self._areas // self.server.sockets
        socket, index = divmod(area, each)
        first = socket * self.server.cores_per_socket + index * self._cache
        end = (socket + 1) * self.server.cores_per_socket
        return range(first, min(first + self._cache, end))

    def cpu(self, area: int, lcore: int, threads: int) -> int:
        """CPUs as Linux numbers them on the area's server."""
        core, thread = divmod(lcore, threads)
        cores = self.server.cores
        return self._cores(area % self._areas)[core] + thread * cores

    def _modes(self) -> tuple[ThreadMode, ...]:
        modes = [ThreadMode(threads=1, speed=WHOLE)]
        if self.server.threads_per_core > 1 and self.server.thread_speed is not None:
            speed = round(self.server.thread_speed.value * WHOLE)
            modes.append(ThreadMode(threads=self.server.threads_per_core, speed=speed))
        return tuple(modes)

    def _server(self, index: int) -> PlacedServer:
        fixed, each = 0, 1 if self.wish.aim == "lcores" else 0
        if self.wish.aim == "money" and self.server.price_usd is not None:
            fixed = round(self.server.price_usd.value)
        if self.wish.aim == "watts" and (power := self.server.power) is not None:
            cores = self.server.cores
            fixed = round(_WATT * power.idle_watts.value)
            each = round(_WATT * (power.busy_watts.value - power.idle_watts.value) / cores)
        name = self.server.name if self.wish.servers == 1 else f"{self.server.name}-{index + 1}"
        crossing = self._limit(f"{name}: between sockets") if self._crossed else None
        return PlacedServer(
            name=name, type=self.server.name, fixed=fixed, each=each, crossing=crossing
        )

    def _area(self, server: int, area: int) -> Area:
        cores = self._cores(area)
        socket = cores[0] // self.server.cores_per_socket
        each = self._areas // self.server.sockets
        name = f"socket {socket}" if each == 1 else f"socket {socket}, cache {area % each}"
        limit = None
        if self.server.memory_gbs is not None:
            limit = self._limit(f"{self._name(server)}: memory of socket {socket}")
        node = server * self.server.sockets + socket
        return Area(name=name, server=server, node=node, cores=len(cores), limit=limit)

    def _name(self, server: int) -> str:
        return self.server.name if self.wish.servers == 1 else f"{self.server.name}-{server + 1}"

    @property
    def _crossed(self) -> bool:
        return self.server.interconnect_gbs is not None and self.server.sockets > 1

    @cached_property
    def _limits(self) -> list[SharedLimit]:
        limits = []
        for server in self._servers:
            name = self._name(server)
            for i, port in enumerate(self.server.ports):
                mbit = round(port.gbps.value * 1000)
                limits.append(SharedLimit(name=f"{name}: port {i}", capacity=mbit))
                if port.mpps is not None:
                    kpps = round(port.mpps.value * 1000)
                    limits.append(SharedLimit(name=f"{name}: packets of port {i}", capacity=kpps))
            if (memory := self.server.memory_gbs) is not None:
                limits += [
                    SharedLimit(
                        name=f"{name}: memory of socket {s}", capacity=round(memory.value * 1000)
                    )
                    for s in range(self.server.sockets)
                ]
            if self._crossed and (between := self.server.interconnect_gbs) is not None:
                capacity = round(between.value * 1000)
                limits.append(SharedLimit(name=f"{name}: between sockets", capacity=capacity))
        return limits

    def _limit(self, name: str) -> int:
        return next(i for i, limit in enumerate(self._limits) if limit.name == name)

    # --- the chains ---

    def demand(self, one: Experiment) -> Demand:
        demand = one.study.demands.get(one.chain) or Demand(rate=_EQUAL_PPS)
        return demand.model_copy(update={"rate": demand.rate * self.wish.factor})

    @cached_property
    def _tables(self) -> Mapping[str, list[WorkingSet]]:
        """Tables by chain, as on the first core; in bytes."""
        return {one.chain: self._sets(one) for one in self.experiments}

    def _sets(self, one: Experiment) -> list[WorkingSet]:
        sets = []
        for node in one.nodes:
            cost = self.home.functions[node.nf]
            count = entries(cost.entries, node, one, self.doc)
            sets.append(WorkingSet(0, at(cost.bytes_per_entry, 0.0) * count))
        return sets

    @cached_property
    def _all_bytes(self) -> float:
        return sum(part.size_bytes for sets in self._tables.values() for part in sets)

    def _beside(self, one: Experiment) -> float:
        """Bytes of other chains in the last-level cache, all being spread evenly."""
        own = sum(part.size_bytes for part in self._tables[one.chain])
        caches = self._areas * self.wish.servers
        return max(0.0, self._all_bytes - own) / caches

    def _chain(self, one: Experiment) -> ChainLoads:
        demand = self.demand(one)
        sets = list(self._tables[one.chain])
        if self._cache > 1:  # on another core of the cache
            sets.append(WorkingSet(1, self._beside(one)))
        cycles = self._cycles(one)
        even = one.study.deployment.steer == "even"
        most = min(_REPLICAS, self._cache * self.server.threads_per_core)
        spread = [k * busiest_share(one.flows, k, even) for k in range(1, most + 1)]
        return ChainLoads(
            name=one.chain,
            rate_pps=demand.rate,
            within_ns=None if demand.latency is None else round(demand.latency * 1e9),
            functions=tuple(
                self._function(
                    node.name, self.home.cost_of(node.nf, node.params), demand, sets, cycles
                )
                for node in one.nodes
            ),
            doors=tuple(self._doors(one, demand)),
            spread=tuple(math.ceil(part * FINE - 1e-6) for part in spread),
            crossing=math.ceil(demand.rate * one.frame.mean_bytes / 1e6) if self._crossed else 0,
        )

    def _cycles(self, one: Experiment) -> float:
        """What a turn takes of an lcore that is as busy as it may be, all that it polls being
        like the dearest function of this chain."""
        corner, traffic = self.wish.corner, self.home.traffic
        idle = _IDLE if traffic is None else traffic.idle.at(corner)
        poll = max((self.home.functions[n.nf].poll.at(corner) for n in one.nodes), default=0.0)
        return self.wish.lcore_segments * (idle + poll) / (1 - self.wish.full)

    def _function(
        self,
        name: str,
        cost: DescribedFunction,
        demand: Demand,
        sets: Sequence[WorkingSet],
        turn: float,
    ) -> FunctionLoads:
        """A packet waits half a turn, and for those that came with it."""
        hz = self.server.clock_mhz.value * 1e6
        one = scaled(self.home, self.server, cost, 0, sets, self.wish.corner)
        far = one.far * self._remote
        entering = (
            one.rx + one.loop + one.far,
            one.rx + one.loop + one.far,
            one.rx + one.loop + far,
        )
        burst = max(1.0, demand.rate / hz * turn)
        areas = self._areas * self.wish.servers
        ns = 1e9 / hz
        return FunctionLoads(
            name=name,
            work=(self._load(one.base + one.wait, demand),) * areas,
            enter=tuple(self._load(cycles, demand) for cycles in entering),
            leave=self._load(one.tx, demand),
            memory=(self._memory(cost, demand, sets),) * areas,
            delay_ns=(math.ceil(min(burst, 32.0) * (one.base + one.wait) * ns),) * areas,
            enter_ns=tuple(
                math.ceil((turn / 2 + one.poll + min(burst, 32.0) * (cycles + one.tx)) * ns)
                for cycles in entering
            ),
        )

    def _load(self, cycles: float, demand: Demand) -> int:
        return math.ceil(cycles * demand.rate / (self.server.clock_mhz.value * 1e6) * WHOLE * FINE)

    @cached_property
    def _remote(self) -> float:
        """How much longer a line takes from another socket than from a core of the same."""
        remote, near = self.server.remote_cycles, self.server.transfer_cycles
        if remote is None:
            return 1.0
        return remote.value / (
            near.value if near is not None else self.server.levels[-2].cycles.value
        )

    def _memory(self, cost: DescribedFunction, demand: Demand, sets: Sequence[WorkingSet]) -> int:
        """MB/s."""
        if self.server.memory_gbs is None or cost.accesses is None:
            return 0
        last = self.server.levels[-2]
        crowd = sum(part.size_bytes for part in sets)
        missed = miss_rate(at(last.kib, 0.0) * 1024, crowd)
        return math.ceil(demand.rate * cost.accesses.value * missed * _LINE / 1e6)

    def _doors(self, one: Experiment, demand: Demand) -> list[Door]:
        mbit = math.ceil(demand.rate * (one.frame.mean_bytes + L1_OVERHEAD_BYTES) * 8 / 1e6)
        kpps = math.ceil(demand.rate / 1e3)
        doors = []
        for server in self._servers:
            name, node = self._name(server), server * self.server.sockets
            for i, port in enumerate(self.server.ports):
                uses = [(self._limit(f"{name}: port {i}"), mbit)]
                if port.mpps is not None:
                    uses.append((self._limit(f"{name}: packets of port {i}"), kpps))
                doors.append(
                    Door(name=f"port {i}", server=server, node=node + port.socket, uses=tuple(uses))
                )
            if not self.server.ports:
                doors.append(Door(name="its wire", server=server, node=node))
        return doors
