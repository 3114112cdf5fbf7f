# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.model.scaled import WorkingSet, busiest_share, scaled, wait
from headrace.spec.described import DescribedFunction, DescribedServer

KIB = 1024


def server(llc_kib: int = 8192, **more: Any) -> DescribedServer:
    level = {"gather_cycles": [1, "x"]}
    return DescribedServer.model_validate(
        {
            "name": "one",
            "sources": {"x": {"kind": "assumed", "text": "a test"}},
            "clock_mhz": [1000, "x"],
            "sockets": 2,
            "cores_per_socket": 4,
            "levels": [
                {"name": "L1", "kib": [32, "x"], "cycles": [4, "x"], **level},
                {"name": "L2", "kib": [1024, "x"], "cycles": [14, "x"], **level},
                {"name": "L3", "kib": [llc_kib, "x"], "shared_by": 4, "cycles": [50, "x"], **level},
                {"name": "memory", "cycles": [250, "x"], **level},
            ],
            **more,
        }
    )


COST = DescribedFunction.model_validate(
    {name: [10, "x", "10%"] for name in ("base", "rx", "tx", "hand_over", "loop", "poll")}
    | {"accesses": [2, "x"], "bytes_per_entry": [64, "x"], "overlapped": False}
)


def test_a_working_set_waits_for_the_level_that_holds_it() -> None:
    """Two accesses; half of 2 MiB misses a second level of 1 MiB, and 31/32 of it the first."""
    sets = [WorkingSet(0, 2048 * KIB)]
    by_hand = 2 * (2016 / 2048 * (14 - 4) + 0.5 * (50 - 14))
    assert wait(server(), COST, 0, sets) == pytest.approx(by_hand)
    assert wait(server(), COST, 0, [WorkingSet(0, 16 * KIB)]) == 0


def test_lcores_of_one_last_level_cache_crowd_each_other_and_others_do_not() -> None:
    own = WorkingSet(0, 6144 * KIB)
    alone = wait(server(), COST, 0, [own])
    assert wait(server(), COST, 0, [own, WorkingSet(1, 6144 * KIB)]) > alone
    assert wait(server(), COST, 0, [own, WorkingSet(4, 6144 * KIB)]) == alone  # another socket
    # Replicas that read one table have it in their cache once.
    shared = [WorkingSet(cpu, 6144 * KIB, "fib") for cpu in (0, 1, 2)]
    assert wait(server(), COST, 0, shared) == alone


def test_twice_the_last_level_cache_moves_the_knee_by_as_much() -> None:
    """The state at which a tenth of what memory costs at most is waited for (Zheng et al. 2019,
    figure 6)."""

    def knee(llc_kib: int) -> int:
        return next(
            kib
            for kib in range(1024, 65536, 64)
            if wait(server(llc_kib), COST, 0, [WorkingSet(0, kib * KIB)]) > 2 * (46 + 0.1 * 200)
        )

    assert knee(16384) / knee(8192) == pytest.approx(2, rel=0.05)


def test_only_what_waits_depends_on_the_server() -> None:
    small = scaled(server(), server(1024), COST, 0, [WorkingSet(0, 4096 * KIB)])
    large = scaled(server(), server(8192), COST, 0, [WorkingSet(0, 4096 * KIB)])
    assert small.base == large.base == 10
    assert small.wait > large.wait
    most = scaled(server(), server(), COST, 0, [], corner=1.0)
    assert most.base == pytest.approx(11)


def test_handing_over_goes_by_how_long_a_line_takes() -> None:
    far = server(transfer_cycles=[200, "x"])
    near = server(transfer_cycles=[50, "x"])
    assert scaled(near, far, COST, 0, []).far == pytest.approx(40)
    assert scaled(near, server(), COST, 0, []).far == 10  # nothing is known of it


@pytest.mark.parametrize(("flows", "replicas"), [(90, 18), (4096, 4), (1000, 2), (100_000, 18)])
def test_the_busiest_replica_has_what_drawing_at_random_gives_it(flows: int, replicas: int) -> None:
    draw = random.Random(1)
    shares = []
    for _ in range(60 if flows < 10_000 else 8):
        counts = [0] * replicas
        for _ in range(flows):
            counts[draw.randrange(replicas)] += 1
        shares.append(max(counts) / flows)
    assert busiest_share(flows, replicas, False) == pytest.approx(
        sum(shares) / len(shares), rel=0.06
    )
    assert busiest_share(flows, replicas, True) == -(-flows // replicas) / flows
