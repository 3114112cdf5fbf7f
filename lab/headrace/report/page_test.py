# SPDX-License-Identifier: Apache-2.0
"""The page stands alone, is well-formed, and never shows an untrusted figure as a good one."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from headrace.analyse.bundle_report import Report, report
from headrace.analyse.capacity import Part
from headrace.analyse.diff import Diff, MetricChange
from headrace.analyse.summary import AGREE_RATIO, summarise
from headrace.analyse.units import ns
from headrace.doctor.check import DoctorCheck
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.figures import ApplicationFigures, LatencyFloor
from headrace.record.rows import Bounds, Goal, Result, Trial
from headrace.record.segments import Segment
from headrace.record.testdata import make_bundle
from headrace.record.verdict import Audit
from headrace.report import html
from headrace.report.charts import percentiles
from headrace.report.charts.svg import WIDTHS
from headrace.report.document_model import Column, Document, Section, Table
from headrace.report.measured import document

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Checker(HTMLParser):
    """Every element is closed where it must be; collects what would load something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and value and not value.startswith(("data:", "#")):
                self.loads.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


def render(reported: Report, spec: str | None = None) -> str:
    return html.render(document(reported, spec=spec))


@pytest.fixture(scope="module")
def page(bundle_path: Path) -> str:
    return render(report(Bundle(bundle_path)), spec="a: <b> & c")


def test_it_is_well_formed_and_loads_nothing(page: str) -> None:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert checker.loads == []
    assert "<script" not in page
    assert not re.search(r"@import|url\(", page)


def test_a_row_that_is_named_by_a_number_says_of_what_on_a_phone() -> None:
    """There the columns' heads are left out, and each cell has its column's name before it."""
    table = Table(("lcore", Column("busy", "share")), ((0, 0.5), ("both", 0.6)))
    page = html.render(Document("t", sections=(Section("s", blocks=(table,)),)))
    assert re.findall(r"<th( data-name=.*?)?>\s*(0|both)\s*</th>", page) == [
        (' data-name="lcore"', "0"),
        ("", "both"),
    ]
    assert "th[data-name]::before" in page.split("max-width: 719px) {\n  main")[1]


def test_pictures_are_valid_and_say_what_they_show(page: str) -> None:
    pictures = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(pictures) == len(WIDTHS) * (4 + 2)  # pipes; executions and latency
    for picture in pictures:
        root = ET.fromstring(picture)
        assert root.get("aria-label")
        assert "nan" not in picture.lower().replace("nanosecond", "")


def test_what_is_not_trusted_is_labelled(page: str) -> None:
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)
    bound = [r for r in rows if "rtc x 3" in r and "≥" in r]
    assert len(bound) == 2 and all("generator-bound" in r for r in bound)
    assert "they are lower bounds: rtc x 3 (ndr, pdr)" in page
    assert "rtc x 3 is best: ndr at least 42.0" in page


def test_what_users_write_is_escaped(page: str) -> None:
    assert "a: &lt;b&gt; &amp; c" in page


def test_a_partial_bundle_is_reported_as_such(tmp_path: Path, bundle_path: Path) -> None:
    some = Bundle(bundle_path).results()[:3]
    with BundleWriter(tmp_path / "p") as w:
        for result in some:
            w.result(result)
        w.finish("partial", "interrupted")
    reported = report(Bundle(tmp_path / "p"))
    assert "partial: interrupted" in reported.cautions[0]
    assert "partial: interrupted" in render(reported)


def test_a_floor_above_the_latency_is_said_to_be_none(tmp_path: Path, bundle_path: Path) -> None:
    results = Bundle(bundle_path).results()
    high = results[0].model_copy(update={"calibration": LatencyFloor(floor_ns=87.7e6)})
    assert high.below_floor and not results[1].below_floor
    with BundleWriter(tmp_path / "f") as w:
        w.result(high)
    reported = report(Bundle(tmp_path / "f"))
    caution = next(c for c in reported.cautions if "floor" in c)
    assert "87.7\u202fms" in caution and "so it is none" in caution
    shown = render(reported)
    assert "own floor" not in shown
    assert "above a latency that was measured" in shown
    calm = render(report(Bundle(bundle_path)))
    assert "own floor 810" in calm
    assert "above a latency" not in calm


def test_an_empty_bundle_has_a_page_too(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "e"):
        pass
    reported = report(Bundle(tmp_path / "e"))
    assert reported.cautions == ("There are no results in it.",)
    assert "no results" in render(reported)


def test_every_name_of_a_row_is_documented() -> None:
    document = Path(__file__).resolve().parents[3] / "docs" / "json.md"
    if not document.exists():
        pytest.skip("installed without the documentation")
    text = document.read_text()
    models = (
        ApplicationFigures,
        Result,
        Trial,
        Audit,
        Bounds,
        LatencyFloor,
        Goal,
        Segment,
        Part,
        MetricChange,
        Diff,
        DoctorCheck,
    )
    missing = [
        f"{model.__name__}.{name}"
        for model in models
        for name in model.model_fields
        if f"`{name}`" not in text
    ]
    assert missing == []


