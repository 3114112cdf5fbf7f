# SPDX-License-Identifier: Apache-2.0
"""How a VNF's `cpus` are shared out between its threads, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadInput
from headrace.ground.appliances import feasible
from headrace.ground.appliances.expanded import expand_study
from headrace.ground.appliances.forwarding import share_out
from headrace.spec import document


def settle(cpus: float, wanted: list[float]) -> list[float]:
    """After two seconds of a load that wants so much of each thread."""
    budgets = [cpus / len(wanted)] * len(wanted)
    for _ in range(40):
        used = [min(b, w) for b, w in zip(budgets, wanted, strict=True)]
        budgets = share_out(cpus, budgets, used)
    return budgets


def test_one_direction_gets_what_the_other_leaves() -> None:
    many, few = settle(0.1, [1.0, 0.004])
    assert many == pytest.approx(0.095) and few == pytest.approx(0.005)  # a tenth of its half
    assert settle(0.1, [1.0, 0.02])[1] == pytest.approx(0.025)
    assert settle(1.0, [1.0, 1.0]) == pytest.approx([0.5, 0.5])


@given(
    st.floats(0.01, 2),
    st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 1)), min_size=1, max_size=6),
)
def test_the_sum_is_the_quota(cpus: float, threads: list[tuple[float, float]]) -> None:
    total = sum(part for part, _ in threads)
    budgets = [cpus * part / total for part, _ in threads]
    used = [b * share for b, (_, share) in zip(budgets, threads, strict=True)]
    new = share_out(cpus, budgets, used)
    assert sum(new) == pytest.approx(cpus) and min(new) > 0


@pytest.mark.parametrize(
    ("network", "given", "says"),
    [
        (
            "macvlan",
            "cpus: 0.5",
            r"deployment\.hosting\.vnfs\.nat\.cpus: the kernel forwards for nat, and on macvlan",
        ),
        (
            "bridge",
            'cpus: 0.5, cpuset: "0"',
            r"deployment\.hosting\.vnfs\.nat\.cpuset: .*allowed: `cpus` or `cpuset`",
        ),
        (
            "bridge",
            "cpus: 1",
            r"vnfs\.nat\.cpus: .* ask for 1 CPUs together; allowed: at most 0\.95",
        ),
    ],
)
def test_what_the_kernel_cannot_hold_is_refused(
    network: str, given: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feasible, "reservable", lambda: 0.95)
    file = tmp_path / "s.yaml"
    file.write_text(
        f"name: s\nchain: [nat]\ndeployment: {{hosting: {{kind: appliances, network: {network}, "
        f"vnfs: {{nat: {{{given}}}}}}}}}\n"
    )
    [point] = expand_study(document.load(file)).points
    with pytest.raises(BadInput, match=says):
        feasible.check_kernel(point)


def test_a_process_keeps_both(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: s\nchain: [l4-lb]\ndeployment: {hosting: {kind: appliances, network: macvlan, "
        'vnfs: {l4-lb: {cpus: 1, cpuset: "0"}}}}\n'
    )
    [point] = expand_study(document.load(file)).points
    feasible.check_kernel(point)
