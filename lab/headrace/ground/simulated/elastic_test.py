# SPDX-License-Identifier: Apache-2.0
"""Lcores of a described server that come and go."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from headrace.engine.place import Topology, place
from headrace.errors import BadInput
from headrace.ground.operable import Assignment
from headrace.ground.simulated.elastic import SimulatedOperable
from headrace.ground.simulated.ground import SimulatedDeployed, SimulatedGround, SimulatedPoint
from headrace.ground.simulated.refuse import check_operated
from headrace.ground.simulated.simulated_test import SERVER, server
from headrace.layout.predicted_latency import BURST
from headrace.spec import document
from headrace.spec.study import expand

# A packet alone takes 1080 cycles, one in a full burst 150: so a poll takes 960, and each 120 more.
POLL, EACH, HZ = 960, 120, 1e9
STUDY = """
name: busy
ground: {simulated: {server: round}}
chain: [acl, lb]
deployment: {execution: rtc, lcores: {traffic: [0, 7], chain: [1, 2, 3, 4]}}
workload: {flows: 65536, load: [[0 s, 5.8M], [1 s, 5.8M]]}
measure: {operate: {slo: p99=1ms, buckets: 256, costs: {start: 0 s, share: 25%}}}
"""


def operable(
    folder: Path, text: str = SERVER.replace("poll: [0, x]", "poll: [640, x]"), study: str = STUDY
) -> SimulatedOperable:
    described = server(folder, text)
    doc = document.parse(study, folder / "busy.yaml")
    [one] = expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    check_operated(one, doc, placement, described, described)
    ground = SimulatedGround(described, described, "analytic")
    return SimulatedDeployed(SimulatedPoint(one, doc, ground, placement)).operable()


def test_an_lcore_has_no_more_than_its_time_while_buckets_move(tmp_path: Path) -> None:
    """Near what it carries all its time is the packets'; a move's quarter left them less, and was
    counted on top: it was busy for up to 125 %."""
    of = operable(tmp_path)
    plant = of.plant(1, 1)
    plant.read()
    plant.act(Assignment((0, 1), np.arange(256) % 2))
    moving = 0
    for _ in range(30):
        seen = plant.read()
        moving += seen.moving > 0
        assert float(seen.busy.max()) <= 1 + 1e-9
        # What was done fits the time that it is said to have taken, in bursts of no more than 32.
        cycles = seen.done * (POLL / seen.burst + EACH)
        assert float(seen.burst.max()) <= BURST + 1e-9
        assert np.all(cycles <= seen.busy * seen.seconds * HZ + POLL + EACH)
    assert moving >= 2
    totals = plant.totals()
    assert totals.offered == totals.done + totals.dropped + totals.queued


def test_less_time_for_packets_is_more_of_them_in_each_poll(tmp_path: Path) -> None:
    """By hand: 0.5 Mpps one by one are busy for 54 % of the time; where there are but 30 %, each
    has 600 cycles, which is what two take that come together."""
    model = operable(tmp_path).model
    pps = np.array([5e5])
    assert float(model.busy(1, pps)[0]) == pytest.approx(0.54)
    assert float(model.busy(1, pps, free=0.3)[0]) == pytest.approx(0.3)
    assert float(model.burst_all(pps, 0.3)[0]) == pytest.approx(2.0)


# Each packet goes twice to entries of 64 B, of which L1 holds 512: all of 256 flows'.
STATE = SERVER.replace("poll: [0, x]}", "poll: [0, x], accesses: [1, x], bytes_per_entry: [64, x]}")
BESIDE = STUDY.replace("65536", "256").replace("{operate: {", "{operate: {neighbour: NEIGHBOUR, ")


def test_a_neighbour_in_the_cache_makes_packets_dearer_while_it_is_there(tmp_path: Path) -> None:
    """By hand: 150 cycles with two accesses that L1 answers. With half of it gone half of them are
    memory's, which takes 19 more: 169."""
    study = BESIDE.replace("NEIGHBOUR", "[[0.3 s, 50%], [0.6 s, 0]]").replace("5.8M", "6.2M")
    of = operable(tmp_path, STATE, study)
    (begins, slower), ends = of.slower
    assert slower == pytest.approx(169 / 150)
    assert begins == 0.3 and ends == (0.6, 1.0)
    plant = of.plant(1, 1)
    lost = {}
    while not plant.ended:
        seen = plant.read()
        lost[round(seen.begin_s, 2)] = seen.dropped
    there = sum(many for at, many in lost.items() if 0.3 <= at < 0.6)
    # 1 GHz / 169 are 5.92 Mpps of 6.2, and 1 GHz / 150 are 6.67; the ring takes up some.
    assert there == pytest.approx(0.3 * (6.2e6 - 1e9 / 169) - of.room, rel=0.02)
    assert sum(lost.values()) == there


@pytest.mark.parametrize(
    ("text", "neighbour", "words"),
    [
        (SERVER, "[[0 s, 50%]]", "how often acl goes to its state; covered: delay, l2fwd, null"),
        (STATE, "[[1 s, 50%], [1 s, 0]]", "1 s follows 1 s; allowed: times that ascend"),
        (STATE, "[[1 s, 100%]]", "less than 1"),
    ],
)
def test_a_neighbour_that_cannot_be_predicted_is_told_by_its_key(
    tmp_path: Path, text: str, neighbour: str, words: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(words)) as told:
        operable(tmp_path, text, BESIDE.replace("NEIGHBOUR", neighbour))
    assert "measure.operate" in str(told.value)