def test_fixed_loads_are_drawn_over_load(tmp_path: Path, bundle_path: Path) -> None:
    first = Bundle(bundle_path).results()[0]
    with BundleWriter(tmp_path / "l") as w:
        for load in (1e6, 2e6, 4e6):
            w.result(first.model_copy(update={"goal": "fixed", "load_pps": load}))
    page = render(report(Bundle(tmp_path / "l")))
    assert "Latency over load" in page
    ET.fromstring(re.findall(r"<svg [^>]*Latency over load.*?</svg>", page, re.DOTALL)[0])


def test_several_workloads_have_an_overview(tmp_path: Path, bundle_path: Path) -> None:
    first = Bundle(bundle_path).results()[0]
    with BundleWriter(tmp_path / "g") as w:
        for workload in ("64B", "1518B"):
            w.result(first.model_copy(update={"workload": workload}))
    page = render(report(Bundle(tmp_path / "g")))
    assert "At a glance" in page and 'href="#group-2"' in page and 'id="group-2"' in page


def test_what_clients_saw_has_its_table(tmp_path: Path, bundle_path: Path) -> None:
    first = Bundle(bundle_path).results()[0]
    seen = ApplicationFigures(
        gbps=1.25, requests=1000, requests_per_s=500.0, cpu={"squid": 0.7}, to_servers_gbps=0.0213,
        to_clients_gbps=1.53,
    )  # fmt: skip
    with BundleWriter(tmp_path / "a") as w:
        w.result(first.model_copy(update={"application": seen}))
    assert Bundle(tmp_path / "a").results()[0].application == seen
    page = render(report(Bundle(tmp_path / "a")))
    assert "What clients saw" in page
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert any(
        cells[i : i + 5] == ["1.25", "0.0213", "1.53", "500", "–"] for i in range(len(cells))
    )


def _scaled(result: Result, factor: float) -> Result:
    return result.model_copy(update={"throughput_pps": result.throughput_pps * factor})


def test_repetitions_that_disagree_are_said_to(tmp_path: Path, bundle_path: Path) -> None:
    first = Bundle(bundle_path).results()[0]
    with BundleWriter(tmp_path / "d") as w:
        for factor in (1.0, 1.0 + AGREE_RATIO + 0.02):
            w.result(_scaled(first, factor))
    [caution] = [c for c in report(Bundle(tmp_path / "d")).cautions if "do not agree" in c]
    assert f"Repetitions of {first.chain} do not" in caution
    assert f"{first.execution}, {first.goal}" in caution


def test_both_directions_are_summed_and_shown_apart(tmp_path: Path, bundle_path: Path) -> None:
    first = Bundle(bundle_path).results()[0]
    with BundleWriter(tmp_path / "w") as w:
        for direction in ("forward", "reverse", "both"):
            w.result(first.model_copy(update={"direction": direction}))
    (group,) = report(Bundle(tmp_path / "w")).groups
    assert group.direction == "both"
    assert [s.key.direction for s in group.single] == ["forward", "reverse"]
    assert len(group.explained) == 1
    assert "Each direction" in render(report(Bundle(tmp_path / "w")))


def test_invalid_repetitions_stay_out_of_the_figures(bundle_path: Path) -> None:
    first = Bundle(bundle_path).results()[0]
    audit = first.audit.model_copy(update={"verdict": "invalid"})
    bad = _scaled(first, 9.0).model_copy(update={"audit": audit})
    (summary,) = summarise([first, bad])
    assert (summary.excluded, summary.repetitions) == (1, 2)
    assert summary.throughput_pps.max == first.throughput_pps


def test_the_latency_picture_ends_where_the_table_does(bundle_path: Path) -> None:
    """A histogram's bucket ends above the largest value in it."""
    [first, *_] = [r for r in Bundle(bundle_path).results() if r.latency_hdr and r.latency_ns]
    assert first.latency_ns is not None
    low = first.latency_ns.model_copy(update={"max": first.latency_ns.max * 0.999})
    curve = percentiles.curve("x", [first.model_copy(update={"latency_ns": low})])
    assert curve is not None
    assert curve.points[-1][1] == low.max


def test_text_below_a_table_has_the_tables_figures(tmp_path: Path) -> None:
    """Two repetitions that differ: neither alone is what the table says."""
    bundle = Bundle(make_bundle(tmp_path / "two", repetitions=2))
    one, two = (r for r in bundle.results() if r.execution == "rtc" and r.goal == "ndr")
    with BundleWriter(tmp_path / "apart") as w:
        assert two.latency_ns is not None
        later = two.latency_ns.model_copy(update={"p50": two.latency_ns.p50 * 3})
        bound = Audit(verdict="generator-bound")
        w.result(one.model_copy(update={"throughput_pps": 36_600.0, "audit": bound}))
        w.result(
            two.model_copy(update={"throughput_pps": 95_380.0, "latency_ns": later, "audit": bound})
        )
    reported = report(Bundle(tmp_path / "apart"))
    (explained,) = reported.groups[0].explained
    median = explained.summary.throughput_pps.median
    assert explained.pipe.throughput_pps == pytest.approx(median) == pytest.approx(65_990)
    shown = render(reported)
    assert "median of 2 repetitions" in shown
    middle = ns(explained.summary.latency_ns["p50"].median)
    assert f"rtc: p50 {middle} (median of the repetitions)" in shown
