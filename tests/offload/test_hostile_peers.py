# SPDX-License-Identifier: Apache-2.0
"""Routing peers that mean harm: whatever one says, another's routes are learnt and withdrawn as if
it said nothing, and the engine answers. What exactly it costs: `make bench BENCH_ARGS=hostile`."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from support.engine import Engine
from support.route_attacks import (
    ATTACKS,
    announced_s,
    attacked,
    free_ports,
    plan,
    routes_of,
)

Start = Callable[..., Engine]
ROUTES = 20_000
SLACK_S = 0.5  # a busy machine stops a process for so long


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_routes_of_one_do_not_wait_for_anothers(
    start_engine: Start, cpus: list[int], attack: Callable[[socket.socket], Iterator[bytes]]
) -> None:
    ports = free_ports(2)
    with start_engine(plan(cpus[0], ports)) as engine:
        alone = [announced_s(engine, ports[1], 1, ROUTES) for _ in range(3)]
        with attacked(ports[0], attack):
            beside = [announced_s(engine, ports[1], 1, ROUTES) for _ in range(3)]
            began = time.monotonic()
            assert routes_of(engine, 0) > 0
            answered = time.monotonic() - began
        for what in range(2):  # announced, withdrawn: milliseconds each, on a quiet machine
            usual, found = (sorted(one[what] for one in times)[1] for times in (alone, beside))
            assert found < 3 * usual + SLACK_S, (what, alone, beside)
        assert answered < SLACK_S
