# SPDX-License-Identifier: Apache-2.0
"""Which way packets took through each engine (a cache of flows, or what it is there to spare), and
what they cost by the engine's own count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from headrace.analyse.units import percent
from headrace.model.paired import over
from headrace.record.bundle import Bundle
from headrace.record.counters import Counters, ReplicaReading
from headrace.record.equivalence import equivalences
from headrace.record.rows import Trial
from headrace.report.document_model import Column, Row, Section, Table

_NOTE = (
    "Shares are of lookups: a packet that goes through twice is looked up twice. Cycles are TSC "
    "cycles of the chain's lcores in polls that found packets (headrace, ovs-dpdk, testpmd: with "
    "what the ports cost; vpp: in its nodes, the ports' among them), or in its programs (xdp: "
    "without the drivers). Without ports: headrace's, but what polls that are timed part by part "
    "took to receive and to send; vpp's, but the nodes' of its ports; packets are in the core's "
    "caches then, and reading their headers is in both. Ratios are those of "
    "repetitions beside each other, to the first row of the same chain and workload: their "
    "geometric mean, and between which bounds it lies with 95 %. Carried: what came out at `max`."
)
_COLUMNS = (
    Column("execution", "text"),
    Column("chain", "text"),
    Column("workload", "text"),
    Column("packets", "count"),
    Column("way", "text"),
    Column("cycles", digits=4),
    Column("without ports", digits=4, optional=True),
    Column("carried", "own-rate", optional=True),
    Column("carried, ratio", "text", optional=True),
    Column("cycles, ratio", "text", optional=True),
    Column("without ports, ratio", "text", optional=True),
)
_COUNTED = ("search", "fixed", "max", "capacity")
# Of Open vSwitch, in the order in which it asks them.
_OVS = {
    "simple-match-hits": "simple match", "emc-hits": "EMC", "smc-hits": "SMC",
    "megaflow-hits": "megaflows", "misses": "tables",
}  # fmt: skip
# The nodes of VPP's ports: each polls by one of the first.
_VPP_INPUTS = ("memif-input/cycles", "af-packet-input/cycles")
_VPP_PORTS = ("memif", "af-packet-", "host-")
_VPP_ENTRY = "ethernet-input/vectors"
# VPP's acl counts packets of known sessions, and those that rules had to be asked about.
_VPP_KNOWN, _VPP_ASKED = "/existing session packets", ("/ACL permit packets", "/denied")


Asked = tuple[str, float, int]  # phase, load, repetition
Cost = Callable[[Counter[str], int], float | None]  # of what was counted, and the TSC's rate


@dataclass
class Passed:
    """What one engine did with one chain's workload: of trials that were made again the last one,
    as results have it."""

    trials: dict[Asked, Trial] = field(default_factory=dict)

    def add(self, one: Trial) -> None:
        self.trials[_asked(one)] = one

    @property
    def ways(self) -> Counter[str]:
        sums: Counter[str] = Counter()
        for one in self.trials.values():
            if one.counters is not None:
                sums.update(_counted(one.counters))
        return sums

    def each(self, cost: Cost) -> dict[Asked, float]:
        """Cycles per packet by trial of a load that was asked for."""
        return {
            asked: each
            for asked, one in self.trials.items()
            if one.phase in ("fixed", "max") and one.counters is not None
            and (each := cost(_counted(one.counters), one.counters.tsc_hz)) is not None
        }  # fmt: skip

    @property
    def carried_pps(self) -> dict[Asked, float]:
        """Rates by trial of as much as could be."""
        each = self.trials.items()
        return {asked: one.received_pps for asked, one in each if one.phase == "max"}


def _asked(one: Trial) -> Asked:
    """As much as could be is one load, whatever each engine was offered then."""
    return one.phase, 0.0 if one.phase == "max" else one.load_pps, one.repetition


def sections(bundle: Bundle) -> Iterator[Section]:
    """None of a bundle of headrace alone."""
    if not equivalences(bundle.path):
        return
    passed: dict[tuple[str, str, str], Passed] = {}
    tsc_hz = 0
    for one in sorted(bundle.trials(), key=lambda one: one.trial):
        if one.counters is not None and one.phase in _COUNTED and _whole(one):
            tsc_hz = one.counters.tsc_hz
            key = (one.execution, one.chain, one.workload)
            passed.setdefault(key, Passed()).add(one)
    rows = []
    for key, what in passed.items():
        first = next(one for (_, *of), one in passed.items() if of == list(key[1:]))
        rows.append(_row(key, what, first, tsc_hz))
    if rows:
        yield Section("Ways through the engines", _NOTE, (Table(_COLUMNS, tuple(rows)),))


def _row(key: tuple[str, str, str], what: Passed, first: Passed, tsc_hz: int) -> Row:
    carried = median(what.carried_pps.values()) if what.carried_pps else None
    ratios: tuple[str | None, ...] = (None,) * (1 + len(_COSTS))
    if what is not first:
        pairs = ((what.each(cost), first.each(cost)) for cost in _COSTS)
        ratios = (_ratio(what.carried_pps, first.carried_pps), *(_ratio(*one) for one in pairs))
    ways = what.ways
    cycles = (cost(ways, tsc_hz) for cost in _COSTS)
    return Row((*key, ways["packets"] or None, _way(ways), *cycles, carried, *ratios))


def _ratio(ours: Mapping[Asked, float], theirs: Mapping[Asked, float]) -> str | None:
    """Each with the same load in the same repetition of the other. None: there are no two pairs."""
    pairs = [(ours[asked], theirs[asked]) for asked in ours if asked in theirs]
    if len(pairs) < 2 or not all(map(all, pairs)):
        return None
    ratio = over("", "", pairs).ratio
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _whole(one: Trial) -> bool:
    """Where traffic goes both ways, its directions have the counters of both."""
    return one.direction == "both" or not one.workload.endswith(" both")


def _counted(counters: Counters) -> Counter[str]:
    """A device's own counters as they are; of headrace's chain what its functions say."""
    if counters.dut:
        own = {"packets": _came(counters.dut), "linkless": _nodes(counters.dut)}
        return Counter(counters.dut | own)
    sums: Counter[str] = Counter()
    packets: Counter[str] = Counter()  # by segment: one after the other has them all
    for one in counters.replicas:
        if one.nfs:
            sums.update(_replica(one))
            packets[one.segment] += one.packets_in
    return sums + Counter(packets=max(packets.values(), default=0))


def _came(dut: Mapping[str, int]) -> int:
    """Its name with testpmd, Open vSwitch, VPP and the kernel's programs."""
    ends = ("/rx", "/in")
    if (nodes := dut.get(_VPP_ENTRY)) is not None:  # whose cycles are those of these
        return nodes
    return dut.get("received") or sum(n for name, n in dut.items() if name.endswith(ends))


