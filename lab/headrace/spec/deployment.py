# SPDX-License-Identifier: Apache-2.0
"""How a chain is put on a server: execution model, lcores, memory, rings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    model_validator,
)

from headrace.spec.appliance import Appliances
from headrace.spec.base import INTERFACE_PATTERN, NAME_PATTERN, Count, Seconds, Spec, listed
from headrace.spec.hosting import KINDS, RATE_COST, Hosting
from headrace.spec.offload import Offload

HOSTING_KINDS = (*KINDS, "appliances", "offload")

HEADRACE = "headrace"
OVS_DPDK = "ovs-dpdk"
VPP = "vpp"
ENGINES = (HEADRACE, "nftables", OVS_DPDK, "testpmd", VPP, "xdp")

# Whose VNFs may have ports of a switch that is not the host engine's.
_APART = {
    "bridge": ("process", "container", "vm"),
    "ovs-dpdk": ("process", "container", "vm"),
    "sriov": ("process", "container", "vm"),
}
_FASTPATH_FLOWS = 65536
_OFFLOAD_FLOWS = 4096
_EXECUTION = "rtc, pipeline, or {segments: [[acl], [lb, l3fwd]], replicas: [1, 2]}"


_ON_NODE = re.compile(r"node ([0-9]{1,4})")


def on_node(lcore: int | str) -> int | None:
    """The NUMA node, of which any lcore will do; None of an lcore's number."""
    match = _ON_NODE.fullmatch(lcore) if isinstance(lcore, str) else None
    return int(match[1]) if match else None


def _number_or_node(value: Any) -> Any:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not number and on_node(value) is None:
        raise ValueError("allowed: an lcore's number, or `node 1`: an lcore of that NUMA node")
    return value


