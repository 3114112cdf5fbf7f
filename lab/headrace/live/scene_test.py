# SPDX-License-Identifier: Apache-2.0
"""What an onlooker makes of what it is told, and what the pages and /metrics say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headrace.errors import HeadraceError
from headrace.ground.contract import Deployed, Point
from headrace.live import metrics
from headrace.live.pages import VIEWS
from headrace.live.scene import NO_COUNTERS, NO_POINT, Onlooker
from headrace.measure.observer import TrialBegun
from headrace.record.bundle import Bundle
from headrace.record.counters import Counters, NfReading, ReplicaReading, WorkerReading
from headrace.record.latency import Histogram
from headrace.record.moment import Moment, WayNow
from headrace.record.rows import Trial
from headrace.record.segments import Segment
from headrace.record.testdata import make_bundle
from headrace.report.charts.svg import WIDTHS
from headrace.report.html import Served, render

DASHBOARD = Path(__file__).with_name("dashboard.json")
# As headrace-engine writes it: names without types, links' numbers by name.
ENGINE = """\
headrace_worker_ref_cycles_total{cpu="1"} 2000
headrace_worker_ops_cycles_total{cpu="1"} 500
headrace_segment_packets_in_total{segment="acl",replica="0",cpu="1",link="wire-forward"} 900
headrace_nf_packets_in_total{segment="acl",replica="0",cpu="1",nf="acl",type="acl"} 900
headrace_nf_packets_dropped_total{segment="acl",replica="0",cpu="1",nf="acl",reason="denied"} 7
headrace_nf_packets_held{segment="acl",replica="0",cpu="1",nf="acl",type="acl"} -1
headrace_link{link="wire-forward",type="ring",name="used"} 3
"""


def latency(times_ns: list[int]) -> Histogram:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for time in times_ns:
        histogram.record_value(time)
    return Histogram(
        count=len(times_ns), mean_ns=sum(times_ns) / len(times_ns), min_ns=min(times_ns),
        max_ns=max(times_ns), hdr=histogram.encode().decode(),
    )  # fmt: skip


def moment(segments: int = 1) -> Moment:
    """Two seconds: 2000 packets into each segment, of which its function denied 500."""
    replicas = tuple(
        ReplicaReading(
            segment=f"s{i}", index=0, cpu=1, packets_in=2000, packets_out=1500, polls=500,
            nfs={f"acl{i}": NfReading(type="acl", packets_in=2000, dropped={"denied": 500})},
        )
        for i in range(segments)
    )  # fmt: skip
    way = WayNow(
        direction="forward", sending=True, sent_pps=1000, received_pps=750, sent=4000,
        received=3000, latency=latency([800, 900, 4_000_000]),
    )  # fmt: skip
    return Moment(
        seconds=2.0,
        ways=(way,),
        counters=Counters(
            tsc_hz=1000,
            workers=(WorkerReading(cpu=1, ref_cycles=2000, ops_cycles=500, pauses_cycles=40),),
            replicas=replicas,
        ),
        dropped={"acl0/denied": 500},
        dropped_ever={"acl0/denied": 700, "wire/full": 3},
    )


class Look:
    """Counters that are always the same, or whose engine is gone."""

    def __init__(self, seen: Moment | None, text: str = ENGINE) -> None:
        self.seen, self.text = seen, text

    def look(self) -> Moment:
        if self.seen is None:
            raise HeadraceError("engine died")
        return self.seen

    def exposed(self) -> Mapping[str, str]:
        return {"": self.text, "vnf1": self.text}


def onlooker(look: Look | None, segments: int = 1) -> Onlooker:
    watching = Onlooker("mine", "runs/mine")
    point = SimpleNamespace(
        chain="mine",
        execution="rtc",
        segments=tuple(Segment(name=f"s{i}", cpus=(1,)) for i in range(segments)),
    )
    watching.experiment("mine, rtc, 64B", 2, 3)
    watching.deployed(cast(Point, point), cast(Deployed, SimpleNamespace(looking=lambda: look)))
    return watching


def page(of: Onlooker, view: str = "") -> str:
    text = render(VIEWS[view].document(of.look(), of.seconds))
    return re.sub(r"<style>.*</style>|<[^>]+>", " ", text, flags=re.DOTALL).replace("\u202f", " ")


def bundle_trials(folder: Path) -> list[Trial]:
    make_bundle(folder)
    return Bundle(folder).trials()


def test_the_overview_says_what_passes_and_what_is_dropped() -> None:
    words = " ".join(page(onlooker(Look(moment()))).split())
    assert "mine, rtc, 64B (2/3)" in words
    assert "sent 1.00 kpps" in words and "received 750 pps" in words
    assert "dropped 250 pps" in words  # 500 in two seconds
    assert "acl0 denied 250 700" in words and "wire full 0 3" in words
    assert "1 2.00 % 0 %" in words  # lcore 1: 40 of 2000 cycles kept from working


def test_percentiles_are_those_of_the_packets() -> None:
    words = " ".join(page(onlooker(Look(moment())), "latency").split())
    # Of 800 ns, 900 ns and 4 ms; each column has its unit.
    assert "min ns mean ms p50 ns p90 ms p99 ms p99.9 ms max ms" in words
    assert "forward 3 800 1.33 900 4.00 4.00 4.00 4.00" in words


def test_counters_are_per_second_and_per_packet() -> None:
    words = " ".join(page(onlooker(Look(moment())), "counters").split())
    assert "What grew in 2.00 s." in words
    assert "acl0 acl 1.00 250 pps 0 pps 0 pps 0" in words


def test_a_trial_is_shown_while_it_runs_and_judged_when_it_has_ended(tmp_path: Path) -> None:
    watching = onlooker(Look(moment()))
    begun = TrialBegun(
        number=4, phase="search", repetition=1, workload="64B", load_pps=2e6, seconds=5
    )
    watching.trial_begins(begun)
    assert "trial 4, search: 2.00 Mpps, 0.0 of 5 s" in page(watching)
    doubted = next(t for t in bundle_trials(tmp_path / "b") if t.audit.failed)
    watching.trial_ends([doubted])
    watching.bounds({"ndr": (1e6, 2e6)})
    scene = watching.scene
    assert scene.trial is None and scene.verdicts == {doubted.audit.verdict: 1}
    assert scene.checks == {f.check: 1 for f in doubted.audit.failed}
    words = " ".join(page(watching).split())
    assert doubted.audit.failed[0].text in words
    assert ("ndr 1 Mpps to 2 Mpps" in words) == (doubted.phase == "search")


@pytest.mark.parametrize(("look", "why"), [(None, NO_COUNTERS), (Look(None), "engine died")])
def test_what_cannot_be_read_is_said(look: Look | None, why: str) -> None:
    watching = onlooker(look)
    watching.look()
    assert watching.scene.unseen == why and why in page(watching)


def test_nothing_is_read_once_it_is_undone() -> None:
    look = Look(moment())
    watching = onlooker(look)
    seen = watching.look().moment
    assert seen is not None
    watching.deployed(cast(Point, SimpleNamespace(chain="", execution="", segments=())), None)
    look.seen = None
    assert watching.look().moment is seen and watching.scene.unseen == NO_POINT
    assert watching.exposed() == {}


def test_what_was_seen_last_stays_until_the_next_is_there() -> None:
    """Executions that are compared are deployed a second each: a page of nothing would flicker."""
    watching = onlooker(Look(moment()))
    point = cast(Point, SimpleNamespace(chain="", execution="", segments=()))
    assert "as it was seen last" not in page(watching) and "between trials" in page(watching)
    watching.deployed(point, None)
    words = " ".join(page(watching).split())
    assert "deploying" in words and "mine, rtc, as it was seen last" in words
    assert "sent 1.00 kpps when it was seen last" in words and "acl0 denied 250 700" in words
    assert NO_POINT not in words
    [times] = [family for name, family in exposed(watching).items() if "latency" in name]
    assert not times.samples
    watching.deployed(point, cast(Deployed, SimpleNamespace(looking=lambda: Look(moment(0)))))
    assert watching.scene.moment is None and watching.scene.deployed


def test_two_hundred_segments_have_a_stretch_each() -> None:
    text = render(VIEWS[""].document(onlooker(Look(moment(200)), 200).look(), 0.0))
    assert [f">s{i}<" in text for i in range(200)] == [True] * 200


def exposed(of: Onlooker) -> dict[str, Any]:
    families = text_string_to_metric_families(metrics.exposition(of))
    return {family.name: family for family in families}


def test_metrics_are_openmetrics_with_the_engines_names_and_values() -> None:
    metrics = exposed(onlooker(Look(moment())))
    denied = metrics["headrace_nf_packets_dropped"]
    assert denied.type == "counter"
    assert [(s.labels.get("vnf"), s.labels["reason"], s.value) for s in denied.samples] == [
        (None, "denied", 7.0),
        ("vnf1", "denied", 7.0),
    ]
    assert metrics["headrace_nf_packets_held"].type == "gauge"
    assert metrics["headrace_nf_packets_held"].samples[0].value == -1
    for line in ENGINE.splitlines():
        name, value = line.partition("{")[0], float(line.rpartition(" ")[2])
        [family] = [f for key, f in metrics.items() if name in (key, f"{key}_total")]
        assert family.samples[0].value == value and family.documentation, name


def test_the_latency_histogram_counts_what_the_sink_did() -> None:
    [times] = [f for n, f in exposed(onlooker(Look(moment()))).items() if "latency" in n]
    buckets = {s.labels["le"]: s.value for s in times.samples if s.name.endswith("_bucket")}
    assert (buckets["1e-06"], buckets["0.002"], buckets["0.005"], buckets["+Inf"]) == (2, 2, 3, 3)
    [total] = [s.value for s in times.samples if s.name.endswith("_sum")]
    assert total == pytest.approx(4_001_700e-9)


def test_the_dashboard_names_metrics_that_there_are() -> None:
    watching = onlooker(Look(moment()))
    watching.bounds({"ndr": (1e6, None)})
    begun = TrialBegun(number=1, phase="max", repetition=1, workload="", load_pps=0, seconds=1)
    watching.trial_begins(begun)
    samples = {s.name for f in exposed(watching).values() for s in f.samples} | set(
        exposed(watching)
    )
    engine = {f"{name}_total" for name in metrics.HELP} | set(metrics.HELP)
    asked = {
        name
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel.get("targets", ())
        for name in re.findall(r"headrace_\w+", target["expr"])
    }
    assert len(asked) >= 10
    verdicts = {"headrace_trials_total", "headrace_audit_failed_total"}  # none before a trial ended
    assert asked <= samples | engine | verdicts, asked - samples - engine


def test_a_frame_has_the_pictures_of_one_window_and_the_same_texts() -> None:
    watching = onlooker(Look(moment(3)), 3).look()
    document = VIEWS[""].document(watching, 0.0)
    every, one = render(document), render(document, Served(fit=1))
    assert every.count("<svg") == len(WIDTHS) * one.count("<svg") > 0
    assert one.count('<div class="w1"><svg') == one.count("<svg")
