# SPDX-License-Identifier: Apache-2.0
"""One study, measured and predicted: two verdicts on each claim, three lines in each figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from headrace.analyse.claims import judge_claims, keep_claims
from headrace.analyse.grounds import GroundResults
from headrace.analyse.units import percent
from headrace.errors import BadInput
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.identity import Origin
from headrace.record.points import PointRow
from headrace.record.rows import Result
from headrace.record.testdata import environment
from headrace.record.verdict import Audit
from headrace.report import html, side_by_side
from headrace.report.charts.curves import Lines
from headrace.report.document_model import Chart, Document, Items, Table
from headrace.spec.claim import Claim

CHAINS = "deployment.hosting.chains"
PAPER = "Somebody 2020, On Chains"
STUDY: dict[str, Any] = {
    "name": "s9", "paper": PAPER,
    "groups": {"g": {
        "about": "Chains.", "figures": ["7"], "spec": {"chain": ["l2fwd"]},
        "sweep": {CHAINS: [1, 4, 9]},
        "published": [
            {"claim": "S9.most", "setup": "4 chains: Gbps", "value": 6, "at": {CHAINS: 4}}
        ],
    }},
    "claims": {"most": {
        "text": "Four chains carry 6 Gbit/s.", "published": 6, "tolerance": 0.1, "unit": "Gbit/s",
        "query": "select max(throughput_gbps_l1) from results where chain = 'g-2'",
        "differs": "Theirs is slower.",
    }},
}  # fmt: skip


def row(point: int, gbps: float, ground: Origin) -> Result:
    return Result(
        chain=f"g-{point}", direction="forward", repetition=1, execution="rtc", workload="64B",
        goal="ndr", load_pps=1e6, throughput_pps=gbps * 1e6, throughput_gbps_l1=gbps,
        throughput_gbps_l2=gbps, offered_pps=1e6, sent_pps=1e6, received_pps=1e6, loss_ratio=0,
        audit=Audit(verdict="ok"), ground=ground,
    )  # fmt: skip


def ground(
    folder: Path, origin: Origin, gbps: list[float], name: str = "s9", paper: str = PAPER
) -> Bundle:  # fmt: skip
    """`paper`: whose server the predictions are for."""
    study = {**STUDY, "name": name}
    points = [
        {"group": "g", "figures": ["7"], "point": f"g-{i}", "values": {CHAINS: n}}
        for i, n in enumerate((1, 4, 9), 1)
    ]
    points[2]["skipped"] = "needs 9 lcores"
    server = {} if origin == "measured" else {"server": {"name": "large", "paper": paper}}
    with BundleWriter(folder / f"{name}-{origin}") as writer:
        writer.spec(json.dumps(study), {"points": points, "experiments": [server]})
        writer.environment(environment())
        for i, one in enumerate(gbps, 1):
            writer.result(row(i, one, origin))
    bundle = Bundle(folder / f"{name}-{origin}")
    claims = {key: Claim.model_validate(one) for key, one in study["claims"].items()}
    keep_claims(bundle, judge_claims(bundle, claims, lambda _: None, study["paper"]))
    return Bundle(bundle.path)


@pytest.fixture
def both(tmp_path: Path) -> list[Bundle]:
    return [ground(tmp_path, "measured", [1.0, 0.0]), ground(tmp_path, "predicted", [2.0, 8.0])]


def shown(bundles: list[Bundle]) -> Document:
    return side_by_side.document([GroundResults(one, one.claims) for one in bundles])


def test_a_claim_has_a_verdict_of_each_ground(tmp_path: Path) -> None:
    own = [ground(tmp_path, "measured", [1.0, 6.1]), ground(tmp_path, "predicted", [2.0, 8.0])]
    document = shown(own)
    [table] = [one for one in document.sections[0].blocks if isinstance(one, Table)]
    assert table.lines[0].cells == (
        "most", f"6 Gbit/s ± {percent(0.1)}", "6.1 Gbit/s", "confirmed", "8 Gbit/s", "contradicted"
    )  # fmt: skip
    [why] = [one for one in document.sections[1].blocks if isinstance(one, Items)]
    assert why.texts == (
        "most, predicted: contradicted. 8 Gbit/s instead of 6 Gbit/s "
        f"± {percent(0.1)}. Theirs is slower.",
    )
    assert "1 claim: 1 confirmed; predicted, large: 1 claim: 1 contradicted." in document.sentence


@pytest.mark.parametrize(
    "names",
    [
        ("64B 9 flows", "1500B 9 flows"),
        ("64B 1024 flows headers.l4=udp", "64B 1024 flows headers.l4=tcp"),
    ],
)
def test_workloads_of_one_point_are_told_apart(names: tuple[str, str], tmp_path: Path) -> None:
    """They had one label in the table, and one line went back and forth between their figures."""
    bundle = ground(tmp_path, "predicted", [2.0])
    with BundleWriter(tmp_path / "two") as writer:
        writer.spec(json.dumps(STUDY), bundle.spec_resolved or {})
        writer.environment(environment())
        for i, n in enumerate((1, 4), 1):
            for name, gbps in zip(names, (1.0, 9.0), strict=True):
                one = row(i, gbps * n, "predicted")
                writer.result(one.model_copy(update={"workload": f"{name} {CHAINS}={n}"}))
    document = shown([Bundle(tmp_path / "two")])
    figure = next(one for one in document.sections if one.title.startswith("Figure 7"))
    [table, *_] = [one for one in figure.blocks if isinstance(one, Table)]
    labels = [str(line.cells[0]) for line in table.lines]
    assert [label.rpartition(", ")[2] for label in labels] == [*names] * 2
    assert len(set(labels)) == 4
    [chart, *_] = [one for one in figure.blocks if isinstance(one, Chart)]
    assert isinstance(chart.picture, Lines)
    drawn = [one.name for one in chart.picture.series]
    assert all(any(name in one for one in drawn) for name in names)


def test_a_reason_of_the_papers_own_server_is_not_told_of_another(tmp_path: Path) -> None:
    """It was printed for any described server, as if that explained what differs there."""
    for paper, told in ((PAPER, True), ("Another 2021, On Others", False)):
        folder = tmp_path / str(told)
        document = shown([ground(folder, "predicted", [2.0, 8.0], paper=paper)])
        [why] = [one for one in document.sections[1].blocks if isinstance(one, Items)]
        assert ("Theirs is slower." in why.texts[0]) == told


def test_a_figure_has_a_line_of_each_ground_and_of_the_paper(both: list[Bundle]) -> None:
    """What no load met has no point; a point that was skipped says why."""
    host = both[0].environment.hostname if both[0].environment else ""
    figure = shown(both).sections[-1]
    assert figure.title == "Figure 7: g"
    [chart] = [one for one in figure.blocks if isinstance(one, Chart)]
    assert isinstance(chart.picture, Lines)
    assert {one.name: one.points for one in chart.picture.series} == {
        "measured": ((1.0, 1.0),),
        "predicted": ((1.0, 2.0), (4.0, 8.0)),
        "published": ((4.0, 6.0),),
    }
    [absent] = [one for one in figure.blocks if isinstance(one, Items)]
    assert absent.texts[0] == f"measured, {host}: 1 point was skipped: needs 9 lcores"


def test_two_runs_of_one_machine_have_a_line_each(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    figure = shown([ground(folder, "measured", [1.0, 6.0]) for folder in folders]).sections[-1]
    [chart] = [one for one in figure.blocks if isinstance(one, Chart)]
    assert isinstance(chart.picture, Lines)
    *own, published = [one.name for one in chart.picture.series]
    assert published == "published"
    for folder, name in zip(folders, own, strict=True):
        assert name.startswith("measured, ") and str(folder) in name


def test_a_document_read_back_gives_the_same_page(both: list[Bundle]) -> None:
    document, form = shown(both), TypeAdapter(Document)
    assert html.render(form.validate_json(form.dump_json(document))) == html.render(document)


def test_bundles_of_another_study_are_refused(tmp_path: Path, both: list[Bundle]) -> None:
    other = ground(tmp_path, "measured", [1.0], name="s8")
    with pytest.raises(BadInput, match=r"s8-measured: is of s8; allowed beside .*: bundles of s9"):
        shown([both[0], other])


def test_a_bundle_without_a_study_is_refused_in_a_line(tmp_path: Path, both: list[Bundle]) -> None:
    with BundleWriter(tmp_path / "none") as writer:
        writer.environment(environment())
    with pytest.raises(BadInput, match="none: has no study; allowed: bundles"):
        shown([both[0], Bundle(tmp_path / "none")])


def test_a_bundle_of_both_grounds_is_refused(tmp_path: Path, both: list[Bundle]) -> None:
    """Its rows of a point were one figure, their median."""
    with BundleWriter(tmp_path / "mixed") as writer:
        writer.spec(json.dumps(STUDY), {"points": [], "experiments": [{}]})
        writer.environment(environment())
        writer.result(row(1, 1.0, "measured"))
        writer.result(row(1, 9.0, "predicted"))
    with pytest.raises(BadInput, match=r"mixed: has measurements and predictions \(--beside\)"):
        shown([both[1], Bundle(tmp_path / "mixed")])


def test_the_axis_is_what_has_the_most_values() -> None:
    values = [(n, size) for n in (1, 8) for size in (64, 128, 256)]
    every: list[Any] = [
        (None, PointRow(group="g", point="g", values={CHAINS: n, "workload.frame": size}), None, [])
        for n, size in values
    ]
    assert side_by_side._axis(every) == "workload.frame"
    assert side_by_side._axis([]) == "load"