class Execution(Spec):
    """Run-to-completion, pipeline, or an explicit partition of the chain (hybrid).

    `segments` names the functions of each segment; `replicas` says how many lcores run each.
    For rtc, one replica runs on each of the chain's lcores unless said otherwise. `lcores` says
    which lcores run each segment, one replica on each of them, instead of `replicas`; `node 1` is
    one of that NUMA node that has least else to do. `fastpath`:
    flows whose way through neighbouring functions is known are rewritten once (docs/spec.md);
    true, or for how many flows at a time. `offload`: hosted VNFs tell the host what they decided
    for a flow, which does it to the flow's next packets (docs/hosting.md); true, or for how many
    flows of each VNF. `parallel`: neighbouring functions that work on each
    packet at the same time, the first on the segment's lcore and the others on their own; with
    `lcores`, `beside` says on which, and the segment has one replica. `elastic`: the most replicas
    that each segment may be given while it runs, on the chain's other lcores; it begins with
    `replicas`, or one (docs/elastic.md). `becomes`: other partitions of the chain, as `rtc`,
    `pipeline` or a list of segments, to which its engine goes in turn in each trial, one after
    `every`; without `elastic` each segment has one replica then.
    """

    name: Annotated[str, Field(min_length=1, max_length=60)]
    model: Literal["rtc", "pipeline", "segments"]
    segments: tuple[tuple[Annotated[str, Field(pattern=NAME_PATTERN)], ...], ...] | None = None
    replicas: tuple[Annotated[Count, Field(ge=1, le=256)], ...] | None = None
    lcores: (
        tuple[tuple[Annotated[int | str, BeforeValidator(_number_or_node)], ...], ...] | None
    ) = None
    fastpath: StrictBool | Annotated[Count, Field(ge=4, le=1 << 24)] = False
    offload: StrictBool | Annotated[Count, Field(ge=4, le=1 << 16)] = False
    parallel: (
        Annotated[
            tuple[Annotated[str, Field(pattern=NAME_PATTERN)], ...],
            Field(min_length=2, max_length=8),
        ]
        | None
    ) = None
    beside: tuple[Annotated[Count, Field(ge=0)], ...] | None = None
    elastic: Annotated[Count, Field(ge=2, le=64)] | None = None
    becomes: (
        Annotated[
            tuple[
                Literal["rtc", "pipeline"]
                | tuple[tuple[Annotated[str, Field(pattern=NAME_PATTERN)], ...], ...],
                ...,
            ],
            BeforeValidator(listed),
            Field(min_length=1, max_length=16),
        ]
        | None
    ) = None
    every: Annotated[Seconds, Field(ge=0.01, le=3600)] = 0.1

    @property
    def fastpath_flows(self) -> int:
        """Size of each replica's cache; 0: every packet goes through every function."""
        if isinstance(self.fastpath, bool):
            return _FASTPATH_FLOWS if self.fastpath else 0
        return self.fastpath

    @property
    def offload_flows(self) -> int:
        """How many flows each VNF tells its host of at a time; 0: it has every packet."""
        if isinstance(self.offload, bool):
            return _OFFLOAD_FLOWS if self.offload else 0
        return self.offload

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, Execution):
            return value
        if isinstance(value, str) and value in ("rtc", "pipeline"):
            return {"name": value, "model": value}
        if isinstance(value, dict) and "model" in value:
            model = value["model"]
            return _with_name({k: v for k, v in value.items() if v is not None}, model)
        if isinstance(value, dict) and "segments" in value:
            return _with_name({"model": "segments", **value}, "segments")
        raise ValueError(f"allowed: {_EXECUTION}")

    @model_validator(mode="after")
    def _consistent(self) -> Execution:
        if (self.model == "segments") != (self.segments is not None):
            raise ValueError(f"`segments` belongs to model `segments`; allowed: {_EXECUTION}")
        if self.segments is not None:
            if not self.segments or not all(self.segments):
                raise ValueError("a segment without functions; allowed: at least one in each")
            if self.replicas is not None and len(self.replicas) != len(self.segments):
                raise ValueError(
                    f"replicas has {len(self.replicas)} entries for {len(self.segments)} segments"
                )
        self._check_lcores()
        self._check_parallel()
        if self.offload_flows & (self.offload_flows - 1):
            raise ValueError(f"offload: {self.offload}; allowed: true, or a power of two of flows")
        self._check_elastic()
        self._check_becomes()
        return self

    def _check_becomes(self) -> None:
        others = {
            "parallel": self.parallel, "fastpath": self.fastpath_flows, "lcores": self.lcores,
            "offload": self.offload_flows, "replicas": self.replicas,
        }  # fmt: skip
        if self.becomes is None:
            if "every" in self.model_fields_set:
                raise ValueError("every: belongs to `becomes`")
            return
        if beside := [name for name, value in others.items() if value]:
            raise ValueError(f"becomes: beside {beside[0]}; allowed: one of them")

    @property
    def first_name(self) -> str:
        """What it is called that becomes others."""
        return _name(self.model, self.segments, self.replicas)[:60]

    @property
    def others(self) -> tuple[Execution, ...]:
        """Those that it becomes, in turn."""
        given: dict[str, Any] = {"elastic": self.elastic}
        return tuple(
            Execution.model_validate(
                {"model": one, "name": one, "replicas": (1,), **given}
                if one == "rtc" and self.elastic is None
                else {"model": one, "name": one, **given}
                if isinstance(one, str)
                else {"segments": one, "name": _other(one)[:60], **given}
            )
            for one in self.becomes or ()
        )

    def _check_elastic(self) -> None:
        if self.elastic is None:
            return
        if self.parallel or self.fastpath_flows:
            other = "parallel" if self.parallel else "fastpath"
            raise ValueError(f"elastic: beside {other}; allowed: one of them")
        most = max((*(self.replicas or ()), *(len(on) for on in self.lcores or ())), default=1)
        if most > self.elastic:
            raise ValueError(
                f"elastic: {self.elastic} replicas at most, and a segment begins with {most}; "
                f"allowed: {most} or more"
            )

    def _check_parallel(self) -> None:
        group = self.parallel or ()
        if len(set(group)) != len(group):
            raise ValueError(f"parallel: {list(group)}; allowed: each function once")
        if group and self.fastpath_flows:
            raise ValueError("parallel: not with `fastpath`, which spares functions their packets")
        if group and self.segments and not any(set(group) <= set(s) for s in self.segments):
            raise ValueError(f"parallel: {list(group)} must all be in one segment")
        self._check_beside(group)

    def _check_beside(self, group: tuple[str, ...]) -> None:
        if self.beside is None:
            if group and self.lcores is not None:
                raise ValueError(
                    "parallel: with `lcores` of segments, `beside` must say where the functions "
                    "behind the first run; allowed: an lcore for each"
                )
            return
        if not group or self.lcores is None:
            raise ValueError("beside: belongs to `parallel` together with `lcores` of segments")
        if len(self.beside) != len(group) - 1:
            raise ValueError(
                f"beside: {list(self.beside)} for {len(group) - 1} functions behind the first; "
                "allowed: an lcore for each"
            )
        for segment, cpus in zip(self.segments or (), self.lcores, strict=True):
            if set(group) <= set(segment) and len(cpus) != 1:
                raise ValueError(
                    f"beside: its segment has {len(cpus)} lcores; allowed: one, for one replica"
                )

    def _check_lcores(self) -> None:
        if self.lcores is None:
            return
        if self.segments is None or self.replicas is not None:
            raise ValueError("lcores: belongs to `segments`, and takes the place of `replicas`")
        if len(self.lcores) != len(self.segments):
            raise ValueError(
                f"lcores has {len(self.lcores)} entries for {len(self.segments)} segments"
            )
        for cpus in self.lcores:
            numbers = [cpu for cpu in cpus if isinstance(cpu, int)]
            if not cpus or len(set(numbers)) != len(numbers):
                raise ValueError("lcores: allowed: at least one lcore for each segment, each once")

    @property
    def numbered(self) -> tuple[tuple[int, ...], ...] | None:
        """The lcores of each segment where the spec gives all of them by number."""
        if self.lcores is None or any(isinstance(cpu, str) for on in self.lcores for cpu in on):
            return None
        return tuple(tuple(int(cpu) for cpu in on) for on in self.lcores)


