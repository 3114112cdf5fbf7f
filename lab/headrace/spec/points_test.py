# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spec import document
from headrace.spec.points import Group, Machine, PointsFile, points
from headrace.spec.study import Study

STUDIES = sorted((Path(__file__).parents[3] / "studies").glob("s[12]-hosting/points.yaml"))


def load(file: Path) -> PointsFile:
    return PointsFile.model_validate(document.load(file).data)


@pytest.mark.parametrize("file", STUDIES, ids=lambda f: f.parent.name)
def test_every_point_is_a_spec_or_says_why_not(file: Path) -> None:
    found = list(points(load(file), Machine(lcores=2, nodes=1)))
    assert len({point.name for point in found}) == len(found)
    for point in found:
        assert point.skipped or Study.model_validate(point.spec)
    large = list(points(load(file), Machine(lcores=64, nodes=2)))
    assert sum(p.skipped is None for p in large) > sum(p.skipped is None for p in found)
    for point in large:
        if point.skipped is None:
            Study.model_validate(point.spec)


def test_overlay_and_needs() -> None:
    made = PointsFile.model_validate(
        {
            "name": "p", "paper": "S1",
            "base": {"deployment": {"hosting": {"kind": "process", "wait": "poll"}}},
            "groups": {
                "g": {
                    "about": "x",
                    "spec": {"chain": ["null"], "deployment": {"network": "vepa"}},
                    "sweep": {"deployment.hosting.placement": ["numa-aware", "worst"]},
                    "needs": [{"when": {"deployment.hosting.placement": "worst"}, "nodes": 2}],
                }
            },
        }
    )  # fmt: skip
    near, far = points(made, Machine(lcores=2, nodes=1))
    assert near.skipped is None
    assert near.spec["deployment"] == {
        "hosting": {"kind": "process", "wait": "poll", "placement": "numa-aware"},
        "network": "vepa",
    }
    assert far.skipped == "needs 2 NUMA nodes, this machine has 1"
    assert not list(points(made, Machine(2, 1), wanted="other"))


@pytest.mark.parametrize(
    ("paper", "figures"), [("s1", {*range(2, 9), 10, 11}), ("s2", {*range(7, 18)})]
)
def test_every_figure_has_rows(paper: str, figures: set[int]) -> None:
    """Those that the papers have results or settings in."""
    [file] = [load(one) for one in STUDIES if one.parent.name == f"{paper}-hosting"]
    assert all(group.figures for group in file.groups.values())
    assert set().union(*(group.numbers for group in file.groups.values())) == figures
    for number in figures:
        rows = list(points(file, Machine(lcores=64, nodes=2), figure=number))
        assert rows and all(number in file.groups[row.group].numbers for row in rows)


def test_machines_need_kvm() -> None:
    [file] = [load(one) for one in STUDIES if one.parent.name == "s1-hosting"]
    large = Machine(64, 2)
    there = {
        p.values["deployment.hosting.chains"]: p.skipped for p in points(file, large, "machines")
    }
    assert there[31] is None and "31 virtual machines at most" in str(there[63])
    none = Machine(64, 2, lambda: "there is no /dev/kvm")
    first = next(points(file, none, "machines"))
    assert first.skipped == "needs KVM: there is no /dev/kvm"


def test_containers_need_a_program_that_runs_them() -> None:
    [file] = [load(one) for one in STUDIES if one.parent.name == "s1-hosting"]
    none = Machine(64, 2, no_containers=lambda: "they need root")
    for group in ("containers-l2", "containers-l3"):
        assert [p.values["deployment.hosting.chains"] for p in points(file, none, group)][-1] == 63
        assert all(p.skipped is None for p in points(file, Machine(64, 2), group))
        reasons = {p.skipped for p in points(file, none, group)}
        assert reasons == {"needs containers: they need root"}


def test_a_figure_is_a_number_or_a_span() -> None:
    for wrong in ("0", "8a", "2-", "2 - 7"):
        with pytest.raises(ValueError, match="figures"):
            Group.model_validate({"about": "x", "figures": [wrong]})
