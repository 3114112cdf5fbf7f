# SPDX-License-Identifier: Apache-2.0
"""What there is to look at, and what is said where there is nothing."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.analyse.beside import COMPARED_FILE, Compared
from headrace.analyse.bundle_report import report
from headrace.analyse.diagnosis import Weight
from headrace.analyse.rule_evidence import Evidence, of, parts
from headrace.analyse.rules import explain, explain_parts
from headrace.cli.explain import explain as explain_command
from headrace.errors import BadInput, HeadraceError
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.convergence import RouteChange
from headrace.record.figures import ApplicationFigures
from headrace.record.rows import Result
from headrace.record.sampled import Sampled, SampledLayer, SamplingCost, SamplingEpoch
from headrace.record.testdata import environment, make_bundle
from headrace.record.verdict import Audit
from headrace.report.html import render
from headrace.report.measured import document
from headrace.report.terminal import lines

SAMPLED = Sampled(
    version=1,
    period_s=1,
    epoch=SamplingEpoch(time_ns=0, monotonic_ns=0),
    refused={},
    layers={
        "virtualization": SampledLayer(
            metrics={"busiest_thread_ns": "counter"},
            absent={},
            cost=SamplingCost(samples=3, cpu_s=0.01, share_of_one_cpu=0.005, late_samples=0),
        )
    },
)


def test_a_run_that_measured_nothing_has_nothing_to_explain(tmp_path: Path) -> None:
    """It waited for a lcore in vain, say; silence would read as `nothing is narrow`."""
    with pytest.raises(HeadraceError), BundleWriter(tmp_path / "b"):
        raise HeadraceError("lcore 1: held by process 7")
    with pytest.raises(HeadraceError, match="no trials to explain") as caught:
        of(tmp_path / "b")
    assert "lcore 1: held by process 7" in str(caught.value)


def test_what_the_tester_alone_did_is_nothing_to_explain(tmp_path: Path) -> None:
    some = Bundle(make_bundle(tmp_path / "some", repetitions=1)).trials()[0]
    with BundleWriter(tmp_path / "b") as writer:
        writer.trial(some.model_copy(update={"phase": "calibration"}))
    with pytest.raises(HeadraceError, match="no trials to explain: nothing was measured"):
        of(tmp_path / "b")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="allowed: a directory that `headrace run`"):
        of(tmp_path)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two deployments, a trial each; in the second a container's thread is full."""
    path = tmp_path / "b"
    with BundleWriter(path) as writer:
        writer.spec("name: study\nchain: []\n", {})
        writer.environment(environment())
        for number, ns in ((1, 2e8), (2, 9.9e8)):
            folder = f"00{number}"
            fields: dict[str, Any] = {
                "chain": f"chain {number}", "direction": "both", "repetition": 1,
                "execution": "container ovs", "workload": "http", "load_pps": 0,
                "throughput_pps": 1, "throughput_gbps_l1": 0, "throughput_gbps_l2": 0,
                "offered_pps": 0, "sent_pps": 0, "received_pps": 0, "loss_ratio": 0,
                "audit": Audit(verdict="ok"), "trial": number,
                "application": ApplicationFigures(gbps=1),
            }  # fmt: skip
            writer.result(Result(**fields, goal="max"))
            (path / "samples" / folder).mkdir(parents=True)
            samples = "".join(
                json.dumps({"t_ns": t, "values": {"busiest_thread_ns{cache}": t / 1e9 * ns}}) + "\n"
                for t in (0, 10**9, 2 * 10**9)
            )
            writer.sample(f"{folder}/virtualization.jsonl", samples)
            writer.sample(f"{folder}/collectors.json", SAMPLED.model_dump_json())
            times = [{"trial": number, "begin_ns": 10**9, "end_ns": 2 * 10**9}]
            writer.sample(f"{folder}/trials.json", json.dumps(times))
        compared = Compared(
            network="ovs", workload="http", vnf="cache", sentences=("Alone: cache 1.",)
        )
        writer.sample(COMPARED_FILE, f"[{compared.model_dump_json()}]")
    return path


