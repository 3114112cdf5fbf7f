# SPDX-License-Identifier: Apache-2.0
"""Where a wire's packets went, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.engine.accounts import Way, books, settle
from headrace.engine.counts import EngineCounts
from headrace.engine.counts_testdata import counts
from headrace.ground.wired.ground import links_of, memory_of
from headrace.ground.wired.pair import beside, clocks_differ, missing
from headrace.record.counters import PortReading
from headrace.spec import document
from headrace.spec.study import read
from headrace.spec.testbed import Testbed

PORTS = {name: {"device": f"tap:{name}"} for name in ("left", "right", "in", "out")}
WIRED = Testbed.model_validate(
    {"ports": PORTS, "tester": ["left", "right"], "chain": ["in", "out"]}
)
EXTERNAL = Testbed.model_validate(
    {
        "ports": {name: PORTS[name] for name in ("left", "right")},
        "tester": ["left", "right"],
        "dut": "external",
    }
)


def at_tester(sent: int, received: int, missed: int = 0) -> EngineCounts:
    links: dict[str, dict[str, Any]] = {
        "gen": {"type": "source", "sent": sent},
        "sink": {"type": "sink", "own": {"packets": received}},
        "left": {"type": "port", "tx_packets": sent},
        "right": {"type": "port", "rx_packets": received, "rx_missed": missed},
    }
    return counts({"links": links, "workers": {0: {"ref_cycles": 100, "ops_cycles": 30}}})


def at_chain(came: int, left: int, cpu: int = 1) -> EngineCounts:
    links = {
        "in": {"type": "port", "rx_packets": came},
        "out": {"type": "port", "tx_packets": left},
    }
    return counts({"links": links, "workers": {cpu: {"ref_cycles": 90, "ops_cycles": 50}}})


def after(read: EngineCounts, bed: Testbed) -> EngineCounts:
    return read.model_copy(update={"missing": missing(read, bed)})


def dropped(before: EngineCounts, now: EngineCounts) -> tuple[dict[str, int], int]:
    way = Way("forward", now.source("gen"), now.sink("sink"))
    settled = settle(books(before, now), [way], 1)
    return settled.dropped, settled.accounts[0].unknown


def test_each_wire_has_its_own_loss() -> None:
    """The first wire loses 30 of 1000 packets, the chain none, the second wire 20, of which the
    tester's own port counts 5 as missed."""
    before = after(beside(at_tester(0, 0), at_chain(0, 0)), WIRED)
    now = after(beside(at_tester(1000, 950, missed=5), at_chain(970, 970)), WIRED)
    places, unknown = dropped(before, now)
    assert places == {"in/not-received": 30, "right/not-received": 15, "right/rx-missed": 5}
    assert unknown == 0


def test_what_nobody_lost_stays_unknown() -> None:
    """The chain took all, and gave only a part of it on without saying why."""
    before = after(beside(at_tester(0, 0), at_chain(0, 0)), WIRED)
    now = after(beside(at_tester(1000, 900), at_chain(1000, 900)), WIRED)
    assert dropped(before, now) == ({}, 100)


def test_an_external_device_keeps_what_it_does_not_return() -> None:
    before, now = after(at_tester(0, 0), EXTERNAL), after(at_tester(1000, 940), EXTERNAL)
    assert dropped(before, now) == ({"dut/not-returned": 60}, 0)


def test_an_lcore_of_both_is_busy_with_both() -> None:
    shared = beside(at_tester(0, 0), at_chain(0, 0, cpu=0)).workers
    assert {cpu: (one.ref_cycles, one.ops_cycles) for cpu, one in shared.items()} == {0: (100, 80)}
    apart = beside(at_tester(0, 0), at_chain(0, 0)).workers
    assert {cpu: one.ops_cycles for cpu, one in apart.items()} == {0: 30, 1: 50}


def test_findings_of_ports() -> None:
    ports = {
        "left": PortReading(flow_control="off"),
        "right": PortReading(up=False, flow_control="full"),
    }
    link, paused = links_of(ports)
    assert (link.ok, link.text) == (False, "The link of right was down.")
    assert not paused.ok
    assert "right (full)" in paused.text
    assert all(finding.ok for finding in links_of({"left": PortReading()}))


def test_a_virtio_user_port_has_no_hugepages() -> None:
    """Each is a file, and it hands eight over at most. Neither has ovs-dpdk, nor who is held
    against it."""
    for there, engine, hugepages in (
        ("virtio_user", "headrace", False), ("memif", "headrace", "auto"),
        ("memif", "[headrace, ovs-dpdk]", False),
    ):  # fmt: skip
        text = (
            "name: x\nchain: [acl]\ntestbed: {ports: {a: {device: 'vhost:/a'}, "
            f"b: {{device: '{there}:/{there[0]}'}}}}, tester: a, chain: b}}\n"
            f"deployment: {{engine: {engine}}}\n"
        )
        study = read(document.parse(text, Path("x.yaml")))
        assert memory_of(study).hugepages == hugepages


def test_one_clock_that_is_rounded_two_ways() -> None:
    """2595 MHz, measured on two servers, is 2590 or 2600 to DPDK."""
    assert not clocks_differ(2_600_000_000, 2_590_000_000)
    assert clocks_differ(2_600_000_000, 2_580_000_000)
    assert clocks_differ(2_100_000_000, 2_300_000_000)
