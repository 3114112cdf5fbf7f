# SPDX-License-Identifier: Apache-2.0
"""Weights of VNFs that share an lcore, by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headrace.engine.ways import Direction
from headrace.errors import BadInput
from headrace.ground.hosted.arrangement import arrange
from headrace.ground.hosted.cpus import Cpu
from headrace.ground.hosted.parts import Face, Vnf
from headrace.ground.hosted.shares import ShareLook, needed, weighed
from headrace.spec import document
from headrace.spec.study import expand

BOTH: tuple[Direction, ...] = ("forward", "reverse")


def vnf(name: str, *vfs: int, lcores: tuple[int, ...] = (1,)) -> Vnf:
    faces = tuple(Face(f"f{vf}", vf, vf, "s") for vf in vfs)
    return Vnf(name, faces, ("x",), lcores, None)


def look(
    at_s: float, came: Mapping[int, int], taken: Mapping[int, int], sent: Mapping[int, int],
    **cpu_s: float,
) -> ShareLook:  # fmt: skip
    """Packets by the number of the virtual function."""
    one, two, three = ({f"vf{vf}": n for vf, n in each.items()} for each in (came, taken, sent))
    return ShareLook(at_s, one, two, three, cpu_s)


NOTHING = look(0.0, {}, {}, {}, a=0.0, b=0.0)


def test_who_gets_fewer_packets_than_come_to_the_chain_needs_time_for_all_of_them() -> None:
    """In half a second 100 packets come. a does 50 of them in 0.1 s of its time, and b 30 of these
    50 in 0.18 s: 2 ms and 6 ms for each. For 200 packets/s they need 0.4 and 1.2 s of a second."""
    chain = [vnf("a", 1), vnf("b", 2)]
    now = look(0.5, {1: 100, 2: 50}, {1: 50, 2: 30}, {1: 50, 2: 30}, a=0.1, b=0.18)
    needs = needed(NOTHING, now, [chain], ["forward"])
    assert needs == pytest.approx({"a": 0.4, "b": 1.2})
    assert weighed(chain, needs) == {"a": 333, "b": 1000}


def test_what_a_function_drops_as_it_is_meant_to_does_not_come_to_the_next_one() -> None:
    """a denies four of five: b needs time for 40 packets/s of 200."""
    chain = [vnf("a", 1), vnf("b", 2)]
    now = look(0.5, {1: 100, 2: 20}, {1: 100, 2: 20}, {1: 20, 2: 20}, a=0.1, b=0.06)
    assert needed(NOTHING, now, [chain], ["forward"]) == pytest.approx({"a": 0.2, "b": 0.12})


def test_chains_beside_each_other_have_their_own_rates() -> None:
    """Costs of 1 and 3 ms at 100 packets/s each, though b did only a third of what came to it."""
    a, b = vnf("a", 1), vnf("b", 2)
    now = look(1.0, {1: 100, 2: 100}, {1: 100, 2: 33}, {1: 100, 2: 33}, a=0.1, b=0.099)
    needs = needed(NOTHING, now, [[a], [b]], ["forward"])
    assert needs == pytest.approx({"a": 0.1, "b": 0.3})


def test_both_ways_are_added() -> None:
    """Forward 100 packets/s come by a's left, reverse 50 by b's right; all cost 1 ms."""
    chain = [vnf("a", 1, 2), vnf("b", 3, 4)]
    came = {1: 100, 2: 50, 3: 100, 4: 50}
    now = look(1.0, came, came, {2: 100, 1: 50, 4: 100, 3: 50}, a=0.15, b=0.15)
    assert needed(NOTHING, now, [chain], BOTH) == pytest.approx({"a": 0.15, "b": 0.15})


def test_who_had_no_packet_keeps_its_weight() -> None:
    chain = [vnf("a", 1), vnf("b", 2)]
    now = look(1.0, {1: 10}, {1: 10}, {}, a=0.1, b=0.0)
    assert weighed(chain, needed(NOTHING, now, [chain], ["forward"])) == {"a": 1000}


def test_weights_are_among_those_on_the_same_lcore() -> None:
    """No weight is nothing, which the kernel does not have."""
    every = [vnf("a", 1), vnf("b", 2), vnf("c", 3, lcores=(2,)), vnf("d", 4, lcores=(2,))]
    needs = {"a": 1.0, "b": 4.0, "c": 1e-6, "d": 0.01}
    assert weighed(every, needs) == {"a": 250, "b": 1000, "c": 1, "d": 1000}


def refused(hosting: str, network: str = "veb", measure: str = "{loads: [20k]}") -> str:
    text = f"""
name: shares
chain: [l2fwd, 'null']
deployment:
  hosting: {hosting}
  execution: pipeline
  network: {network}
measure: {measure}
"""
    with pytest.raises(BadInput) as told:
        doc = document.parse(text, Path("shares.yaml"))
        [one] = expand(doc)
        arrange(one, doc, [0, 1], lambda cpu: Cpu(cpu, (0, cpu), 0))
    return str(told.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["{kind: process, shares: [1, 2, 3]}"], ["3 weights for a chain of 2", "one for each"]),
        (["{kind: process, shares: [1, 0]}"], ["shares: got [1, 0]", "each VNF", "0.01 to 100"]),
        (["{kind: process, shares: fair}"], ["shares: got 'fair'", "rate-cost"]),
        (["{kind: process, shares: []}"], ["shares: got []", "rate-cost"]),
        (["{shares: [1, 2]}"], ["shares", "inline", "process, container, vm"]),
        (["{kind: process, wait: poll, shares: rate-cost}"], ["wait poll", "adaptive"]),
        (["{kind: vm, shares: rate-cost}"], ["kind vm", "process or container"]),
        (["{kind: process, shares: rate-cost}", "bridge"], ["network bridge", "veb, vepa"]),
        (
            ["{kind: process, shares: rate-cost}", "veb", "{loads: [20k], chaos: {every: 1 s}}"],
            ["shares", "measure.chaos", "a weight for each"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_weighed_is_refused_in_one_line(
    given: Sequence[str], words: Sequence[str]
) -> None:
    told = refused(*given)
    assert all(word in told for word in words) and "\n" not in told
