# SPDX-License-Identifier: Apache-2.0
"""What limits were used, from counters that a NIC of a known traffic has."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.engine.place import Placement
from headrace.engine.plan_document import Plan, PlanEngine
from headrace.ground.hosted.arranged import Hosted
from headrace.ground.hosted.limits_used import limits
from headrace.ground.hosted.parts import NIC, Face, Vnf
from headrace.ground.hosted.sriov import OnNic
from headrace.record.counters import (
    Counters,
    NfReading,
    OutputReading,
    PortReading,
    ReplicaReading,
)
from headrace.record.figures import Figures
from headrace.spec.hosting import Hosting

FRAME, SECONDS, RECEIVED = 105, 2.0, 100_000  # 125 B on the wire: 1000 bits
VNFS = tuple(Vnf(f"vnf1.{n}", (Face("vf", n, n, "s"),), ("x",), (1,), None) for n in (1, 2))


def figures(dropped: dict[str, int], counters: dict[str, int], **changes: Any) -> Figures:
    nic = NfReading(type="veb", packets_in=1, dropped=dropped, counters=counters)
    replica = ReplicaReading(
        segment=NIC, index=0, cpu=0, nfs={NIC: nic}, inputs={"vf1": 110_000, "vf2": 100_000}
    )
    rate = RECEIVED / SECONDS
    fields: dict[str, Any] = {
        "load_pps": rate, "throughput_pps": rate, "throughput_gbps_l1": 0.05,
        "throughput_gbps_l2": 0.04, "offered_pps": rate, "sent_pps": rate, "received_pps": rate,
        "loss_ratio": 0.0, "duration_s": SECONDS,
        "frame_bytes_mean": FRAME, "received": RECEIVED,
        "counters": Counters(tsc_hz=1, replicas=(replica,)),
    }  # fmt: skip
    return Figures(**(fields | changes))


def hosted(nic: OnNic | None = None, **hosting: float) -> Hosted:
    spec = Hosting.model_validate({"kind": "process", **hosting})
    plan = Plan(engine=PlanEngine(), links={}, nfs={}, segments=())
    return Hosted(Placement(0, 0, (), ()), plan, VNFS, spec, "pvvp", nic)


def by_ports(capped: int, full: int) -> Figures:
    """The first VNF wants to send 110,000 packets, of which `full` found no room and `capped` were
    too many for who carries them."""
    tester = ReplicaReading(segment=NIC, index=0, cpu=0, nfs={})
    replicas = (
        ReplicaReading(
            segment=vnf.name, index=0, cpu=1, nfs={}, outputs={"vf": OutputReading(full=lost)}
        )
        for vnf, lost in zip(VNFS, (full, 0), strict=True)
    )
    ports = {
        "vnf1.1:vf": PortReading(tx_packets=110_000 - full, tx_capped=capped),
        "vnf1.2:vf": PortReading(tx_packets=100_000),
        "wire0": PortReading(tx_packets=120_000),
    }
    counters = Counters(tsc_hz=1, replicas=(tester, *replicas), ports=ports)
    return figures({}, {}).model_copy(update={"counters": counters})


def test_a_pvvp_crosses_to_the_host_twice() -> None:
    """100,000 frames of 1000 bits in 2 s: 0.05 Gbit/s by the wire, twice that to the host."""
    bytes_ = {"to-host-bytes": 25_000_000, "from-host-bytes": 24_000_000}
    crossed = figures({"capacity": 7, "filtered": 3}, {**bytes_, "uplink-in-bytes": 12_500_000})
    switch, uplink = limits(crossed, "forward", hosted(switch_gbps=0.2, uplink_gbps=0.1), 1)
    assert (switch.kind, switch.gbps, switch.dropped) == ("switch", 0.2, 7)
    assert [switch.used, switch.crossings] == pytest.approx([0.5, 2])
    assert [uplink.used, uplink.crossings] == pytest.approx([0.5, 1]) and not uplink.dropped


def test_what_came_late_was_not_used_in_time() -> None:
    late = figures({}, {"to-host-bytes": 25_000_000}, throughput_pps=RECEIVED / SECONDS * 0.8)
    assert limits(late, "forward", hosted(switch_gbps=0.2), 1)[0].used == pytest.approx(0.4)


def test_the_licence_that_is_asked_for_most_is_told() -> None:
    [cap] = limits(figures({"in-rate-limit": 9}, {}), "forward", hosted(rate_cap_gbps=0.05), 1)
    assert (cap.kind, cap.place, cap.dropped) == ("rate-cap", "vnf1.1", 9)
    assert cap.used == pytest.approx(1.1)


def test_a_switchs_ports_count_what_a_licence_costs() -> None:
    """What the kernel or Open vSwitch dropped had been sent."""
    [cap] = limits(by_ports(10_000, 0), "forward", hosted(rate_cap_gbps=0.05), 1)
    assert (cap.kind, cap.place, cap.gbps, cap.dropped) == ("rate-cap", "vnf1.1", 0.05, 10_000)
    assert [cap.used, cap.crossings] == pytest.approx([1.1, 1.1])


def test_a_real_nic_takes_no_more_than_a_licence() -> None:
    """What found its function's queue full is lost, and was not sent."""
    nic = OnNic("vfio", (), times=False)
    [cap] = limits(by_ports(0, 10_000), "forward", hosted(nic, rate_cap_gbps=0.05), 1)
    assert (cap.place, cap.dropped) == ("vnf1.1", 10_000)
    assert [cap.used, cap.crossings] == pytest.approx([1.0, 1.0])


def test_of_one_direction_of_two_nothing_is_said() -> None:
    whole = figures({}, {"to-host-bytes": 25_000_000})
    assert limits(whole, "forward", hosted(switch_gbps=0.2), 2) == ()
    assert limits(whole, "both", hosted(switch_gbps=0.2), 2)
    assert limits(whole, "forward", hosted(), 1) == ()