def _with_name(value: dict[str, Any], model: Any) -> dict[str, Any]:
    value = dict(value)
    segments = value.get("segments")
    count = len(segments) if isinstance(segments, list | tuple) else 1
    if isinstance(value.get("replicas"), int) and not isinstance(value["replicas"], bool):
        value["replicas"] = (value["replicas"],) * count
    if "name" not in value:
        name = _name(model, segments, value.get("replicas"))
        value["name"] = name[:50] + " fast path" if value.get("fastpath") else name
        if value.get("offload"):
            value["name"] = name[:50] + " offloaded"
        if value.get("elastic") is not None:
            value["name"] = f"{name[:45]} elastic {value['elastic']}"
        if value.get("becomes") is not None:
            others = ", ".join(map(_other, listed(value["becomes"])))
            value["name"] = f"{name[:30]} becomes {others}"[:60]
        if isinstance(group := value.get("parallel"), list | tuple):
            value["name"] = f"{name[:28]} with {' beside '.join(map(str, group))}"[:60]
    return value


def _other(one: Any) -> str:
    return _name("segments" if isinstance(one, list | tuple) else one, one, None)


def _name(model: Any, segments: Any, replicas: Any) -> str:
    """`hybrid acl|lb+l3fwd`, with `x2` behind a segment of two replicas."""
    if model != "segments" or not isinstance(segments, list | tuple):
        several = isinstance(replicas, tuple | list) and list(replicas) != [1]
        return str(model) + (" x" + ",".join(map(str, replicas)) if several else "")
    parts = []
    for i, segment in enumerate(segments):
        text = "+".join(map(str, segment)) if isinstance(segment, list | tuple) else str(segment)
        if isinstance(replicas, list | tuple) and i < len(replicas) and replicas[i] != 1:
            text += f"x{replicas[i]}"
        parts.append(text)
    return ("hybrid " + "|".join(parts))[:60]


class Lcores(Spec):
    """Which CPUs make and measure traffic, and which run the chain. None: chosen here.

    `shared` allows a CPU to be among both: its lcore then polls traffic and chain in turn.
    `generators`: between ports of a testbed so many of traffic's lcores, the first of them, make
    packets, each its part of the flows at its part of the rate, and the others measure them.
    """

    traffic: tuple[Annotated[Count, Field(ge=0)], ...] | None = None  # CPUs of source and sink
    chain: tuple[Annotated[Count, Field(ge=0)], ...] | None = None  # CPUs of the segments
    shared: bool = False  # a CPU may be among both
    generators: Annotated[Count, Field(ge=1)] | None = None  # None: one, and one that measures

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if value == "auto":
            return {}
        if isinstance(value, list | tuple):
            if len(value) < 2:
                raise ValueError("a list of lcores is traffic first, then the chain's: at least 2")
            return {"traffic": [value[0]], "chain": list(value[1:])}
        if isinstance(value, dict | Lcores):
            return value
        raise ValueError("allowed: auto, [traffic, chain...], {traffic: [0], chain: [1]}")

    @model_validator(mode="after")
    def _some(self) -> Lcores:
        for what, cpus in (("traffic", self.traffic), ("chain", self.chain)):
            if cpus is not None and (not cpus or len(set(cpus)) != len(cpus)):
                raise ValueError(f"{what}: {list(cpus)}; allowed: at least one CPU, each once")
        if self.generators is not None and self.generators > len(self.traffic or ()):
            raise ValueError(
                f"generators: {self.generators} of {len(self.traffic or ())} lcores that `traffic` "
                "names; allowed: at most all"
            )
        return self


