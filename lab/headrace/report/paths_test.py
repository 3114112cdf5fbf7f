# SPDX-License-Identifier: Apache-2.0
"""Shares of lookups and cycles per packet, of sums by hand."""

from __future__ import annotations

from typing import Any

from headrace.record.counters import Counters, FastpathReading, NfReading, ReplicaReading
from headrace.record.rows import Trial
from headrace.report.paths import _asked, _counted, _cycles, _linkless, _ratio, _way

TSC_HZ = 2_000_000_000


def at(*values: float) -> dict[tuple[str, float, int], float]:
    """Values at one load, by repetition."""
    return {("max", 0.0, i): float(value) for i, value in enumerate(values, 1)}


def test_open_vswitch() -> None:
    """1,000 packets that go through once again each: 2,000 lookups."""
    dut = {"received": 1000, "recirculated": 1000, "emc-hits": 1500, "megaflow-hits": 490,
           "misses": 10, "smc-hits": 0, "cycles": 300_000, "forward/in": 1000}  # fmt: skip
    ways = _counted(Counters(tsc_hz=TSC_HZ, dut=dut))
    assert _way(ways).replace("\u202f", " ") == "EMC 75.0 %, megaflows 24.5 %, tables 0.500 %"
    assert _cycles(ways, TSC_HZ) == 300


def test_headrace() -> None:
    acl = NfReading(type="acl", packets_in=1000, counters={"cache-hits": 900, "cache-misses": 100})
    tester = ReplicaReading(segment="generator", index=0, cpu=0, packets_in=1, ops_cycles=10**9)
    one = ReplicaReading(
        segment="chain", index=0, cpu=1, packets_in=4000, ops_cycles=400_000, nfs={"acl": acl},
        fastpath=FastpathReading(hits=3000, misses=1000),
    )  # fmt: skip
    ways = _counted(Counters(tsc_hz=TSC_HZ, replicas=(tester, one)))
    assert _way(ways).replace("\u202f", " ") == (
        "fast path 75.0 %, functions 25.0 %; acl from its cache 90.0 %, acl by classifying 10.0 %"
    )
    assert _cycles(ways, TSC_HZ) == 100


def test_a_chain_in_segments() -> None:
    """Each packet goes through both: 100 and 60 cycles of it are 160."""
    acl = NfReading(type="acl", packets_in=1000, counters={"cache-hits": 0})
    first = ReplicaReading(
        segment="a", index=0, cpu=1, packets_in=1000, ops_cycles=100_000, nfs={"acl": acl}
    )
    halves = (
        ReplicaReading(
            segment="b", index=i, cpu=2 + i, packets_in=500, ops_cycles=30_000,
            nfs={"l3fwd": NfReading(type="l3fwd", packets_in=500)},
        )
        for i in range(2)
    )  # fmt: skip
    ways = _counted(Counters(tsc_hz=TSC_HZ, replicas=(first, *halves)))
    assert (ways["packets"], _cycles(ways, TSC_HZ)) == (1000, 160)


def replica(**more: Any) -> ReplicaReading:
    """1,000 packets that took 250 cycles each; of every tenth 90 to receive, 60 to send."""
    return ReplicaReading(
        segment="chain", index=0, cpu=1, packets_in=1000, ops_cycles=250_000, rx_cycles=9_000,
        tx_cycles=6_000, io_packets=100,
        nfs={"l2fwd": NfReading(type="l2fwd", packets_in=1000)}, **more,
    )  # fmt: skip


def test_without_ports() -> None:
    """20 of 90 cycles read headers, which are no port's: 250 less 70 less 60 are 120. What VPP's
    memif nodes took is its ports', and nothing else is."""
    ways = _counted(Counters(tsc_hz=TSC_HZ, replicas=(replica(headers_cycles=2_000),)))
    assert (_cycles(ways, TSC_HZ), _linkless(ways, TSC_HZ)) == (250, 120)
    ways = _counted(Counters(tsc_hz=TSC_HZ, replicas=(replica(),)))
    assert (_cycles(ways, TSC_HZ), _linkless(ways, TSC_HZ)) == (250, None)
    nodes = {"memif-input": 30, "ethernet-input": 15, "ip4-lookup": 25, "memif2/0-output": 5,
             "memif2/0-tx": 15}  # fmt: skip
    dut = {"in/rx": 1000, "cycles": 90_000, "ethernet-input/vectors": 1000}
    dut |= {f"{name}/cycles": 1000 * each for name, each in nodes.items()}
    assert _linkless(_counted(Counters(tsc_hz=TSC_HZ, dut=dut)), TSC_HZ) == 40
    ovs = {"received": 1000, "cycles": 90_000}
    assert _linkless(_counted(Counters(tsc_hz=TSC_HZ, dut=ovs)), TSC_HZ) is None


def test_programs_of_the_kernel() -> None:
    """A sixteenth of 1,600 packets was timed: 100 ns are 200 cycles."""
    dut = {"forward/in": 1600, "forward/acl/denied": 3, "timed": 100, "timed-ns": 10_000}
    ways = _counted(Counters(tsc_hz=TSC_HZ, dut=dut))
    assert (ways["packets"], _cycles(ways, TSC_HZ), _linkless(ways, TSC_HZ)) == (1600, 200, 200)
    assert _way(ways).replace("\u202f", " ") == "each packet through all of it"


def test_vpp() -> None:
    """Its acl looks for sessions first where it has any."""
    node = "acl-plugin-in-ip4-fa"
    dut = {"in/rx": 1000, "out/rx": 0, "cycles": 90_000, f"{node}/existing session packets": 900,
           f"{node}/ACL permit packets": 80, "forward/acl/denied": 20}  # fmt: skip
    ways = _counted(Counters(tsc_hz=TSC_HZ, dut=dut))
    assert (ways["packets"], _cycles(ways, TSC_HZ)) == (1000, 90)
    assert _way(ways).replace("\u202f", " ") == "acl's sessions 90.0 %, acl's rules 10.0 %"
    ways[f"{node}/existing session packets"] = 0
    assert _way(ways) == "each packet through all of it"


def test_as_much_as_could_be_is_one_load() -> None:
    """The sources offer each engine what they can beside it; other loads are asked for."""

    def trial(phase: str, load_pps: float) -> Trial:
        given: Any = {"phase": phase, "load_pps": load_pps, "repetition": 2}
        return Trial.model_construct(**given)

    assert _asked(trial("max", 14.8e6)) == _asked(trial("max", 23.1e6))
    assert _asked(trial("fixed", 1e6)) != _asked(trial("fixed", 2e6))


def test_ratios_are_of_pairs() -> None:
    """A machine that is twice as slow for a pair changes nothing."""
    assert _ratio(at(300, 600, 303), at(200, 400, 202)) == "1.500 (1.500 to 1.500)"
    # Of 2 and 4: sqrt(8), Student's 12.706 times ln(2) / 2 to each side.
    assert _ratio(at(2, 4), at(1, 1)) == "2.828 (0.035 to 231.200)"
    assert _ratio(at(1, 2), at(1)) is None
    # The other's second repetition is missing: its third is still held against the third.
    third = {("max", 0.0, 1): 1.0, ("max", 0.0, 3): 1.0}
    assert _ratio(at(2, 9, 4), third) == "2.828 (0.035 to 231.200)"
