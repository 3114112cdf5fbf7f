# SPDX-License-Identifier: Apache-2.0
"""What the comparison of offloaded forwarding says of its figures."""

from __future__ import annotations

import pytest

from headrace.analyse.offload import MAX, offload_modes, remarks, verdicts
from headrace.measure.audit import audit
from headrace.measure.doubts import unrefused
from headrace.record.facts import Facts
from headrace.record.rows import Bounds, Goal, Result
from headrace.record.verdict import Audit

OK = Audit(verdict="ok")


def row(mode: str, goal: str, pps: float, repetition: int = 1, judged: Audit = OK) -> Result:
    bounds, parameters = None, None
    if goal != MAX:
        bounds = Bounds(lower_pps=pps, upper_pps=pps * 1.01, stopped_by="width")
        parameters = Goal(
            name=goal, loss_ratio=1e-5, exceed_ratio=0.5, final_trial_s=1, duration_sum_s=3,
            width=0.05,
        )  # fmt: skip
    return Result(
        chain="o", direction="forward", repetition=repetition, execution=mode, workload="64B",
        load_pps=pps, throughput_pps=pps, throughput_gbps_l1=0, throughput_gbps_l2=0,
        offered_pps=pps, sent_pps=pps, received_pps=pps, loss_ratio=0, audit=judged, goal=goal,
        goal_parameters=parameters, bounds=bounds,
    )  # fmt: skip


@pytest.mark.parametrize(("part", "verdict"), [(0.95, "met"), (0.9499, "missed")])
def test_verdicts(part: float, verdict: str) -> None:
    rows = [
        row(mode, MAX, pps, repetition)
        for repetition, faster in ((1, 1.0), (2, 1.1), (3, 0.95))
        for mode, pps in (("bare-metal", 2e6 * faster), ("offload", 2e6 * faster * part))
    ]
    [line] = verdicts(offload_modes(rows))
    assert line.startswith("offload, saturation: 0.95 of bare metal's")
    assert line.endswith(f"(goal 0.95: {verdict})")


@pytest.mark.parametrize("doubted", ["bare-metal", "offload"])
def test_a_goal_that_doubtful_rows_meet_says_so(doubted: str) -> None:
    """Either side's; those of a mode that it is not held against are nothing to it."""
    doubtful = Audit(verdict="suspect")
    rows = [
        row(mode, MAX, pps, repetition, doubtful if mode in (doubted, "ovs-dpdk") else OK)
        for repetition in (1, 2)
        for mode, pps in (("bare-metal", 2e6), ("offload", 2e6), ("ovs-dpdk", 1e6))
    ]
    [line] = verdicts(offload_modes(rows))
    assert line.endswith("(goal 0.95: met, by measurements that the audit doubts)")
    trusted = [one.model_copy(update={"audit": OK}) for one in rows if one.execution != "ovs-dpdk"]
    aside = [one for one in rows if one.execution == "ovs-dpdk"]
    [line] = verdicts(offload_modes([*trusted, *aside]))
    assert line.endswith("(goal 0.95: met)")


def test_each_is_compared_with_what_was_measured_beside_it() -> None:
    """A machine that is half as fast for a while is so for both."""
    rows = [
        row(mode, MAX, pps * faster, repetition)
        for repetition, faster in ((1, 1.0), (2, 0.5), (3, 0.5))
        for mode, pps in (("bare-metal", 2e6), ("offload", 1.8e6))
    ]
    _, offload = offload_modes(rows)
    [rate] = offload.rates
    assert rate.of_bare_metal == pytest.approx(0.9)
    assert rate.spread == pytest.approx(1.0)


def test_goals_have_verdicts_of_their_own() -> None:
    rows = [
        row("offload", MAX, 6e6), row("conventional-poll", MAX, 1e6),
        row("conventional-interrupt", MAX, 0.5e6),
        row("offload", "ndr", 4e6), row("conventional-poll", "ndr", 1e6),
    ]  # fmt: skip
    lines = list(verdicts(offload_modes(rows)))
    assert [line.split(":")[0] for line in lines] == ["offload, saturation", "offload, ndr"]
    assert [line.partition("(goal 5: ")[2] for line in lines] == [
        "met, by a single measurement)", "missed, by a single measurement)",
    ]  # fmt: skip


def test_what_the_generator_limited_is_marked() -> None:
    limited = unrefused(audit(Facts(sent=100, received=100, lost=0)), 0, 100)
    [mode] = offload_modes([row("offload", MAX, 2e6, judged=limited)])
    assert mode.rates[0].generator_bound
    assert len(list(remarks([mode]))) == 1
    assert not list(remarks(offload_modes([row("offload", MAX, 2e6)])))


def test_what_the_audit_says_of_trials_is_said() -> None:
    lazy = audit(Facts(sent=95, received=95, lost=0, asked=100))
    rows = [row("offload", MAX, 2e6), row("offload", "fixed", 1e5, judged=lazy)]
    [line] = remarks(offload_modes(rows))
    assert line == (
        "offload: generator-bound, 1 of 2 trials: The source could not make 5 of 100 packets in "
        "time (5.000%)."
    )
