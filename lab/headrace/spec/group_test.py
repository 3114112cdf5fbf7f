# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadInput
from headrace.spec import document
from headrace.spec.folder import load_folder
from headrace.spec.group import Group, Machine, Needs, lacking
from headrace.spec.points import StudyPoint, Wanted, points
from headrace.spec.study import read

STUDIES = sorted((Path(__file__).parents[3] / "studies").glob("s[12]"))


def data(point: StudyPoint) -> Any:
    return point.doc.data


@pytest.mark.parametrize("file", STUDIES, ids=lambda f: f.name)
def test_every_point_is_a_spec_or_says_why_not(file: Path) -> None:
    every = list(points(load_folder(file), Machine(lcores=2, nodes=1)))
    assert len({point.name for point in every}) == len(every)
    for point in every:
        assert point.skipped or read(point.doc)
    large = list(points(load_folder(file), Machine(lcores=64, nodes=2)))
    assert sum(p.skipped is None for p in large) > sum(p.skipped is None for p in every)
    for point in large:
        if point.skipped is None:
            read(point.doc)


def test_what_is_measured_only_says_which_key_no_prediction_covers() -> None:
    described, here = Machine(2, 1, not_deployed="s is described"), Machine(2, 1)
    told, untold = Needs(deployed="deployment.hosting: x"), Needs(deployed=True)
    why = "is measured only, and s is described"
    assert lacking(told, {}, {}, described) == f"{why} (cannot predict: deployment.hosting: x)"
    assert lacking(untold, {}, {}, described) == why
    assert lacking(told, {}, {}, here) is None


def test_overlay_and_needs() -> None:
    doc = document.parse(
        json.dumps({
            "name": "p", "paper": "Wang et al. 2016",
            "deployment": {"hosting": {"kind": "process", "wait": "poll"}},
            "groups": {
                "g": {
                    "about": "x",
                    "spec": {"chain": ["null"], "deployment": {"network": "vepa"}},
                    "sweep": {"deployment.hosting.placement": ["numa-aware", "worst"]},
                    "needs": [{"when": {"deployment.hosting.placement": "worst"}, "nodes": 2}],
                }
            },
        }),
        Path("p.yaml"),
    )  # fmt: skip
    near, far = points(doc, Machine(lcores=2, nodes=1))
    assert near.skipped is None
    assert data(near)["deployment"] == {
        "hosting": {"kind": "process", "wait": "poll", "placement": "numa-aware"},
        "network": "vepa",
    }
    assert far.skipped == "needs 2 NUMA nodes, this machine has 1"
    with pytest.raises(BadInput, match="--group: got other; allowed: g"):
        points(doc, Machine(2, 1), Wanted(group="other"))


@pytest.mark.parametrize(
    ("paper", "figures"), [("s1", {*range(2, 9), 10, 11}), ("s2", {*range(7, 18)})]
)
def test_every_figure_has_rows(paper: str, figures: set[int]) -> None:
    """Those that the papers have results or settings in."""
    [file] = [load_folder(one) for one in STUDIES if one.name == paper]
    named = {name for name, group in read(file).groups.items() if not group.figures}
    # Whose figure is a sentence; and what several figures recommend together.
    assert named <= {"fib-1g", "one-or-two", "share-one-feature", "share-four-features"}
    assert set().union(*(group.numbers for group in read(file).groups.values())) == figures
    for number in figures:
        rows = list(points(file, Machine(lcores=64, nodes=2), Wanted(figure=number)))
        assert rows and all(number in read(file).groups[row.group].numbers for row in rows)


def test_machines_need_kvm() -> None:
    [file] = [load_folder(one) for one in STUDIES if one.name == "s1"]
    large = Machine(64, 2)
    there = {
        p.values["deployment.hosting.chains"]: p.skipped
        for p in points(file, large, Wanted("machines"))
    }
    assert there[31] is None and "31 virtual machines at most" in str(there[63])
    none = Machine(64, 2, lambda: "there is no /dev/kvm")
    first = points(file, none, Wanted("machines"))[0]
    assert first.skipped == "needs KVM: there is no /dev/kvm"


def test_all_that_a_point_lacks_is_said() -> None:
    """Each is asked for only where it is needed: KVM's answer takes a guest."""
    doc = document.parse(
        json.dumps({
            "name": "p",
            "groups": {
                "g": {
                    "about": "x",
                    "spec": {"chain": ["null"]},
                    "needs": [{"root": True, "vfio": True, "vhost_net": True, "gigabyte_pages": 2}],
                }
            },
        }),
        Path("p.yaml"),
    )  # fmt: skip

    def never() -> str:
        raise AssertionError("nobody needs KVM")

    [point] = points(doc, Machine(2, 1, no_kvm=never))
    assert point.skipped is None
    asked: list[int] = []

    def none(count: int) -> str:
        asked.append(count)
        return "none are free"

    machine = Machine(
        2, 1, no_kvm=never, not_root="run it with sudo", no_vfio=lambda: "no IOMMU",
        no_gigabyte_pages=none,
    )  # fmt: skip
    [point] = points(doc, machine)
    assert point.skipped == (
        "needs root: run it with sudo; needs vfio: no IOMMU; needs hugepages of 1 GB: none are free"
    )
    assert asked == [2]


