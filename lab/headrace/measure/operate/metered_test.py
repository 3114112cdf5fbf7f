# SPDX-License-Identifier: Apache-2.0
"""Changes in parts, on a deployment in which the move of a bucket takes as long as 150 packets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headrace.ground.operable import Assignment
from headrace.measure.operate import metered
from headrace.measure.operate.loop import OperateRun, operate
from headrace.measure.operate.metered import part
from headrace.measure.operate.policy_test import RoundModel, RoundOperable, curve
from headrace.spec.operate import Operate, PolicyName, Slo, StepCosts

MOVE_S = 150e-6
RISE = curve((0, 1.5e6), (10, 3.5e6))


def test_a_part_by_hand() -> None:
    """Lcore 0 gives three buckets and lcore 1 two, both to lcore 2; each has time for two."""
    now = Assignment((0, 1), np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    target = Assignment((0, 1, 2), np.array([2, 2, 2, 0, 2, 2, 1, 1]))
    first = part(now, target, np.array([2.0, 2.0, 3.0]))
    assert first.lcores == (0, 1, 2) and list(first.owners) == [2, 2, 0, 0, 2, 1, 1, 1]
    assert list(part(first, target, np.array([2.0, 2.0, 3.0])).owners) == list(target.owners)


def test_an_lcore_goes_with_its_last_bucket() -> None:
    now = Assignment((0, 1), np.array([0, 0, 1, 1]))
    target = Assignment((0,), np.array([0, 0, 0, 0]))
    first = part(now, target, np.ones(2))
    assert first.lcores == (0, 1) and list(first.owners) == [0, 0, 0, 1]
    assert part(first, target, np.ones(2)).lcores == (0,)


def ran(policy: PolicyName) -> OperateRun:
    model = replace(RoundModel(), bucket_s=MOVE_S)
    asked = Operate(
        slo=Slo.model_validate({"p99": 300e-6, "loss": 0}), policy=(policy,), costs=StepCosts()
    )
    operable = RoundOperable(RISE, model, moving_s=MOVE_S)
    return operate(operable, asked, policy, 1, lambda text: None)


@pytest.mark.parametrize("policy", ["headrace", "oracle"])
def test_a_step_in_parts_breaks_no_window(
    policy: PolicyName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets of a busy lcore wait for the moves of its buckets one after the other, where all go
    at once."""
    log = ran(policy).log
    assert [one.lcores_after for one in log.decisions] == [3, 4]
    assert log.operated.broken == 0
    monkeypatch.setattr(metered.MeteredSteps, "begin", lambda self, situation, target, *_: target)
    at_once = ran(policy).log
    assert at_once.operated.broken >= len(at_once.decisions) == 2
    assert at_once.operated.moves == pytest.approx(log.operated.moves, rel=0.1)
