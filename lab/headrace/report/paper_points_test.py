# SPDX-License-Identifier: Apache-2.0
"""Pictures of a paper's points: the measured lines, the additive ones, and what is not drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.analyse.bundle_report import report
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.figures import ApplicationFigures
from headrace.record.points import PointRow
from headrace.record.rows import Result
from headrace.record.segments import Anatomy
from headrace.record.verdict import Audit
from headrace.report.document_model import Document, Row, Section, Table
from headrace.report.html import render
from headrace.report.measured import document
from headrace.report.paper_points import (
    MeasuredPoint,
    PointResult,
    delays,
    of_groups,
    scale,
    sections,
    stacks,
    with_best_case,
)
from headrace.spec.study import Study

FILE = Study.model_validate(
    {"name": "p", "paper": "P", "groups": {
        "g": {"about": "VNFs <side> by side", "published": [
            {"claim": "P.1", "setup": "ten", "value": [0.1, 0.2]}]},
        "other": {"about": "nothing"}}}
)  # fmt: skip
PARTS = Anatomy(
    generator_ns=1e3, queue_ns=2e3, scheduler_ns=3e3, vnf_ns=4e3, switch_ns=5e3,
    of_which_back_ns=0.0, over_ns=0.0,
)  # fmt: skip


def point(chains: int, wait: str, failed: str | None = None) -> PointRow:
    values = {"deployment.hosting.chains": chains, "deployment.hosting.wait": wait}
    return PointRow(group="g", point=f"g-{chains}-{wait}", values=values, failed=failed)


def row(chains: int, wait: str, *pps: float, goal: str = "ndr") -> MeasuredPoint:
    """A result for each repetition."""
    each = (
        PointResult(
            goal=goal, load_pps=one, throughput=one, throughput_pps=one, loss_ratio=0.0,
            latency_mean_us=15.0, latency_p99_us=20.0, jitter_us=None, anatomy=PARTS, verdict="ok",
            at_load=goal.startswith("fixed"),
        )
        for one in pps
    )  # fmt: skip
    return MeasuredPoint(point(chains, wait), tuple(each))


ROWS = with_best_case([row(1, "poll", 1e6), row(4, "poll", 2e6), row(4, "adaptive", 3e6)])


def test_measured_and_additive_lines() -> None:
    shown = {one.name: one.points for one in scale(ROWS, "ndr")}
    assert shown == {
        "wait poll": ((1.0, 1e3), (4.0, 2e3)),
        "n x wait poll": ((1.0, 1e3), (4.0, 4e3)),
        "wait adaptive": ((4.0, 3e3),),
    }


def best(rows: list[MeasuredPoint]) -> list[float | None]:
    return [one.best_case_pps for row in with_best_case(rows) for one in row.results]


def test_additive_line_is_of_the_same_settings() -> None:
    rows = [row(1, "poll", 10.0), row(4, "poll", 25.0), row(1, "adaptive", 20.0)]
    assert best([*rows, row(8, "adaptive", 1.0)]) == [10.0, 40.0, 20.0, 160.0]


def test_no_line_without_one_chain_or_at_a_fixed_load() -> None:
    assert best([row(4, "poll", 25.0)]) == [None]
    rows = [row(chains, "poll", 5.0, goal="fixed 5.00 pps") for chains in (1, 4)]
    assert best(rows) == [None, None]


def test_lines_are_medians_of_repetitions() -> None:
    rows = with_best_case([row(1, "poll", 1e6, 1.1e6, 4e6), row(4, "poll", 2e6, 9e6, 3e6)])
    assert {one.best_case_pps for row in rows for one in row.results} == {1.1e6, 4.4e6}
    shown = {one.name: one.points for one in scale(rows, "ndr")}
    assert shown["wait poll"] == ((1.0, 1.1e3), (4.0, 3e3))
    assert shown["n x wait poll"] == ((1.0, 1.1e3), (4.0, 4.4e3))


def test_executions_are_told_apart() -> None:
    """Both models of one point were 14 rows of the same name, and one line through their middle."""

    def both(chains: int, rtc: float, pipeline: float) -> MeasuredPoint:
        one = row(chains, "poll", rtc, pipeline)
        named = zip(one.results, ("rtc", "pipeline"), strict=True)
        return replace(one, results=tuple(replace(x, execution=name) for x, name in named))

    rows = with_best_case([both(1, 2e6, 1e6), both(4, 7e6, 3e6)])
    shown = {one.name: one.points for one in scale(rows, "ndr")}
    assert shown["rtc, wait poll"] == ((1.0, 2e3), (4.0, 7e3))
    assert shown["n x pipeline, wait poll"] == ((1.0, 1e3), (4.0, 4e3))
    table = of_groups(FILE.groups, "", rows)[-1].blocks[0]
    assert isinstance(table, Table)
    cells = [one.cells[:2] for one in table.rows if isinstance(one, Row)]
    assert cells[:2] == [("1 chain, wait poll", "rtc"), ("1 chain, wait poll", "pipeline")]
    alone = [replace(one, results=one.results[:1]) for one in rows]
    table = of_groups(FILE.groups, "", alone)[-1].blocks[0]
    assert isinstance(table, Table)
    assert {one.cells[1] for one in table.rows if isinstance(one, Row)} == {None}


def test_loads_are_told_apart_and_the_sum_of_both_ways_stands_alone(tmp_path: Path) -> None:
    """Each way by itself is no repetition of their sum, nor is another load."""
    with BundleWriter(tmp_path / "b") as writer:
        writer.spec("name: x\ngroups: {g: {about: one, spec: {chain: []}}}\n", {})
        for way, load in (("forward", 1e5), ("reverse", 1e5), ("both", 2e5), ("both", 8e5)):
            writer.result(Result(
                chain="g-1", direction=way, repetition=1, execution="rtc", workload="64B",
                goal="fixed", load_pps=load, throughput_pps=load, throughput_gbps_l1=1,
                throughput_gbps_l2=1, offered_pps=load, sent_pps=load, received_pps=load,
                loss_ratio=0, audit=Audit(verdict="ok"),
            ))  # fmt: skip
    (tmp_path / "b" / "samples" / "points.json").write_text('[{"group": "g", "point": "g-1"}]')
    shown = sections(Bundle(tmp_path / "b"))[1]
    assert [one.cells[2:4] for one in table_rows(shown)] == [
        ("fixed 2 x 100\u202fkpps", 2e5), ("fixed 2 x 400\u202fkpps", 8e5),
    ]  # fmt: skip


def test_nothing_received_is_not_on_a_logarithmic_axis() -> None:
    rows = [*ROWS, *with_best_case([row(8, "adaptive", 0.0)])]
    assert all(y > 0 for one in scale(rows, "ndr") for _, y in one.points)
    assert [one.points for one in delays(ROWS, "ndr")][1] == ((4.0, 15.0),)


def test_parts_of_the_latency() -> None:
    bars = list(stacks(ROWS))
    assert bars[0].name == "1 x, poll, 1000 kpps"
    assert bars[0].parts_us == (1.0, 5.0, 2.0, 3.0, 4.0)


def test_page() -> None:
    failed = MeasuredPoint(point(8, "poll", "no <memory>"))
    page = render(Document("p", sections=of_groups(FILE.groups, FILE.paper or "", [*ROWS, failed])))
    assert "3 of 4 points measured here" in page
    assert "g: throughput (ndr)" in page and "g: where the time goes" in page
    assert "failed: no &lt;memory&gt;" in page and "VNFs &lt;side&gt; by side" in page
    assert "0.1–0.2" in page and "other" not in page.split("<body")[1]


def test_a_prediction_is_not_called_measured(tmp_path: Path) -> None:
    texts = {"predicted": "1 of 1 points predicted.", "measured": "1 of 1 points measured here."}
    for ground in ("predicted", "measured"):
        folder = tmp_path / ground
        with BundleWriter(folder) as writer:
            writer.spec("name: x\ngroups: {g: {about: one, spec: {chain: []}}}\n", {})
            writer.result(Result(
                chain="g-1", direction="forward", repetition=1, execution="rtc", workload="64B",
                goal="max", load_pps=0, throughput_pps=1, throughput_gbps_l1=1,
                throughput_gbps_l2=1, offered_pps=1, sent_pps=1, received_pps=1, loss_ratio=0,
                audit=Audit(verdict="ok"), ground=ground,
            ))  # fmt: skip
        (folder / "samples" / "points.json").write_text('[{"group": "g", "point": "g-1"}]')
        assert texts[ground] in render(Document("p", sections=sections(Bundle(folder))))


def graph_of(chain: str, point: str) -> dict[str, object]:
    """A deployment of third-party VNFs as resolved.json has it."""
    return {
        "chain": chain, "execution": "container bridge", "workloads": ["http"], "role": "chain",
        "network": "bridge", "graph": {}, "nodes": {}, "study": {"name": point},
    }  # fmt: skip


def test_graphs_of_third_party_vnfs_stand_in_their_points_table(tmp_path: Path) -> None:
    """They have names of their own, and a graph may be of several points."""
    rows = [("nat alone", "g-1"), ("nat alone", "other-1"), ("nat → cache", "g-1")]
    named = [PointRow(group=name[:-2], point=name).model_dump() for name in ("g-1", "other-1")]
    with BundleWriter(tmp_path / "b") as writer:
        writer.spec(
            "name: p\ngroups: {g: {about: side by side}, other: {about: more}}\n",
            {"experiments": [graph_of(*one) for one in rows], "points": named},
        )
        writer.result(goodput("nat alone", "http", 1.024))
        writer.result(goodput("nat → cache", "http", 0.433))
    _, first, second = sections(Bundle(tmp_path / "b"))
    assert [[row.cells for row in table_rows(one)] for one in (first, second)] == [
        [
            ("nat alone", "http", "1.024 Gbit/s", "ok"),
            ("nat → cache", "http", "0.433 Gbit/s", "ok"),
        ],
        [("other-1", "http", "1.024 Gbit/s", "ok")],
    ]


def test_at_a_glance_the_slowest_deployment_stands_beside_the_fastest(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "b") as writer:
        for one in (("nat alone", "http", 1.024), ("cache", "http", 0.433), ("cache", "tcp", 7.5)):
            writer.result(goodput(*one))
    glance = document(report(Bundle(tmp_path / "b"))).sections[0]
    assert glance.title == "At a glance"
    assert [row.cells[1:] for row in table_rows(glance)] == [
        ("container bridge", "2 deployments", "1.024 Gbit/s, nat alone", "0.433 Gbit/s, cache", ""),
        ("container bridge", "cache", "7.500 Gbit/s", "", ""),
    ]


def goodput(chain: str, workload: str, gbps: float) -> Result:
    return Result(
        chain=chain, direction="both", repetition=1, execution="container bridge",
        workload=workload, goal="max", load_pps=0, throughput_pps=1e5, throughput_gbps_l1=gbps,
        throughput_gbps_l2=gbps, offered_pps=1e5, sent_pps=1e5, received_pps=1e5, loss_ratio=0,
        audit=Audit(verdict="ok"), application=ApplicationFigures(gbps=gbps),
    )  # fmt: skip


def table_rows(section: Section) -> list[Row]:
    [table] = section.blocks
    assert isinstance(table, Table)
    return [row for row in table.rows if isinstance(row, Row)]
