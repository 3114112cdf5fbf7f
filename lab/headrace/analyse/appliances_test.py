# SPDX-License-Identifier: Apache-2.0
"""Which VNF is named, and on what evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.analyse.appliances import compared, scale_up
from headrace.analyse.bundle_report import Report, report
from headrace.analyse.reached import Rate, Reached, gathered
from headrace.graph.enumerate import Graph
from headrace.ground.appliances.addressing import lay_out
from headrace.ground.catalogue import catalogue
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.deployment import DeployedGraph, DeployedNode, Role, swept_text
from headrace.record.figures import ApplicationFigures
from headrace.record.rows import Result
from headrace.record.verdict import Audit, Verdict
from headrace.report.appliances import roles, sections
from headrace.report.html import render
from headrace.report.measured import document
from headrace.report.result_tables import applications

ENTRIES = catalogue()
DEFINITIONS = {name: entry.definition for name, entry in ENTRIES.items()}
CHAIN: Graph = {"nat": None, "l7-cache": "nat"}


def summary(
    role: Role,
    *gbps: float,
    subject: str = "",
    instances: int = 1,
    verdict: Verdict = "ok",
    cpu: dict[str, float] | None = None,
    stack: dict[str, float] | None = None,
    quota: dict[str, float] | None = None,
    swept: tuple[tuple[str, Any], ...] = (),
) -> Reached:
    graph: Graph = {} if role == "baseline" else {subject: None} if role == "alone" else CHAIN
    kinds = {v: v for v in graph}
    layout = lay_out(graph, kinds, DEFINITIONS, {}, 1)
    workload = "http" + swept_text(swept)
    name = f"{role} {subject} {instances}" if subject else role
    deployed = DeployedGraph(
        chain=name, execution="container bridge", workloads=(workload,), role=role,
        network="bridge", graph=graph,
        nodes={n.name: DeployedNode(vnf=n.vnf, kind=n.kind) for n in layout.nodes},
        subject=subject, instances=instances, swept=swept,
    )  # fmt: skip
    results = tuple(
        Result(
            chain=name, direction="both", repetition=i + 1, execution="container bridge",
            workload=workload, load_pps=0, throughput_pps=0,
            throughput_gbps_l1=0, throughput_gbps_l2=0, offered_pps=0, sent_pps=0, received_pps=0,
            loss_ratio=0, audit=Audit(verdict=verdict), goal="max",
            application=ApplicationFigures(
                gbps=value, requests=1, cpu=cpu or {}, stack=stack or {}, quota=quota or {}
            ),
        )
        for i, value in enumerate(gbps)
    )  # fmt: skip
    return Reached(deployed, results)


def made_report(folder: Path, reached: Sequence[Reached]) -> Report:
    """As a run leaves it: results, and what their chains consist of."""
    with BundleWriter(folder) as writer:
        points = [one.deployed.model_dump(mode="json") for one in reached]
        writer.spec("", {"experiments": points})
        for one in reached:
            for result in one.results:
                writer.result(result)
    return report(Bundle(folder))


def page(folder: Path, reached: Sequence[Reached]) -> str:
    shown = made_report(folder, reached)
    more = tuple(sections(shown.reached, folder / "samples"))
    return render(document(shown, more=more))


def test_what_scaling_out_raises_is_the_bottleneck() -> None:
    reached = [
        summary("baseline", 2.0, 2.1),
        summary("alone", 0.5, 0.5, subject="nat"),  # narrower alone, yet more of it changes nothing
        summary("alone", 0.6, 0.6, subject="l7-cache"),
        summary("chain", 0.40, 0.42),
        summary("scale-out", 0.70, 0.75, subject="l7-cache", instances=2),
        summary("scale-out", 0.41, 0.43, subject="nat", instances=2),
    ]
    [statement] = compared(reached)
    assert statement.vnf == "l7-cache"
    assert any("adding instances raises" in s for s in statement.sentences)
    assert any("nat" in s and "does not clearly raise" in s for s in statement.sentences)


def test_without_scaling_the_narrowest_alone() -> None:
    reached = [
        summary("baseline", 2.0, 2.1),
        summary("alone", 1.9, 2.0, subject="nat"),
        summary("alone", 0.6, 0.6, subject="l7-cache"),
    ]
    [statement] = compared(reached)
    assert statement.vnf == "l7-cache"


def test_nobody_is_named_when_repetitions_differ_by_as_much() -> None:
    reached = [summary("baseline", 1.0, 2.0), summary("alone", 0.9, 1.6, subject="nat")]
    [statement] = compared(reached)
    assert statement.vnf is None
    assert any("no VNF is narrow alone" in s for s in statement.sentences)


def test_cpu_time_is_the_weakest_evidence_and_none_is_none() -> None:
    [busy] = compared([summary("chain", 1.0, cpu={"nat": 0.0, "l7-cache": 0.8, "client": 0.5})])
    assert busy.vnf == "l7-cache"
    assert any("weakest evidence" in s for s in busy.sentences)
    [idle] = compared([summary("chain", 1.0, cpu={"nat": 0.0, "l7-cache": 0.0})])
    assert idle.vnf is None


def test_the_kernels_work_for_a_vnf_counts_as_its_own() -> None:
    used = {"nat": 0.0, "l7-cache": 0.3}
    [forwarded] = compared([summary("chain", 1.0, cpu=used, stack={"nat": 0.6, "l7-cache": 0.1})])
    assert forwarded.vnf == "nat"
    assert any("nat 0.60, l7-cache 0.40" in s for s in forwarded.sentences)


def test_who_used_up_its_cpus_goes_before_who_used_most() -> None:
    used = {"nat": 0.05, "l7-cache": 0.8}
    [held] = compared([summary("chain", 1.0, cpu=used, quota={"nat": 0.99, "l7-cache": 0.4})])
    assert held.vnf == "nat"
    assert not any("weakest evidence" in s for s in held.sentences)
    [free] = compared([summary("chain", 1.0, cpu=used, quota={"nat": 0.5})])
    assert free.vnf == "l7-cache"


def test_the_switch_is_named_when_its_process_takes_the_most() -> None:
    used = {"nat": 0.0, "l7-cache": 0.2, "client": 1.5, "ovs-vswitchd": 0.9}
    [switched] = compared([summary("chain", 1.0, cpu=used)])
    assert switched.vnf == "ovs-vswitchd"
    reached = [
        summary("baseline", 2.0),
        summary("alone", 0.5, subject="l7-cache"),
        summary("chain", 0.40, 0.42, cpu=used),
        summary("scale-out", 0.41, 0.43, subject="l7-cache", instances=2),
    ]
    [in_vain] = compared(reached)
    assert in_vain.vnf == "ovs-vswitchd"
    [gained] = compared([*reached[:3], summary("scale-out", 0.7, subject="l7-cache", instances=2)])
    assert gained.vnf == "l7-cache"


def test_scaling_up_compares_what_differs_in_one_thing() -> None:
    path = "vnfs.l7-cache.cpus"
    reached = [
        summary("chain", 0.20, 0.21, swept=((path, 0.2), ("workload.connections", 16))),
        summary("chain", 0.60, 0.61, swept=((path, 0.6), ("workload.connections", 16))),
        summary("chain", 9.0, 9.0, swept=((path, 0.2), ("workload.connections", 32))),
    ]
    [sentence] = scale_up(reached)
    assert "0.6 instead of 0.2 gives +195%" in sentence
    assert "workload.connections=16: chain chain with vnfs.l7-cache.cpus = 0.2" in sentence


def test_loads_are_no_repetitions_of_each_other() -> None:
    """What came of the highest load is compared, of each deployment."""
    received = {"baseline": (1e5, 9e5), "nat": (1e5, 4e5)}
    base, nat = summary("baseline", 1.0, 1.0), summary("alone", 1.0, 1.0, subject="nat")
    rows = [
        (
            one.deployed,
            result.model_copy(
                update={"goal": "fixed", "load_pps": load, "received_pps": pps, "intended": 1}
            ),
        )
        for one, each in zip((base, nat), received.values(), strict=True)
        for load, pps in zip((1e5, 9e5), each, strict=True)
        for result in one.results
    ]
    reached = gathered(rows)
    assert [(one.goal, str(one.rate), len(one.results)) for one in reached] == [
        ("fixed 2 x 50.0\u202fkpps", "100000 packets/s", 2),
        ("fixed 2 x 450\u202fkpps", "900000 packets/s", 2),
        ("fixed 2 x 50.0\u202fkpps", "100000 packets/s", 2),
        ("fixed 2 x 450\u202fkpps", "400000 packets/s", 2),
    ]
    [one] = compared(reached)
    assert "Alone: nat 400000 packets/s." in one.sentences
    assert any("nat alone loses 56" in text for text in one.sentences)


def test_a_difference_needs_more_than_chance() -> None:
    assert Rate(1.2, 1.15, 1.3, "").above(Rate(1.0, 0.9, 1.1, ""))
    assert not Rate(1.2, 1.05, 1.3, "").above(Rate(1.0, 0.9, 1.1, ""))  # they overlap
    assert not Rate(1.05, 1.05, 1.05, "").above(Rate(1.0, 1.0, 1.0, ""))  # too little


def test_the_page_shows_what_each_number_of_instances_reached(tmp_path: Path) -> None:
    reached = [
        summary("chain", 0.40, 0.42),
        summary("scale-out", 0.82, 0.82, subject="l7-cache", instances=2),
        summary("scale-out", 1.23, 1.23, subject="l7-cache", instances=4),
    ]
    text = page(tmp_path / "several", reached)
    _, _, table = text.partition("<h2>Scaled out</h2>")
    rows = table.partition("</table>")[0].split("<tr>")[2:]
    assert ["<th>l7-cache</th>" in row for row in rows] == [True] * 3
    for row, count, times in zip(rows, "124", ("1.00", "2.00", "3.00"), strict=True):
        assert f">{count}</td>" in row
        assert f">{times}</td>" in row
    assert "Scaled out" not in page(tmp_path / "one", reached[:1])


def test_a_bottleneck_by_doubtful_measurements_is_called_suspect(tmp_path: Path) -> None:
    baseline = summary("baseline", 2.0, 2.0)
    cases: tuple[tuple[Verdict, str], ...] = (
        ("ok", "<p>Bottleneck: nat.</p>"),
        ("suspect", "<p>Bottleneck, by suspect measurements: nat.</p>"),
    )
    for verdict, statement in cases:
        reached = [baseline, summary("alone", 0.5, 0.5, subject="nat", verdict=verdict)]
        assert statement in page(tmp_path / verdict, reached)


def test_chains_of_a_network_stand_in_one_table(tmp_path: Path) -> None:
    """With what each was measured for; an analysis from the bundle is the same as from the run."""
    reached = [
        summary("baseline", 2.0),
        summary("alone", 0.5, subject="nat"),
        summary("chain", 0.4),
    ]
    shown = made_report(tmp_path / "b", reached)
    (group,) = shown.groups
    assert [group.named(s) for s in group.summaries] == ["baseline", "alone nat 1", "chain"]
    assert group.compared == tuple(compared(reached))
    table = applications(group, roles(shown.reached))
    assert [row.cells[:3] for row in table.lines] == [
        ("baseline", "baseline", "2.000 Gbit/s"),
        ("alone nat 1", "alone", "0.500 Gbit/s"),
        ("chain", "chain", "0.400 Gbit/s"),
    ]
