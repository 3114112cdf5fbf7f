# SPDX-License-Identifier: Apache-2.0
"""A licence in the words of who keeps it, held against examples of theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.ground.hosted.licence import RateCap, cap_of, check_caps, rate_cap_gbps
from headrace.ground.hosted.ovs_dpdk import policing
from headrace.ground.hosted.parts import Face, Vnf
from headrace.ground.hosted.ports import SwitchPort
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.study import Experiment, expand
from headrace.spec.vm import ApplianceVm

VNF = Vnf("vnf1.1", (Face("vf", 1, 1, "s"),), ("x",), (1,), None)


def experiment(
    cap: str = "0.672", network: str = "ovs-dpdk", frame: str = "64"
) -> tuple[Experiment, Document]:
    text = f"""
name: licensed
chain: [l2fwd]
deployment: {{hosting: {{kind: process, rate_cap_gbps: {cap}}}, network: {network}}}
workload: {{frame: {frame}}}
"""
    doc = document.parse(text, Path("licensed.yaml"))
    [one] = expand(doc)
    return one, doc


def cap(gbps: str = "0.672", frame: str = "64") -> RateCap:
    one = cap_of(VNF, experiment(gbps, frame=frame)[0])
    assert one is not None
    return one


def test_open_vswitchs_policer_counts_ip_packets() -> None:
    """Its manual: a million frames of 64 bytes a second are a CIR of 46,000,000 bytes. On the wire
    they are 84 bytes each."""
    assert 1e6 * 84 * 8 == 0.672e9
    assert cap().policing_kbps == 46_000_000 * 8 / 1000


def test_of_a_mix_its_average_is_taken() -> None:
    """In 64 and 1518 bytes in turn 46 + 1500 of 84 + 1538 are IP packets."""
    mixed = cap("1", frame="{mix: {64: 1, 1518: 1}}")
    assert mixed.policing_kbps == round(1e6 * (46 + 1500) / (84 + 1538))


@pytest.mark.parametrize(
    ("gbps", "frame", "bucket"),
    [("1", "64", 1_250_000), ("0.001", "64", 32 * 84), ("0.01", "1518", 32 * 1538)],
)
def test_the_bucket_has_10_ms_and_a_burst(gbps: str, frame: str, bucket: int) -> None:
    assert cap(gbps, frame).bucket_bytes == bucket


def test_a_port_is_policed_and_the_testers_is_not() -> None:
    port = SwitchPort("vnf1.1", 0, "vf", "02:00:00:00:00:01", "s", cap())
    burst = 0.672e9 * 10e-3 * 46 / 84 / 1000
    assert policing(port) == [
        "ingress_policing_rate=368000", f"ingress_policing_burst={burst:.0f}"
    ]  # fmt: skip
    assert policing(replace(port, owner="", cap=None)) == []


def test_an_appliances_own_licence_goes_before_that_of_all() -> None:
    own = replace(VNF, appliance=ApplianceVm(image="a", rate_cap_gbps=2.5))
    one, _ = experiment("1", "sriov")
    assert rate_cap_gbps(VNF, one.hosting) == 1
    licence = cap_of(own, one)
    assert licence is not None and licence.max_tx_rate == 2500


@pytest.mark.parametrize(
    ("gbps", "network", "allowed"),
    [
        ("0.0001", "ovs-dpdk", "0.0002 to 7843 Gbit/s"),
        ("9000", "ovs-dpdk", "0.0002 to 7843 Gbit/s"),
        ("0.0025", "sriov", "whole Mbit/s"),
        ("0.0001", "sriov", "whole Mbit/s"),
    ],
)
def test_what_a_network_has_no_words_for_is_refused(gbps: str, network: str, allowed: str) -> None:
    one, doc = experiment(gbps, network)
    with pytest.raises(BadInput, match=f"{network}, with a rate_cap_gbps of .*vnf1.1; .*{allowed}"):
        check_caps([VNF], one, doc)
    check_caps([VNF], *experiment(gbps, "veb"))
