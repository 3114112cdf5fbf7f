# SPDX-License-Identifier: Apache-2.0
"""Levels of a hierarchy whose delays are known."""

from __future__ import annotations

from headrace.model.levels import levels, memory
from headrace.spec.calibration import ChasePoint, Curve

KIB, MIB = 1 << 10, 1 << 20
SIZES = [("L1", 32 * KIB), ("L2", 512 * KIB), ("L3", 32 * MIB)]


def curve(delay: dict[int, float], noise: float = 0.0, step: float = 2**0.5) -> Curve:
    """`delay`: up to so many bytes an access takes so long."""
    points, size = [], 8.0 * KIB
    while size <= 256 * MIB:
        cycles = next(c for limit, c in sorted(delay.items()) if size <= limit)
        points.append(
            ChasePoint(bytes=int(size), min=cycles, median=cycles + noise, max=cycles + 9 * noise)
        )
        size *= step
    return Curve(node=0, page_bytes=2 * MIB, points=tuple(points))


# As headrace-calibrate gathers: four times the size at each step.
GATHER = curve({33 * KIB: 3, 530 * KIB: 4, 33 * MIB: 7, 1 << 40: 27}, step=4)


def test_of_an_idle_machine() -> None:
    reached = levels(
        curve({33 * KIB: 4, 530 * KIB: 14, 33 * MIB: 50, 1 << 40: 250}, 3), SIZES, GATHER
    )
    assert [(one.name, one.cycles) for one in reached] == [
        ("L1", 4),
        ("L2", 14),
        ("L3", 50),
        ("memory", 250),
    ]
    assert [one.gather_cycles for one in reached] == [3, 4, 7, 27]
    assert [one.reaches_bytes for one in reached[:3]] == [32 * KIB, 512 * KIB, 32 * MIB]


def test_memory_of_another_node() -> None:
    near = curve({33 * KIB: 4, 530 * KIB: 14, 33 * MIB: 50, 1 << 40: 250})
    far = curve({33 * KIB: 4, 530 * KIB: 14, 33 * MIB: 50, 1 << 40: 420})
    assert memory(far, levels(near, SIZES, GATHER)) == 420


def test_neighbours_have_most_of_the_last_level() -> None:
    reached = levels(curve({33 * KIB: 4, 530 * KIB: 14, 3 * MIB: 50, 1 << 40: 250}), SIZES, GATHER)
    assert reached[2].cycles == 50
    reaches = reached[2].reaches_bytes
    assert reaches is not None and 2 * MIB <= reaches <= 3 * MIB