def _nodes(dut: Mapping[str, int]) -> int:
    """Cycles of VPP's nodes but those of ports; of others 0."""
    if not any(one in dut for one in _VPP_INPUTS):
        return 0
    return sum(n for name, n in dut.items()
               if name.endswith("/cycles") and not name.startswith(_VPP_PORTS))  # fmt: skip


def _replica(one: ReplicaReading) -> Counter[str]:
    sums = Counter({"cycles": one.ops_cycles, "linkless": round(one.linkless_cycles or 0)})
    if one.fastpath is not None:
        sums["fast path"] += one.fastpath.hits
        sums["functions"] += one.fastpath.misses
    for name, reading in one.nfs.items():
        if reading.type == "acl":
            hits = reading.counters.get("cache-hits", 0)
            sums[f"{name} from its cache"] += hits
            sums[f"{name} by classifying"] += reading.packets_in - hits
    return sums


def _way(ways: Counter[str]) -> str:
    if "emc-hits" in ways:
        return _shares({name: ways[key] for key, name in _OVS.items()})
    if known := [key for key, n in ways.items() if n and key.endswith(_VPP_KNOWN)]:
        acl = sum(ways[key] for key in known)
        rules = sum(n for key, n in ways.items() if key.endswith(_VPP_ASKED))
        return _shares({"acl's sessions": acl, "acl's rules": rules})
    own = [key for key in ways if key.endswith((" from its cache", " by classifying"))]
    path = _shares({key: ways[key] for key in ("fast path", "functions") if key in ways})
    names = dict.fromkeys(key.rpartition(" from ")[0] for key in own if " from " in key)
    each = (
        _shares({key: ways[key] for key in own if key.startswith(f"{name} ")}) for name in names
    )
    return "; ".join(filter(None, (path, *each))) or "each packet through all of it"


def _shares(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{name} {percent(n / total, 3)}" for name, n in counts.items() if n)


def _cycles(ways: Counter[str], tsc_hz: int) -> float | None:
    if ways["timed"]:
        return ways["timed-ns"] / ways["timed"] * tsc_hz / 1e9
    return ways["cycles"] / ways["packets"] if ways["cycles"] and ways["packets"] else None


def _linkless(ways: Counter[str], tsc_hz: int) -> float | None:
    """None: its count does not tell what its ports take."""
    if ways["timed"]:
        return _cycles(ways, tsc_hz)
    return ways["linkless"] / ways["packets"] if ways["linkless"] and ways["packets"] else None


_COSTS: tuple[Cost, ...] = (_cycles, _linkless)
