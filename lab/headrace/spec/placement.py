# SPDX-License-Identifier: Apache-2.0
"""Placing chains on described servers: the problem in whole numbers, an answer to it, and a
certificate of how far that can be from the best.

A load of 10,000 (`WHOLE`) is one thread that has its core to itself, busy all the time, at the
rates that were asked for. The loads of functions are in parts of 1/10,000 (`FINE`) of that, so that
rounding them up costs nothing that can be seen. An *area* is a last-level cache with its cores.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field

from headrace.spec.base import Spec

WHOLE = 10_000
FINE = 10_000

PlacementAim = Literal["rate", "latency", "lcores", "money", "watts"]
Whole = Annotated[int, Field(ge=0)]


class Area(Spec):
    """Cores that are alike, of one memory node. `node`: memory node, numbered over all servers.
    `limit`: its memory's bandwidth, as an index of the problem's limits."""

    name: str
    server: Whole
    node: Whole
    cores: Annotated[int, Field(ge=1)]
    limit: Whole | None = None


class ThreadMode(Spec):
    """All cores of all servers run so many threads; each does `speed` of what one alone does."""

    threads: Annotated[int, Field(ge=1)]
    speed: Annotated[int, Field(ge=1)]


class SharedLimit(Spec):
    """What lcores share: a port's bits or packets, a node's memory, an interconnect."""

    name: str
    capacity: Annotated[int, Field(ge=1)]


class PlacedServer(Spec):
    """`fixed`: what the aim counts as soon as one of its lcores is used; `each`: for each lcore.
    `crossing`: the limit of what goes between its nodes."""

    name: str
    type: str
    fixed: Whole = 0
    each: Whole = 0
    crossing: Whole | None = None


class Door(Spec):
    """A port by which a chain's packets may come and go, and what they use of its limits."""

    name: str
    server: Whole
    node: Whole
    uses: tuple[tuple[int, int], ...] = ()  # limit, amount


class FunctionLoads(Spec):
    """What a function takes at the chain's rate. `work`, `memory`, `delay_ns`: by area. `enter`,
    `enter_ns`: as the first of its segment, by where packets come from: the same area, another area
    of the node, another node. `leave`: as the last of its segment."""

    name: str
    work: tuple[Whole, ...]
    enter: tuple[Whole, ...]
    leave: Whole
    memory: tuple[Whole, ...]
    delay_ns: tuple[Whole, ...]
    enter_ns: tuple[Whole, ...]


class ChainLoads(Spec):
    """`spread`: by number of replicas, parts of FINE of an equal share that the busiest has.
    `crossing`: what going from one node to another uses of the interconnect. `apart`: by area, how
    much more work each segment has there, whatever its functions. `switched`: by area, what each
    segment uses of the limit `switch`."""

    name: str
    rate_pps: float
    within_ns: int | None
    functions: Annotated[tuple[FunctionLoads, ...], Field(min_length=1)]
    doors: Annotated[tuple[Door, ...], Field(min_length=1)]
    spread: Annotated[tuple[int, ...], Field(min_length=1)]
    crossing: Whole = 0
    apart: tuple[Whole, ...] = ()
    switch: Whole | None = None
    switched: tuple[Whole, ...] = ()


class PlacementProblem(Spec):
    """`full`: how busy an lcore or a limit may be, unless the aim is the rate. `lcore_segments`:
    how many an lcore may poll. `weight_ns`: what a nanosecond of a chain's latency counts."""

    name: str
    aim: PlacementAim
    full: Annotated[int, Field(ge=1)]
    lcore_segments: Annotated[int, Field(ge=1)]
    weight_ns: Whole = 0
    modes: Annotated[tuple[ThreadMode, ...], Field(min_length=1)]
    servers: tuple[PlacedServer, ...]
    areas: tuple[Area, ...]
    limits: tuple[SharedLimit, ...]
    chains: Annotated[tuple[ChainLoads, ...], Field(min_length=1)]


class ChosenSegment(Spec):
    """Functions `first` to `end` - 1; a replica on each lcore, numbered within the area: those of
    core i are i * threads and the ones behind."""

    first: Whole
    end: Whole
    area: Whole
    lcores: Annotated[tuple[Whole, ...], Field(min_length=1)]


class ChosenWay(Spec):
    door: Whole
    segments: Annotated[tuple[ChosenSegment, ...], Field(min_length=1)]


class ChosenPlacement(Spec):
    mode: Whole
    ways: tuple[ChosenWay, ...]


class ItemPrices(Spec):
    """What replicas of a segment are worth on an lcore of an area, by their load: each as much as
    the largest of `sizes` that it reaches. `chain` None: of all segments that have no prices of
    their own."""

    area: Whole
    chain: Whole | None
    first: Whole
    end: Whole
    sizes: tuple[Whole, ...]
    prices: tuple[Whole, ...]