def power_of_two(size: int) -> int:
    if size & (size - 1):
        raise ValueError(f"size {size} is not a power of two; allowed: 64, 128, ... 2^20")
    return size


RingSize = Annotated[Count, Field(ge=64, le=1 << 20), AfterValidator(power_of_two)]


class Ring(Spec):
    """Rings between segments. `drop` is a NIC's receive queue; `wait` is back-pressure."""

    size: RingSize = 4096  # packets; a power of two
    on_full: Literal["drop", "wait"] = "drop"  # as a NIC's queue, or back-pressure

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        return {"size": value} if isinstance(value, int) else value


def _hosting(value: Any) -> Any:
    """`container` is `{kind: container}`."""
    if isinstance(value, str):
        value = {"kind": value}
    if isinstance(value, dict):
        kind = value.get("kind", "inline")
        if kind not in HOSTING_KINDS:
            raise ValueError(f"kind: {kind}; allowed: {', '.join(HOSTING_KINDS)}")
    elif not isinstance(value, Hosting | Appliances | Offload):
        raise ValueError(
            f"allowed: {', '.join(HOSTING_KINDS)}, or {{kind: process, chains: 4, ...}}"
        )
    return value


def _tag(value: Any) -> str:
    """A tag is no key of a hosting, so that an error's path stays the file's."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return f"kind {kind}" if kind in ("appliances", "offload") else "functions"


_OneHosting = Annotated[
    Annotated[Hosting, Tag("functions")]
    | Annotated[Appliances, Tag("kind appliances")]
    | Annotated[Offload, Tag("kind offload")],
    Discriminator(_tag),
    BeforeValidator(_hosting),
]


def _engines(value: Any) -> Any:
    """Names, or the path of one build."""
    names = [str(one) if isinstance(one, Path) else one for one in listed(value)]
    for one in names:
        if not isinstance(one, str) or not one:
            raise ValueError(f"allowed: {', '.join(ENGINES)}, or the path of a headrace-engine")
        if len(names) > 1 and one not in ENGINES:
            raise ValueError(f"{one}; allowed in a list: {', '.join(ENGINES)}")
        if names.count(one) > 1:
            raise ValueError(f"{one} is there twice; allowed: each once")
    return names


class OvsOptions(Spec):
    """What the engine ovs-dpdk is told beside its chain."""

    expand: bool = False  # port ranges become several flows each, under masks
    emc: bool = True  # the exact match cache: 8192 flows, of which one packet in 100 adds one
    smc: bool = False  # the signature match cache behind it


class VppOptions(Spec):
    """What the engine vpp is told beside its chain."""

    path: Path | None = None  # of its program, `vppctl` beside it; none: $HEADRACE_VPP, then PATH's
    reflect: bool = False  # an acl keeps sessions of what it permits, and looks there first


class Deployment(Spec):
    execution: Annotated[
        tuple[Execution, ...], BeforeValidator(listed), Field(min_length=1, max_length=100)
    ] = (Execution(name="rtc", model="rtc"),)  # how the chain is cut into segments; a list is
    # compared
    engine: Annotated[
        tuple[str, ...], BeforeValidator(_engines), Field(min_length=1, max_length=len(ENGINES))
    ] = (HEADRACE,)  # whose chain is measured, each in rows of its own (docs/engines.md); or a
    # path: another build of headrace-engine than the one that is found
    ovs: OvsOptions = OvsOptions()  # of the engine ovs-dpdk: its caches, port ranges
    vpp: VppOptions = VppOptions()  # of the engine vpp: where it is, sessions of its acl
    functions: Annotated[tuple[Path, ...], BeforeValidator(listed)] = ()  # shared objects with
    # functions that the engine has not by itself (docs/functions.md); beside the spec's file
    lcores: Lcores = Lcores()  # which CPUs make traffic, and which run the chain
    hugepages: Literal["auto"] | bool = "auto"  # `auto` where they can be had; true insists; false:
    # ordinary memory
    memory_mb: Annotated[Count, Field(ge=64, le=1 << 20)] = 512  # for the engine's packets and
    # tables
    mbufs: Annotated[Count, Field(ge=1024, le=1 << 24)] | None = None  # packet buffers; by need
    mbufs_hot: Annotated[Count, Field(ge=0, le=1 << 24)] | None = None  # of the buffers, how many
    # go round while queues are short
    packets_node: Annotated[Count, Field(ge=0, le=1023)] | None = None  # NUMA node of the packet
    # buffers
    burst: Annotated[Count, Field(ge=1, le=64)] = 32  # packets that a segment takes at once, at
    # most
    ring: Ring = Ring()  # rings between segments
    wire: Literal["auto"] | RingSize = "auto"  # the ring in front of the chain, in packets
    wire_on_full: Literal["drop", "wait"] = "drop"  # `wait`: the ring in front of the chain holds
    # the source back
    steer: Literal["hash", "even"] = "hash"  # how flows are spread over replicas
    locate: Annotated[Count, Field(ge=0, le=1_000_000_000)] = 0  # time one packet in so many; 0:
    # none
    hosting: _OneHosting = Hosting()  # where functions run, or what third-party appliances
    network: Literal["veb", "vepa", "bridge", "ovs-dpdk", "sriov"] = "veb"  # the switch of
    # functions that are hosted apart
    pf: (
        Annotated[
            tuple[Annotated[str, Field(pattern=INTERFACE_PATTERN)], ...],
            BeforeValidator(listed),
            Field(min_length=1, max_length=100),
        ]
        | None
    ) = None  # with `sriov`: the NIC whose virtual functions are used; or several

    def _check_offload(self, kind: str) -> None:
        """Behind other networks and in machines no link is there to tell the host by."""
        if not any(one.offload_flows for one in self.execution):
            return
        if kind not in ("process", "container") or self.network not in ("veb", "vepa"):
            raise ValueError(
                f"execution: offload, with hosting {kind} and network {self.network}; allowed "
                "with hosting process or container, and network veb or vepa"
            )

    def _check_checkpoint(self, hosting: Hosting) -> None:
        if hosting.checkpoint is None:
            return
        if hosting.kind not in ("process", "container") or self.network not in ("veb", "vepa"):
            raise ValueError(
                f"hosting: checkpoint, with kind {hosting.kind} and network {self.network}; "
                "allowed with kind process or container, and network veb or vepa"
            )

    @property
    def build(self) -> Path | None:
        """Another build of headrace-engine."""
        [first, *_] = self.engine
        return None if first in ENGINES else Path(first)

    @property
    def foreign(self) -> tuple[str, ...]:
        """The engines that are not headrace's."""
        return tuple(one for one in self.engine if one in ENGINES and one != HEADRACE)

    @property
    def headrace(self) -> bool:
        """Whether headrace itself is measured."""
        return self.build is not None or HEADRACE in self.engine

    @model_validator(mode="after")
    def _executions_differ(self) -> Deployment:
        names = [one.name for one in self.execution]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"execution: {name} is there twice; allowed: each model once")
        return self

    @model_validator(mode="after")
    def _options_of_engines(self) -> Deployment:
        for key, given, engine in (
            ("ovs", self.ovs != OvsOptions(), OVS_DPDK),
            ("vpp", self.vpp != VppOptions(), VPP),
        ):
            if given and engine not in self.engine:
                raise ValueError(f"{key}: belongs to the engine {engine}; allowed: none without it")
        return self

    @model_validator(mode="after")
    def _on_a_nic(self) -> Deployment:
        self._check_offload(self.hosting.kind)
        if not isinstance(self.hosting, Hosting):
            return self
        self._check_checkpoint(self.hosting)
        if self.hosting.hugepages and self.hugepages is False:
            raise ValueError(
                "hugepages: false, with hosting.hugepages: true; allowed with that: auto, true"
            )
        if self.hosting.shares == RATE_COST and self.network not in ("veb", "vepa"):
            raise ValueError(
                f"hosting: shares: rate-cost, with network {self.network}, whose counters nobody "
                "reads while packets are sent; allowed: veb, vepa"
            )
        kinds = _APART.get(self.network)
        if kinds is not None and self.hosting.kind not in kinds:
            raise ValueError(
                f"network: {self.network} joins hosted VNFs; got hosting {self.hosting.kind}; "
                f"allowed: {', '.join(kinds)}"
            )
        if self.wire_on_full == "wait" and self.hosting.kind != "inline":
            raise ValueError(
                f"wire_on_full: wait, with hosting {self.hosting.kind}, whose NIC drops; allowed "
                "there: drop"
            )
        if self.pf is not None and len(set(self.pf)) < len(self.pf):
            raise ValueError(f"pf: {', '.join(self.pf)}; allowed: each NIC once")
        for key, given in (("pf", self.pf), ("hosting.vf", self.hosting.vf)):
            if given is not None and self.network != "sriov":
                raise ValueError(f"{key}: belongs to `network: sriov`; got network {self.network}")
        return self
