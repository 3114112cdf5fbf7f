# SPDX-License-Identifier: Apache-2.0
"""Which way packets took through each engine (a cache of flows, or what it is there to spare), and
what they cost by the engine's own count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from headrace.analyse.units import percent
from headrace.record.bundle import Bundle
from headrace.record.counters import Counters, ReplicaReading
from headrace.record.equivalence import equivalences
from headrace.record.rows import Trial
from headrace.report.document import Column, Row, Section, Table

_NOTE = (
    "Of all trials. Shares are of lookups: a packet that goes through twice is looked up twice. "
    "Cycles are TSC cycles of the chain's lcores in polls that found packets (headrace, ovs-dpdk, "
    "testpmd: with what the ports cost), or in its programs (xdp: without the drivers)."
)
_COLUMNS = (
    Column("engine", "text"),
    Column("chain", "text"),
    Column("workload", "text"),
    Column("packets", "count"),
    Column("way", "text"),
    Column("cycles", digits=4),
)
# Of Open vSwitch, in the order in which it asks them.
_OVS = {
    "simple-match-hits": "simple match", "emc-hits": "EMC", "smc-hits": "SMC",
    "megaflow-hits": "megaflows", "misses": "tables",
}  # fmt: skip


def sections(bundle: Bundle) -> Iterator[Section]:
    """None of a bundle of headrace alone."""
    if not equivalences(bundle.path):
        return
    sums: dict[tuple[str, str, str], Counter[str]] = {}
    tsc_hz = 0
    for one in bundle.trials():
        if one.counters is not None and _whole(one):
            tsc_hz = one.counters.tsc_hz
            key = (one.execution, one.chain, one.workload)
            sums.setdefault(key, Counter()).update(_counted(one.counters))
    rows = tuple(
        Row((*key, ways["packets"] or None, _way(ways), _cycles(ways, tsc_hz)))
        for key, ways in sums.items()
    )
    yield Section("Ways through the engines", _NOTE, (Table(_COLUMNS, rows),))


def _whole(one: Trial) -> bool:
    """Where traffic goes both ways, its directions have the counters of both."""
    return one.direction == "both" or not one.workload.endswith(" both")


def _counted(counters: Counters) -> Counter[str]:
    """A device's own counters as they are; of headrace's chain what its functions say."""
    if counters.dut:
        return Counter(counters.dut | {"packets": _came(counters.dut)})
    sums: Counter[str] = Counter()
    for one in counters.replicas:
        if one.nfs:
            sums.update(_replica(one))
    return sums


def _came(dut: Mapping[str, int]) -> int:
    """As testpmd, Open vSwitch and the kernel's programs call it."""
    ends = ("/rx", "/in")
    return dut.get("received") or sum(n for name, n in dut.items() if name.endswith(ends))


def _replica(one: ReplicaReading) -> Counter[str]:
    sums = Counter({"packets": one.packets_in, "cycles": one.ops_cycles})
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
