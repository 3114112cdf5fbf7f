# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest

from headrace.model.fitting import Unknown, allowed, fitted
from headrace.model.vswitch import SwitchCosts, SwitchedChains, busiest_us, shares, switched_mpps

COSTS = SwitchCosts(0.06, 0.1, 0.6, 0.02, 0.3, 0.01, 1.5)


def chains(cores: int, chains: int, vnfs: int, frame: float = 64, **more: object) -> SwitchedChains:
    return SwitchedChains(cores, chains, vnfs, frame, **more)  # type: ignore[arg-type]


def test_one_core_pays_a_pair_of_ports_and_each_vnf() -> None:
    assert busiest_us(COSTS, chains(1, 1, 1), 0) == pytest.approx(0.06 + 0.1)
    assert busiest_us(COSTS, chains(1, 1, 10), 0) == pytest.approx(0.06 + 10 * 0.1)
    joined = chains(1, 1, 10, joined=True)
    assert busiest_us(COSTS, joined, 0) == pytest.approx(0.06 + 0.1)


def test_two_cores_share_an_even_number_of_vnfs_and_not_an_odd_one() -> None:
    even, odd = shares(COSTS, chains(2, 1, 2), 0), shares(COSTS, chains(2, 1, 1), 0)
    assert even[0] == pytest.approx(even[1]) == pytest.approx((0.06 + 2 * 0.1) / 2)
    assert odd[0] == pytest.approx(0.6 * 0.16 / 2 + 0.4 * 0.16)
    assert odd[1] == pytest.approx(0.6 * 0.16 / 2)


def test_copies_grow_with_the_frame_and_with_what_is_under_way() -> None:
    """298 bytes beyond a line: 0.3 us for 1024 of them."""
    long, copy = chains(1, 1, 1, 362.0), 0.3 * 298 / 1024
    assert busiest_us(COSTS, long, 0) == pytest.approx(0.16 + copy)
    assert busiest_us(COSTS, long, 5) == pytest.approx(0.16 + copy * 1.05)
    rate = switched_mpps(COSTS, long)
    assert rate == pytest.approx(1 / busiest_us(COSTS, long, rate))


def test_a_machine_s_queue_costs_more_for_its_copies_too() -> None:
    machine, copy = chains(1, 1, 1, 362.0, link="vhost"), 0.3 * 298 / 1024
    assert busiest_us(COSTS, machine, 0) == pytest.approx(0.06 + 1.5 * (0.1 + copy))
    assert busiest_us(COSTS, machine, 5) == pytest.approx(0.06 + 1.5 * (0.1 + copy * 1.05))


def test_a_fit_finds_what_made_the_points() -> None:
    draw = random.Random(3)
    points = [(x, (3 + 0.5 * x) * (1 + draw.gauss(0, 0.002))) for x in range(1, 10)]

    def errors(at: object) -> list[float]:
        return [(at["a"] + at["b"] * x) / y - 1 for x, y in points]  # type: ignore[index]

    values = fitted([Unknown("a", 1.0), Unknown("b", 1.0)], errors)
    assert values == {"a": pytest.approx(3, rel=0.02), "b": pytest.approx(0.5, rel=0.02)}
    # What is known beforehand to a thousandth stays there, whatever the points say.
    held = fitted([Unknown("a", 5.0, 0.0001), Unknown("b", 1.0)], errors)
    assert held["a"] == pytest.approx(5, rel=0.01)
    assert allowed(8) == 2