def test_a_group_between_interfaces_is_skipped_without_them() -> None:
    """The machine is asked with the point's own testbed."""
    [file] = [load_folder(one) for one in STUDIES[0].parent.glob("s3")]
    asked: list[Any] = []

    def no_interfaces(spec: dict[str, Any]) -> str | None:
        asked.append(spec["testbed"]["chain"])
        return "there is no interface hrleft"

    kernel = points(file, Machine(2, 1, no_interfaces=no_interfaces), Wanted("kernel"))
    assert {one.skipped for one in kernel} == {"needs interfaces: there is no interface hrleft"}
    assert asked == [["in", "out"]] * 6
    assert {one.skipped for one in points(file, Machine(2, 1), Wanted("kernel"))} == {None}


def test_sriov_is_on_a_real_nic_or_skipped() -> None:
    [file] = [load_folder(one) for one in STUDIES if one.name == "s1"]
    for point in points(file, Machine(2, 1), Wanted("sr-iov")):
        assert read(point.doc).deployment.network == "sriov"
        assert point.skipped is None
    none = Machine(64, 2, no_sriov=lambda spec: "no NIC of this machine has virtual functions")
    assert {p.skipped for p in points(file, none, Wanted("sr-iov"))} == {
        "needs SR-IOV: no NIC of this machine has virtual functions"
    }


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        (7, {"oversubscription": {"1:1"}}),
        (8, {"oversubscription": {"2:1"}}),
        (9, {"oversubscription": {"4:1"}}),
    ],
)
def test_a_figure_of_pinning_is_its_ratio(figure: int, values: dict[str, set[str]]) -> None:
    [file] = [load_folder(one) for one in STUDIES if one.name == "s2"]
    ratios = [
        data(p)["deployment"]["hosting"]
        for p in points(file, Machine(64, 2), Wanted(figure=figure))
    ]
    for key, allowed in values.items():
        assert {one[key] for one in ratios} == allowed
    machines = [one for one in ratios if one["kind"] == "vm"]
    assert machines and all(one["vm"]["vcpus"] == 2 for one in machines)


def test_figures_of_results_differ_by_chain_and_features() -> None:
    """Ben Hamed et al. 2020: PVP and PVVP, one feature and four, a pair of figures of each."""
    [file] = [load_folder(one) for one in STUDIES if one.name == "s2"]
    of = {
        n: {p.group for p in points(file, Machine(64, 2), Wanted(figure=n))} for n in range(10, 18)
    }
    for first in (10, 12, 14, 16):
        assert of[first] == of[first + 1]  # throughput and delay of the same points
        others = set().union(*(of[n] for n in of if n not in (first, first + 1)))
        assert of[first] and not of[first] & others


def test_l3_has_the_papers_tables() -> None:
    """Wang et al. 2016: 1 M entries in each VNF, 16 M in the one of bare metal; as many
    destinations."""
    [file] = [load_folder(one) for one in STUDIES if one.name == "s1"]
    sizes: dict[str, set[int]] = {}
    for point in points(file, Machine(64, 2)):
        if point.group == "fib-1g":
            continue  # of 10^9 entries, which is no VNF's
        for one in data(point).get("chain", ()):
            if isinstance(one, dict) and "l3fwd" in one:
                sizes.setdefault(point.group, set()).add(one["l3fwd"]["ranges"][0]["count"])
                assert data(point)["workload"]["flows"]["count"] == 1 << 20
    assert sizes == {
        "bare-metal-l3": {1 << 20, 1 << 24}, "l3-scale": {1 << 20}, "containers-l3": {1 << 20},
        "l3-side-by-side": {1 << 20}, "l3-one-engine": {1 << 24},
    }  # fmt: skip


def test_containers_need_a_program_that_runs_them() -> None:
    [file] = [load_folder(one) for one in STUDIES if one.name == "s1"]
    none = Machine(64, 2, no_containers=lambda: "they need root")
    for group in ("containers-l2", "containers-l3"):
        assert [p.values["deployment.hosting.chains"] for p in points(file, none, Wanted(group))][
            -1
        ] == 63
        assert all(p.skipped is None for p in points(file, Machine(64, 2), Wanted(group)))
        reasons = {p.skipped for p in points(file, none, Wanted(group))}
        assert reasons == {"needs containers: they need root"}


def test_a_figure_is_a_number_or_a_span() -> None:
    for wrong in ("0", "8a", "2-", "2 - 7"):
        with pytest.raises(ValueError, match="figures"):
            Group.model_validate({"about": "x", "figures": [wrong]})


def test_quick_leaves_points_out_and_the_others_have_their_numbers() -> None:
    doc = document.parse(
        json.dumps({
            "name": "p", "chain": ["null"], "repetitions": 5, "measure": {"trial": 2, "max": True},
            "quick": {"repetitions": 1, "measure": {"trial": 0.5}},
            "groups": {
                "g": {
                    "about": "x",
                    "sweep": {"workload.frame": [64, 128, 256]},
                    "quick": {"sweep": {"workload.frame": [64, 256]}, "spec": {"warmup": 0.2}},
                }
            },
        }),
        Path("p.yaml"),
    )  # fmt: skip
    quick = points(doc, Machine(2, 1), Wanted(quick=True))
    assert [(one.name, one.skipped) for one in quick] == [
        ("g-1", None), ("g-2", "--quick leaves it out"), ("g-3", None)
    ]  # fmt: skip
    study = read(quick[0].doc)
    assert (study.repetitions, study.warmup, study.measure.trial) == (1, 0.2, 0.5)
    assert study.measure.max
    whole = points(doc, Machine(2, 1))
    assert [read(one.doc).repetitions for one in whole] == [5, 5, 5]
    none = document.parse(json.dumps({"name": "p", "chain": ["null"]}), Path("n.yaml"))
    with pytest.raises(BadInput, match=r"--quick: n.yaml has no `quick`"):
        points(none, Machine(2, 1), Wanted(quick=True))