class ModeBound(Spec):
    """Why no placement in this mode has a value below `bound`. Prices are whole numbers, of which
    `scale` are one: for an lcore of each area beyond what the aim counts, for each limit, and for a
    nanosecond over each chain's goal. `surplus`: what the chains' cheapest ways cost at them, less
    what all that there is is worth; None: some chain has no way. `step`: loads are first made
    shares of an lcore by a dual feasible function: 0 takes them as they are, k > 0 is Fekete and
    Schepers' u(k) (New Classes of Fast Lower Bounds for Bin Packing Problems, 2001). `part`: what
    of the aim is counted. Where servers cost something by themselves there may be a bound of how
    many are needed, and one of the rest: the bound is so many of the cheapest, and the rest.
    `items`: what replicas cost by their load, in units of `grain`; lcores' prices are then of what
    the dearest pattern of items is worth beyond what the aim counts. An area that is not in
    `items` has those of the first server's area in the same place. `grain` 0: by load alone."""

    mode: Whole
    part: Literal["all", "servers", "rest"] = "all"
    bound: int
    surplus: int | None
    step: Whole
    scale: Annotated[int, Field(ge=1)]
    areas: tuple[Whole, ...]
    limits: tuple[Whole, ...]
    chains: tuple[Whole, ...]
    grain: Whole = 0
    items: tuple[ItemPrices, ...] = ()


class Branch(Spec):
    """The part of a node's placements in which a segment of its chain ends before a function and is
    in an area as one of the pairs in `places` says, and has so many replicas at least and at most
    (`replicas` None: as above)."""

    places: Annotated[tuple[tuple[Whole, Whole], ...], Field(min_length=1)]
    replicas: tuple[Whole, Whole] | None = None
    node: BranchNode


class RefutedLeaf(Spec):
    """Which of the tree's prices refute these placements, and by which surplus."""

    prices: Whole
    surplus: int | None


class BranchNode(Spec):
    """The placements that the branches above leave: split into `branches` of a segment of `chain`,
    counted from the first, which have all of them, or refuted by a bound."""

    chain: Whole | None = None
    segment: Whole = 0
    branches: tuple[Branch, ...] = ()
    refuted: RefutedLeaf | None = None


class ModeTree(Spec):
    """No placement in this mode has a value below `bound`, as none in any leaf has. `prices`: as in
    a mode's bounds, but that the surplus is each leaf's own."""

    mode: Whole
    bound: int
    prices: tuple[ModeBound, ...]
    node: BranchNode


class Enumerated(Spec):
    """All placements, by number; `digest` is the sum of what SHA-256 makes of each one that meets
    the goals, with its value, modulo 2^256."""

    placements: Whole
    digest: str


class Certificate(Spec):
    """`bound`: no placement has a lower value. `ports`: how many choices of a port for each chain
    there are, where they prove it: none of them leaves all ports less busy (aim rate). `seal`:
    SHA-256 of the rest as JSON with sorted keys and without blanks."""

    bound: int
    modes: tuple[ModeBound, ...] = ()
    trees: tuple[ModeTree, ...] = ()
    enumerated: Enumerated | None = None
    ports: Whole | None = None
    seal: str = ""

    def sealed(self) -> Certificate:
        rest = self.model_dump(mode="json", exclude={"seal"})
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        return self.model_copy(update={"seal": hashlib.sha256(text.encode()).hexdigest()})


class PlacementAnswer(Spec):
    """What the checker reads: it needs nothing else."""

    problem: PlacementProblem
    placement: ChosenPlacement
    value: int  # rate: load of the busiest lcore or limit; else what the aim counts
    certificate: Certificate

    @property
    def gap(self) -> float | None:
        """The part of the bound by which the value is above it; None: there is no bound to speak
        of."""
        bound = self.certificate.bound
        if bound > 0:
            return self.value / bound - 1
        return 0.0 if self.value == bound else None

    @property
    def word(self) -> str:
        gap = self.gap
        if gap is None:
            return "not proved to be near the optimum"
        if self.value == self.certificate.bound:
            return "optimal"
        return f"within {max(0.05, 100 * gap):.1f} % of the optimum"


class SettledSegment(Spec):
    """A segment where it runs. `cpus`: as Linux numbers them on the server, a replica on each;
    `load`: what it takes of each of them, as a share; `comes`: how its packets get there. `vfs`:
    the virtual function of the port that each replica has, where the NIC switches."""

    functions: tuple[str, ...]
    place: str
    cpus: tuple[int, ...]
    load: float
    comes: str
    vfs: tuple[int, ...] = ()


class NextBest(Spec):
    """What the aim would count if this chain alone were elsewhere, all others staying. None: there
    is no room."""

    where: str
    value: int | None


class SettledChain(Spec):
    """`carries_pps`: with all lcores and limits full (aim rate), or as asked. `queues`: the CPU of
    each receive queue of the port, and `buckets` how many of the port's 128 RETA entries it has.
    `memory_node`: of the pool, tables and rings. `latency_us` None: not predicted (VNFs that are
    hosted apart). `host_cpus`: theirs, of source, switch and sink."""

    chain: str
    rate_pps: float
    carries_pps: float
    latency_us: float | None
    within_us: float | None
    server: str
    port: str
    queues: tuple[int, ...]
    buckets: tuple[int, ...]
    memory_node: int
    segments: tuple[SettledSegment, ...]
    host_cpus: tuple[int, ...] = ()
    next_best: tuple[NextBest, ...]


class UsedLcore(Spec):
    """`parts`: share of its time by chain."""

    server: str
    place: str
    cpu: int
    parts: dict[str, float]


class UsedLimit(Spec):
    name: str
    share: float


class PlacementPlan(Spec):
    """What `headrace plan --server` prints."""

    server: str
    about: str
    word: str  # optimal, or within which part of it
    proof: str  # how, and what the checker said
    seconds: float
    threads: int  # of each core that are used
    chains: tuple[SettledChain, ...]
    lcores: tuple[UsedLcore, ...]
    limits: tuple[UsedLimit, ...]
    cautions: tuple[str, ...] = ()
    answer: PlacementAnswer
