# SPDX-License-Identifier: Apache-2.0
"""A server as a file describes it, for predictions: what it consists of, what its memory and its
functions cost. Each figure names the source that it comes from.

Cycles are those of its core clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from headrace.spec.base import NAME_PATTERN, Count, Ratio, Spec

CLOCK_MHZ_MOST = 100_000
DELAY = "delay"  # the function whose cost a spec says (engine/nf/delay)
SourceKind = Literal["measured", "data-sheet", "published", "fitted", "assumed"]


class Source(Spec):
    """Where figures come from. `to`: the points that it was `fitted` to."""

    kind: SourceKind
    text: Annotated[str, Field(min_length=1)]
    to: str | None = None


class Sourced(Spec):
    """A figure with the name of its source, and by what part of it it may be off either way. Short:
    [value, source] or [value, source, spread]."""

    value: Annotated[float, Field(ge=0, le=1e12)]
    source: str
    spread: Annotated[Ratio, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            if len(value) not in (2, 3):
                raise ValueError("allowed: [value, source], [value, source, spread]")
            return dict(zip(("value", "source", "spread"), value, strict=False))
        if not isinstance(value, dict | Sourced):
            raise ValueError("a figure names its source; allowed: [value, source, spread]")
        return value

    def at(self, corner: float) -> float:
        """The value at a corner of its spread: -1 at its least, 0 as it is, 1 at its most."""
        return self.value * (1 + corner * self.spread)


class MemoryLevel(Spec):
    """A level of the memory hierarchy. `cycles`: a load that waits for the one before;
    `gather_cycles`: a line of which many are fetched at once. `shared_by`: cores that share it."""

    name: str
    kib: Sourced | None = None  # None: memory itself
    shared_by: Annotated[Count, Field(ge=1)] = 1
    cycles: Sourced
    gather_cycles: Sourced


class DescribedFunction(Spec):
    """Cycles per packet of a function of headrace's.

    `base` is its own work with all state at hand, and `base_kib` more for each KiB that a frame is
    longer than 64 B; each packet makes `accesses` to state of
    `bytes_per_entry` for each of `entries`, which wait for one another unless `overlapped`. `rx`,
    `tx`: taking packets from, and giving them to, the same lcore; `rx_known`: taking them where a
    segment before has classified them; `hand_over`: what taking them pays more where they come from
    another lcore, `known_over` where they are classified (None: all of `rx` is paid again), and
    `sent_over` giving them to one (None: it is in `hand_over`). `poll`: once for each poll that
    finds packets of another lcore, and `poll_near` of the same (None: as `poll`).
    """

    base: Sourced
    rx: Sourced
    rx_known: Sourced | None = None
    tx: Sourced
    hand_over: Sourced
    known_over: Sourced | None = None
    sent_over: Sourced | None = None
    loop: Sourced
    poll: Sourced
    poll_near: Sourced | None = None
    accesses: Sourced | None = None
    bytes_per_entry: Sourced | None = None
    overlapped: bool = True
    base_kib: Sourced | None = None
    entries: Literal["flows", "rules", "routes"] = "flows"
    measured_up_to: float | None = None  # entries


class TrafficCost(Spec):
    """Cycles per packet of the tester's own lcores.

    A packet whose whole way is on the source's lcore has its lines in that one's caches when it is
    made again. One that was elsewhere has not: `source_back` more where it ends on the source's
    lcore, `source_away` where it ends on another one, and `source_far_kib` for each KiB beyond
    64 B. Where that lcore goes on with a packet of one line before its stores are through, that
    takes `source_spill` longer. Frames of more than a line have their stamp in a line of its own,
    which no function reads: where source and sink are apart each waits for it, `stamp_line`.
    """

    source: Sourced  # with sending; flows in turn
    source_random: Sourced | None = None  # flows at random
    source_kib: Sourced | None = None  # more, for each KiB that a frame is longer than 64 B
    source_back: Sourced | None = None
    source_away: Sourced | None = None
    source_spill: Sourced | None = None
    source_far_kib: Sourced | None = None
    stamp_line: Sourced | None = None
    steer: Sourced | None = None  # more, to choose among replicas
    sink: Sourced
    hand_over: Sourced
    idle: Sourced  # of a poll that finds nothing
    poll: Sourced | None = None  # once for each poll that finds packets, of source and sink each


class HostedCost(Spec):
    """What is between a host and VNFs in processes of their own, joined by rings in shared memory.

    Cycles of a packet of 64 B: `switch`, the host's switch each time that it forwards; `take` and
    `give`, its ends of the links; `vnf_take` and `vnf_give`, theirs; `far`, what who takes waits
    for lines that another core wrote, and `own`, who gives for those that another core read.
    `copy_kib` at each end, `far_kib`, `own_kib`, `vnf_own_kib`: more for each KiB that a frame is
    longer. `poll`, `vnf_poll`: once for each poll that finds packets; `idle`, `vnf_idle`: of one
    that finds nothing; `pause`: more where a VNF may sleep, which looks less often before it does.
    `reach`: for each further link that a burst is divided over. Of the kernel's scheduler:
    `slice_us` that a process keeps an lcore for which others wait, `kept_us` at the least where one
    of them was roused (None: as long), `change_us` from one to another,
    `wake_us` until one that slept is up, of which `rouse_us` are spent by who sends to it. Ends of
    a NIC's virtual function, in full bursts, beside waiting for the frame: `vf_take`, `vf_give`.
    """

    switch: Sourced
    take: Sourced
    give: Sourced
    vnf_take: Sourced
    vnf_give: Sourced
    far: Sourced
    own: Sourced
    copy_kib: Sourced
    far_kib: Sourced
    own_kib: Sourced
    vnf_own_kib: Sourced
    reach: Sourced
    poll: Sourced
    vnf_poll: Sourced
    idle: Sourced
    vnf_idle: Sourced
    pause: Sourced
    slice_us: Sourced
    kept_us: Sourced | None = None
    change_us: Sourced
    wake_us: Sourced
    rouse_us: Sourced
    vf_take: Sourced | None = None
    vf_give: Sourced | None = None


class NicPort(Spec):
    gbps: Sourced
    mpps: Sourced | None = None  # that the port takes at most, whatever their size
    buffer_packets: Annotated[Count, Field(ge=1)] = 1024
    socket: Annotated[Count, Field(ge=0)] = 0  # that its PCIe root belongs to


class Power(Spec):
    """Watts at the wall: with nothing to do, and with all cores busy."""

    idle_watts: Sourced
    busy_watts: Sourced


class FairScheduler(Spec):
    """Linux' fair scheduler (CFS, kernel/sched/fair.c): tasks that want one lcore have turns that
    last `latency_us` in all, and none of them less than `least_us`. Both grow with the CPUs of a
    server, by 1 + log2 of them, of eight at most."""

    latency_us: Sourced
    least_us: Sourced

    def slice_us(self, tasks: int) -> float:
        return max(self.least_us.value, self.latency_us.value / max(1, tasks))


class MeasuredPauses(Spec):
    """How often an lcore stands still for other work; `us`: microseconds, each as likely."""

    per_s: Sourced
    us: Annotated[tuple[float, ...], Field(min_length=1)]


class DescribedServer(Spec):
    """What servers/NAME.yaml says. `costs`: the file of the server whose `functions` are scaled to
    this one by what memory costs on both. `machines`: as `hosting`, of VNFs in virtual machines.
    `tester: outside`: traffic comes by the ports, and no lcore of this server makes it."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    about: str = ""
    paper: str | None = None  # that measured on it, as its study names it
    sources: dict[str, Source]
    clock_mhz: Sourced
    sockets: Annotated[Count, Field(ge=1, le=16)] = 1
    cores_per_socket: Annotated[Count, Field(ge=1, le=512)]
    threads_per_core: Annotated[Count, Field(ge=1, le=8)] = 1
    levels: Annotated[tuple[MemoryLevel, ...], Field(min_length=2)]
    transfer_cycles: Sourced | None = None  # a line that another core of the socket has written
    remote_cycles: Sourced | None = None  # a line from the last-level cache of another socket
    memory_gbs: Sourced | None = None  # GB/s of each socket's memory
    interconnect_gbs: Sourced | None = None  # GB/s between sockets, each way
    thread_speed: Sourced | None = None  # of each thread beside a busy one, of a core of its own
    ports: tuple[NicPort, ...] = ()
    scheduler: FairScheduler | None = None  # None: slices as where costs were measured
    pauses: MeasuredPauses | None = None  # of each lcore; None: lcores of their own, and quiet
    price_usd: Sourced | None = None  # of the whole server
    rent_usd_per_hour: Sourced | None = None  # of the whole server, with the power that it draws
    power: Power | None = None
    tester: Literal["inside", "outside"] = "inside"
    costs: Path | None = None
    functions: dict[str, DescribedFunction] = Field(default_factory=dict)
    traffic: TrafficCost | None = None
    hosting: HostedCost | None = None
    machines: HostedCost | None = None

    @field_validator("clock_mhz")
    @classmethod
    def _is_a_clock(cls, given: Sourced) -> Sourced:
        if not 1 <= given.value <= CLOCK_MHZ_MOST:
            raise ValueError(f"{given.value:g} MHz; allowed: 1 to {CLOCK_MHZ_MOST}")
        return given

    def without_cache(self, taken: float) -> DescribedServer:
        """The same, with this share of its last-level cache held by others. ValueError where less
        is left than the level before has."""
        if not taken:
            return self
        caches = [(one, one.kib) for one in self.levels if one.kib is not None]
        last, kib = caches[-1]
        left, nearer = kib.value * (1 - taken), [size.value for _, size in caches[:-1]]
        if nearer and left <= nearer[-1]:
            raise ValueError(
                f"{taken:.0%} of {last.name} held by others leave {left:g} KiB; allowed: more than "
                f"the {nearer[-1]:g} KiB of the level before"
            )
        fewer = last.model_copy(update={"kib": kib.model_copy(update={"value": left})})
        return self.model_copy(update={"levels": (*self.levels[:-2], fewer, self.levels[-1])})

    @model_validator(mode="after")
    def _sources_are_here(self) -> DescribedServer:
        for path, figure in figures_of(self):
            if figure.source not in self.sources:
                names = ", ".join(self.sources)
                raise ValueError(f"{path}: source {figure.source}; allowed: {names}")
        return self

    @property
    def cpus(self) -> tuple[int, ...]:
        """Threads, numbered as Linux does: the first of all cores, then the second ones."""
        return tuple(range(self.cores * self.threads_per_core))

    @property
    def cores(self) -> int:
        return self.sockets * self.cores_per_socket

    def core_of(self, cpu: int) -> int:
        return cpu % self.cores

    def threads_of(self, core: int) -> tuple[int, ...]:
        return self.cpus[core :: self.cores]

    def socket_of(self, cpu: int) -> int:
        return self.core_of(cpu) // self.cores_per_socket

    def domain_of(self, level: MemoryLevel, cpu: int) -> int:
        """Which cache of this level a thread has."""
        return self.core_of(cpu) // level.shared_by

    def links_to(self, kind: str) -> HostedCost | None:
        """What is between the host and VNFs of this kind; containers have processes' links."""
        return self.machines if kind == "vm" else self.hosting

    def cost_of(self, nf: str, params: Mapping[str, Any]) -> DescribedFunction:
        """What a function with these parameters takes. `delay` takes as many cycles as it is told
        to, beside what it takes when told nothing, and waits for the line of a packet that it
        reads, where another lcore has written it."""
        cost, told = self.functions[nf], params.get("cycles", 0)
        if nf != DELAY:
            return cost
        if params.get("touch_bytes"):
            cost = self._with_a_line(cost)
        if not isinstance(told, int | float) or not told:
            return cost
        base, value = cost.base, cost.base.value + told
        spread = base.spread * base.value / value  # of the part that is not told
        base = base.model_copy(update={"value": value, "spread": spread})
        return cost.model_copy(update={"base": base})

    def _with_a_line(self, cost: DescribedFunction) -> DescribedFunction:
        """The same, that waits for one more line of each packet of another lcore: as long as a line
        takes for a packet alone, and in a burst as long as lines do of which many are fetched at
        once, by how much less that is of the last-level cache."""
        line, cache = self.transfer_cycles, self.levels[-2]
        assert line is not None and cache.cycles.value  # refuse.py
        together = line.value * cache.gather_cycles.value / cache.cycles.value
        more = {"hand_over": together, "known_over": together, "poll": line.value - together}
        figures = {name: (getattr(cost, name), cycles) for name, cycles in more.items()}
        return cost.model_copy(
            update={name: _more(one, cycles) for name, (one, cycles) in figures.items() if one}
        )


def _more(figure: Sourced, cycles: float) -> Sourced:
    return figure.model_copy(update={"value": figure.value + cycles})


def figures_of(model: Spec, at: str = "") -> Iterator[tuple[str, Sourced]]:
    """Every figure below a model, with its path."""
    for name in type(model).model_fields:
        value, path = getattr(model, name), f"{at}.{name}" if at else name
        several = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
            value, tuple) else ((None, value),)  # fmt: skip
        for key, one in several:
            here = path if key is None else f"{path}.{key}"
            if isinstance(one, Sourced):
                yield here, one
            elif isinstance(one, Spec):
                yield from figures_of(one, here)
