# SPDX-License-Identifier: Apache-2.0
"""Where a packet's time goes between generator and sink (S1 figure 8).

Each VNF's link stamps what is put into it, and its reader's worker knows when it was off its CPU:
so waiting for a VNF is told apart from waiting for the scheduler. The parts are means over the
packets of a trial, and add up to its mean latency: the switch's part is what the others leave.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.record import Anatomy

Json = dict[str, Any]


def anatomy(
    before: Json, after: Json, vnfs: Iterable[tuple[str, str]], mean_ns: float, floor_ns: float
) -> Anatomy | None:
    """`vnfs`: each one's link at the host, and its own, as a merged reading names them."""
    queue = scheduler = stay = back = 0.0
    passed = 0
    for host_link, own_link in vnfs:
        was, now = before["links"].get(own_link, {}), after["links"].get(own_link, {})
        queue += _grown(was, now, "wait", "sum_ns") - _grown(was, now, "off_cpu", "sum_ns")
        scheduler += _grown(was, now, "off_cpu", "sum_ns")
        stay += _grown(was, now, "stay", "sum_ns")
        was, now = before["links"].get(host_link, {}), after["links"].get(host_link, {})
        back += _grown(was, now, "wait", "sum_ns")
        passed += int(_grown(was, now, "wait", "count"))
    received = _received(before, after)
    if not passed or not received:
        return None
    # Per packet that arrived, however many VNFs it went through.
    parts = {
        "generator_ns": min(floor_ns, mean_ns),
        "queue_ns": queue / received,
        "scheduler_ns": scheduler / received,
        "vnf_ns": stay / received,
    }
    rest = mean_ns - sum(parts.values())
    return Anatomy(**parts, switch_ns=max(0.0, rest), of_which_back_ns=back / received,
                   over_ns=max(0.0, -rest))  # fmt: skip


def _grown(was: Json, now: Json, what: str, key: str) -> float:
    return float(now.get(what, {}).get(key, 0) - was.get(what, {}).get(key, 0))


def _received(before: Json, after: Json) -> int:
    """Sinks count anew from a trial's start."""
    return sum(
        int(link["received"]) for link in after["links"].values() if link.get("type") == "sink"
    )