def test_each_deployment_of_a_study_is_looked_at(study: Path) -> None:
    first, second = explain_parts(parts(study))
    assert (first.rule, first.place, first.deployments) == (
        "narrowest-vnf", "ovs, http: cache", ()
    )  # fmt: skip
    assert (second.rule, second.place) == ("busy-thread", "cache")
    assert second.deployments == ("container ovs, chain 2",)


def test_a_report_says_what_the_study_compared(study: Path) -> None:
    shown = document(report(Bundle(study)))
    console = Console(width=120, file=StringIO())
    for line in lines(shown, 120):
        console.print(line)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    for text in (output, render(shown)):
        assert "Bottleneck: cache." in text and "Alone: cache 1." in text
        assert "empty chain" not in text


def test_explain_and_report_are_of_the_same_results(tmp_path: Path) -> None:
    """Both take the strictest goal, all repetitions together; PDR's part is busier, and is not
    taken."""
    path = make_bundle(tmp_path / "b")
    reported = {
        (e.summary.key.execution, e.pipe.headline, e.summary.key.goal)
        for g in report(Bundle(path)).groups
        for e in g.explained
        if e.pipe.narrowest and e.pipe.part(e.pipe.narrowest).role == "chain"
    }
    slow = [d for d in explain_parts(parts(path)) if d.rule.startswith("slow-")]
    explained = {
        (execution, d.text, "ndr")
        for d in slow
        for execution in (d.place.split(", ")[1],)
        if any(", ndr, 3 repetitions, at a load of" in line for line in d.evidence)
    }
    assert len(slow) == len(explained) == 3 and explained == reported


@pytest.mark.parametrize("file", ["bottleneck.json", "001/trials.json", "002/collectors.json"])
@pytest.mark.parametrize("text", ["", "[", "7"])
def test_what_is_cut_short_is_named(study: Path, file: str, text: str) -> None:
    (study / "samples" / file).write_text(text)
    with pytest.raises(BadInput, match=file):
        parts(study)


def test_what_was_not_looked_at_is_said(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explain_command(study)
    text = " ".join(capsys.readouterr().out.split())
    assert "Not looked at: application, virtual-switch, os, hardware: these were not" in text
    assert "This run" not in text
    shutil.rmtree(study / "samples")
    explain_command(study)
    text = " ".join(capsys.readouterr().out.split())
    assert "Not looked at: application, virtualization, virtual-switch, os, hardware" in text
    assert "`collect: true`" in text


def test_a_run_that_was_killed_is_said_to_be(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (study / "status.json").read_text()
    (study / "status.json").write_text(text.replace("complete", "running"))
    explain_command(study)
    assert capsys.readouterr().out.startswith("This run is still running or was killed. What")


def test_a_daemon_that_had_all_of_its_thread_is_named(tmp_path: Path) -> None:
    """The median of three rounds: 0.95; one of them was idle. A speaker would be the tester."""
    some = Bundle(make_bundle(tmp_path / "some", repetitions=1)).results()[0]

    def routes(name: str, *busy: float) -> Evidence:
        with BundleWriter(tmp_path / name) as writer:
            for repetition, cpus in enumerate(busy, 1):
                change = RouteChange(
                    daemon="bird", event="replace", repetition=repetition, routes=200_000,
                    per_s=1e5, seconds=2.0, reaction_s=0.01, busy={"bird": 0.3, name: cpus},
                )  # fmt: skip
                row = some.model_copy(update={"change": change, "goal": "convergence replace"})
                writer.result(row)
        return of(tmp_path / name)

    [daemon] = explain(routes("bird", 0.95, 0.1, 0.97))
    assert (daemon.rule, daemon.weight) == ("busy-daemon", Weight.SHORTAGE)
    assert "bird had 0.95 CPUs while 200\u202f000 routes changed (replace)" in daemon.text
    [speaker] = explain(routes("speaker", 1.0))
    assert speaker.weight == Weight.TESTER and "set the pace" in speaker.remedy
    assert explain(routes("idle", 0.1)) == []
