# SPDX-License-Identifier: Apache-2.0
"""Which lcores of a tester with ports of its own make packets, and which measure them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.place import place
from headrace.engine.plan_document import PlanInput, PlanSegment
from headrace.errors import BadInput
from headrace.ground.wired.wiring import _links
from headrace.spec import document
from headrace.spec.study import expand
from headrace.spec.testbed import Device, Testbed

PORTS = {name: {"device": f"af_packet:{name}"} for name in ("left", "right")}
BED = Testbed.model_validate({"ports": PORTS, "tester": ["left", "right"], "dut": "external"})
SPEC = """
name: several
chain: []
testbed:
  ports: {{left: {{device: "tap:l"}}, right: {{device: "tap:r"}}}}
  tester: [left, right]
  dut: external
deployment: {{lcores: {lcores}}}
workload: {{direction: {direction}}}
"""


def placed(lcores: str, direction: str = "forward") -> tuple[tuple[int, ...], tuple[int, ...]]:
    doc = document.parse(SPEC.format(lcores=lcores, direction=direction), Path("x.yaml"))
    [experiment] = expand(doc)
    one = place(experiment, doc, [*range(8)])
    assert (one.generator, one.sink) == (one.making[0], one.measuring[-1])
    assert one.cpus >= {*one.making, *one.measuring}
    return one.making, one.measuring


@pytest.mark.parametrize(
    ("lcores", "making", "measuring"),
    [
        ("{traffic: [2, 3, 4]}", (2,), (4,)),
        ("{traffic: [2, 3, 4], generators: 1}", (2,), (3, 4)),
        ("{traffic: [2, 3, 4], generators: 2}", (2, 3), (4,)),
        ("{traffic: [2, 3], generators: 2}", (2, 3), (2, 3)),
    ],
)
def test_the_first_ones_make(
    lcores: str, making: tuple[int, ...], measuring: tuple[int, ...]
) -> None:
    assert placed(lcores) == (making, measuring)


def test_both_ways_as_many_measure_as_make() -> None:
    """A packet socket's queues take their part of what comes, whether they are read or not."""
    assert placed("{traffic: [2, 3, 4, 5], generators: 2}", "both") == ((2, 3), (4, 5))
    with pytest.raises(BadInput, match="generators: 2, and 1 that measure, with traffic both ways"):
        placed("{traffic: [2, 3, 4], generators: 2}", "both")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SPEC.format(lcores="{generators: 1}", direction="forward"), "generators: 1 of 0 lcores"),
        (
            SPEC.format(lcores="{traffic: [1], generators: 2}", direction="forward"),
            "generators: 2 of 1 lcores",
        ),
        (
            "name: x\nchain: [l2fwd]\ndeployment: {lcores: {traffic: [0], generators: 1}}\n",
            "generators: is of a tester with ports of its own; got no testbed",
        ),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        list(expand(document.parse(text, Path("x.yaml"))))


def test_a_port_has_a_queue_for_each_of_its_users() -> None:
    """Who writes needs one, too: a virtual device has as many each way."""
    devices = {name: Device("af_packet", name) for name in PORTS}
    segments = (
        PlanSegment(
            name="generator", cpus=(0, 1, 2), inputs=(PlanInput(link="gen", to="link:left"),)
        ),
        PlanSegment(name="sink", cpus=(3, 4), inputs=(PlanInput(link="right", to="link:sink"),)),
    )
    links = _links(("left", "right"), BED, devices, segments, listens=True)
    queues = {name: str(link.params["devargs"]).split(",")[2] for name, link in links.items()}
    assert queues == {"left": "qpairs=3", "right": "qpairs=2"}


def test_libpcap_has_one_queue() -> None:
    """Each of several handles would get every packet."""
    devices = {"left": Device("pcap", "ens1"), "right": Device("pcap", "ens2")}
    making = PlanSegment(name="generator", cpus=(0,), inputs=(PlanInput(link="g", to="link:left"),))
    measuring = PlanSegment(
        name="sink", cpus=(1,), inputs=(PlanInput(link="right", to="link:sink"),)
    )
    links = _links(("left", "right"), BED, devices, (making, measuring), listens=True)
    assert links["right"].params["devargs"] == "net_pcap1,rx_iface_in=ens2,tx_iface=ens2"
    two = measuring.model_copy(update={"cpus": (1, 2)})
    with pytest.raises(BadInput, match=r"right.*pcap:ens2.*one queue, and 2 lcores share it"):
        _links(("left", "right"), BED, devices, (making, two), listens=True)
