# SPDX-License-Identifier: Apache-2.0
"""Shares of what a PMU counted: how long a core waited, and where its loads were served from."""

from __future__ import annotations

from collections.abc import Mapping

STALLED = "stalled_cycles"
# Those of them in which a load was waited for that the first, second or last level did not have.
STALLED_BEHIND = ("stalled_l1_miss", "stalled_l2_miss", "stalled_l3_miss")
# Loads that the first two levels did not have, by where their line was; not every processor tells
# all of them apart.
BEYOND = ("loads_llc", "loads_other", "loads_memory")


def memory_bound(counted: Mapping[str, float]) -> float | None:
    """Zheng et al.'s figure 7: the share of cycles in which the core waits."""
    if STALLED not in counted or counted.get("cycles", 0.0) <= 0:
        return None
    return min(1.0, counted[STALLED] / counted["cycles"])


def stalled_for(counted: Mapping[str, float]) -> dict[str, float] | None:
    """Zheng et al.'s figure 7: shares of all cycles that wait for the second and the last level,
    and for memory. None where the processor does not tell them apart."""
    if not set(STALLED_BEHIND) <= set(counted) or counted.get("cycles", 0.0) <= 0:
        return None
    l1, l2, l3 = (counted[name] / counted["cycles"] for name in STALLED_BEHIND)
    return {"L2": l1 - l2, "L3": l2 - l3, "memory": l3}


def not_from_memory(counted: Mapping[str, float]) -> float | None:
    """Share of the loads which the core's own caches did not have that memory did not serve:
    Sieber et al.'s Network Efficiency Index, over all that the lcore loads."""
    beyond = {name: counted[name] for name in BEYOND if name in counted}
    total = sum(beyond.values())
    return 1 - beyond["loads_memory"] / total if total > 0 and "loads_memory" in beyond else None
