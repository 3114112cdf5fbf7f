# SPDX-License-Identifier: Apache-2.0
"""Routing peers that mean harm: whatever one says, another's routes are learnt and withdrawn as if
it said nothing, and the engine answers. What exactly it costs: `make bench BENCH_ARGS=hostile`."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from support.engine import Engine
from support.fpm import frames, route
from support.route_attacks import (
    ATTACKS,
    announced_s,
    announces_again,
    attacked,
    comes_and_goes,
    forwards,
    free_ports,
    plan,
    routes_of,
    sessions_of,
    updates_of,
)

Start = Callable[..., Engine]
ROUTES = 20_000
SLACK_S = 0.5  # a busy machine stops a process for so long
SESSIONS_A_SECOND = 50
SPOKE_S = 6.0  # alone: had of the thread's time 4.5 s more than who was silent
STALL_S = 2.5  # who breaks a silence is a second ahead at most; machines stop now and then


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
            usual, meanwhile = (sorted(one[what] for one in times)[1] for times in (alone, beside))
            assert meanwhile < 3 * usual + SLACK_S, (what, alone, beside)
        assert answered < SLACK_S


def test_sessions_without_an_end_are_let_in_so_often(start_engine: Start, cpus: list[int]) -> None:
    """Who comes next is let in all the same."""
    ports = free_ports(2)
    with start_engine(plan(cpus[0], ports)) as engine:
        with attacked(ports[0], comes_and_goes):
            began, before = time.monotonic(), sessions_of(engine, 0)
            engine.wait_for(lambda: sessions_of(engine, 0) > before + 150, "150 sessions", 60, 0)
            came, took = sessions_of(engine, 0) - before, time.monotonic() - began
        assert came <= 1 + SESSIONS_A_SECOND * took
        with socket.create_connection(("127.0.0.1", ports[0])) as next_one:
            next_one.sendall(frames([route("60.0.0.0/24", "10.0.0.2")]))
            engine.wait_for(lambda: forwards(engine, 0, "60.0.0.1"), "the next one's route", 60)


def test_who_was_silent_is_a_second_ahead_at_most(start_engine: Start, cpus: list[int]) -> None:
    """It had the thread for as long as others had had it: those that send stood still meanwhile."""
    ports = free_ports(2)
    with start_engine(plan(cpus[0], ports)) as engine, attacked(ports[1], announces_again):
        time.sleep(SPOKE_S)
        with attacked(ports[0], announces_again):
            longest, came, since = 0.0, updates_of(engine, 1), time.monotonic()
            until = since + SPOKE_S + 1  # by then it is paid for, if it is
            while time.monotonic() < until:
                time.sleep(0.02)
                now, updates = time.monotonic(), updates_of(engine, 1)
                if updates > came:
                    came, since = updates, now
                longest = max(longest, now - since)
        assert longest < STALL_S
