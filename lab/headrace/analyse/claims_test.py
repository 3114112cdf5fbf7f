# SPDX-License-Identifier: Apache-2.0
"""Claims are judged by rows that can be trusted, and by nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headrace.analyse.claims import check_claims, judge_claims, keep_claims, tally
from headrace.cli.report import report
from headrace.errors import EXIT_CONTRADICTED, EXIT_NOT_COMPARABLE, BadInput
from headrace.host.server import detect
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.claim import JudgedClaim
from headrace.record.rows import Result
from headrace.record.testdata import environment
from headrace.record.verdict import Audit, Finding, Verdict
from headrace.report.claims import sections as claims_section
from headrace.report.document_model import Row, Table
from headrace.spec import document
from headrace.spec.base import MedianRange
from headrace.spec.calibration import Calibration
from headrace.spec.claim import Claim

RATE = "SELECT median(throughput_pps) FROM results WHERE execution = '{}'"
FASTER = "SELECT {} > {}".format(*(f"({RATE.format(name)})" for name in ("rtc", "pipeline")))


def row(execution: str, pps: float, verdict: Verdict = "ok") -> Result:
    return Result(
        chain="edge", direction="forward", repetition=1, execution=execution, workload="64B",
        goal="ndr", load_pps=pps, throughput_pps=pps, throughput_gbps_l1=1, throughput_gbps_l2=1,
        offered_pps=pps, sent_pps=pps, received_pps=pps, loss_ratio=0,
        audit=Audit(verdict=verdict),
    )  # fmt: skip


def bundle_of(folder: Path, *rows: Result) -> Bundle:
    with BundleWriter(folder / "b") as writer:
        writer.spec("name: x\nchain: []\n", {})
        writer.environment(environment())
        for one in rows:
            writer.result(one)
    return Bundle(folder / "b")


def claim(query: str, **more: Any) -> Claim:
    return Claim.model_validate({"text": "so", "query": query, **more})


def judged(bundle: Bundle, one: Claim, lacks: str | None = None) -> JudgedClaim:
    [result] = judge_claims(bundle, {"c": one}, lambda _: lacks, "Wang et al. 2016")
    return result


def two_rows(folder: Path) -> Bundle:
    return bundle_of(folder, row("rtc", 2e6), row("pipeline", 1e6))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """For those that only read it."""
    return two_rows(tmp_path_factory.mktemp("measured"))


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ({"expected": 2e6}, "confirmed"),
        ({"expected": "2e6"}, "confirmed"),  # as YAML has 2e6
        ({"expected": ["1.5e6", "2e+6"]}, "confirmed"),
        ({"published": 2.1e6}, "contradicted"),
        ({"published": 2.1e6, "tolerance": "5%"}, "confirmed"),
        ({"published": 2.2e6, "tolerance": "5%"}, "contradicted"),
        ({"expected": [1.5e6, 2e6]}, "confirmed"),
        ({"expected": [1.5e6, 1.9e6]}, "contradicted"),
        ({"expected": [1.5e6, 1.9e6], "tolerance": 0.1}, "confirmed"),
    ],
)
def test_a_number_is_held_against_its_tolerance(
    measured: Bundle, value: dict[str, Any], verdict: str
) -> None:
    one = judged(measured, claim(RATE.format("rtc"), **value))
    assert (one.verdict, one.measured, one.why) == (verdict, 2e6, None)
    assert one.paper == ("Wang et al. 2016" if "published" in value else None)


def test_truth_and_text(measured: Bundle) -> None:
    assert judged(measured, claim(FASTER, expected=True)).verdict == "confirmed"
    assert judged(measured, claim(FASTER, expected=False)).verdict == "contradicted"
    best = "SELECT execution FROM results ORDER BY throughput_pps DESC LIMIT 1"
    assert judged(measured, claim(best, expected="rtc")).verdict == "confirmed"
    assert judged(measured, claim(best, expected="pipeline")).verdict == "contradicted"


@pytest.mark.parametrize(
    ("query", "more", "lacks", "why"),
    [
        (RATE.format("hybrid"), {}, None, "No row answers it."),
        (RATE.format("rtc"), {}, "It needs 8 lcores.", "It needs 8 lcores."),
        (RATE.format("rtc"), {"unlike": "Their NIC drops."}, None, "Their NIC drops."),
        (FASTER, {}, None, "The query gives a truth value, the claim is a number."),
        ("SELECT throughput_pps FROM results", {}, None, "The query gives more than one row."),
        ("SELECT [1, 2]", {}, None, "The query gives [1, 2], which is no number"),
        ("SELECT 1 / 0.0", {}, None, "No row answers it."),
    ],
)
def test_why_a_claim_is_not_comparable(
    measured: Bundle, query: str, more: dict[str, Any], lacks: str | None, why: str
) -> None:
    one = judged(measured, claim(query, expected=1, **more), lacks)
    assert one.verdict == "not-comparable" and one.why is not None and one.why.startswith(why)


def test_rows_that_no_audit_trusts_judge_nothing(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, row("rtc", 2e6, "suspect"), row("pipeline", 1e6))
    rate = judged(bundle, claim(RATE.format("rtc"), expected=2e6))
    assert rate.verdict == "not-comparable" and rate.measured == 2e6
    assert rate.why == "Only rows that the audit does not trust answer it (1 suspect)."
    assert judged(bundle, claim(RATE.format("pipeline"), expected=1e6)).verdict == "confirmed"


def test_a_doubtful_row_that_makes_no_difference_does_not_matter(tmp_path: Path) -> None:
    rows = [row("rtc", 2e6), row("rtc", 2.02e6), row("rtc", 2.1e6, "generator-bound")]
    bundle = bundle_of(tmp_path, *rows)
    near = judged(bundle, claim(RATE.format("rtc"), expected=2e6, tolerance=0.05))
    assert (near.verdict, near.measured) == ("confirmed", 2.01e6)
    depends = judged(bundle, claim(RATE.format("rtc"), expected=2.02e6, tolerance=0.001))
    assert depends.verdict == "not-comparable" and depends.why is not None
    assert "2020000.0 with them, 2010000.0 without" in depends.why


def test_a_claim_that_one_repetition_decides_is_not_judged(tmp_path: Path) -> None:
    """With 1.0, 1.1 and 2.0 Mpps the mean is above 1.2 by the third one alone."""

    def several(*pps: float) -> list[Result]:
        rows = [row("rtc", each) for each in pps]
        return [one.model_copy(update={"repetition": n}) for n, one in enumerate(rows, 1)]

    mean = claim("SELECT avg(throughput_pps) > 1.2e6 FROM results", expected=True)
    one = judged(bundle_of(tmp_path / "differs", *several(1e6, 1.1e6, 2e6)), mean)
    assert (one.verdict, one.measured) == ("not-comparable", True)
    assert one.why == "It depends on repetition 3 of 3: true with it, false without."
    agree = bundle_of(tmp_path / "agree", *several(1.3e6, 1.4e6, 1.5e6))
    assert judged(agree, mean).verdict == "confirmed"


def test_a_claim_that_only_one_trusted_repetition_answers_is_not_judged(tmp_path: Path) -> None:
    rows = [row("rtc", 2e6), row("rtc", 2e6, "suspect")]
    bundle = bundle_of(
        tmp_path, *(one.model_copy(update={"repetition": n}) for n, one in enumerate(rows, 1))
    )
    one = judged(bundle, claim(RATE.format("rtc"), expected=2e6))
    assert (one.verdict, one.measured) == ("not-comparable", 2e6)
    assert one.why == (
        "Of 2 repetitions only number 1 answers it by rows that the audit trusts, with 2,000,000."
    )


def test_a_prediction_needs_no_audit(tmp_path: Path) -> None:
    predicted = row("rtc", 2e6, "not-audited").model_copy(update={"ground": "predicted"})
    bundle = bundle_of(tmp_path, predicted)
    assert judged(bundle, claim(RATE.format("rtc"), expected=2e6)).verdict == "confirmed"


@pytest.mark.parametrize(
    ("selection", "query", "verdict"),
    [
        ({"figure": 12}, RATE.format("hybrid"), "not-run"),
        ({"group": "a"}, "SELECT 1 FROM results WHERE chain = 'b-1'", "not-run"),
        ({"group": "a"}, "SELECT 1 FROM results WHERE chain LIKE 'a-_'", "not-comparable"),
        ({"quick": True}, RATE.format("hybrid"), "not-comparable"),
        ({"figure": 12}, RATE.format("rtc"), "confirmed"),
    ],
)
def test_a_claim_of_points_that_were_not_asked_for_is_not_run(
    tmp_path: Path, selection: dict[str, Any], query: str, verdict: str
) -> None:
    """It was told as one that no row answers, or whose server is another, in lines of its own."""
    with BundleWriter(tmp_path / "b") as writer:
        writer.spec(
            "name: x\n", {"selection": selection, "points": [{"group": "a", "point": "a-1"}]}
        )
        writer.result(row("rtc", 2e6))
    bundle = Bundle(tmp_path / "b")
    one = judged(bundle, claim(query, expected=2e6), None)
    assert one.verdict == verdict
    doc = claims_section([one])
    lines = [line for section in doc for block in section.blocks for line in _lines_of(block)]
    assert bool(lines) == (verdict != "not-run")
    assert "1 claim: 1 " + verdict.replace("-", " ") in doc[0].about


@pytest.mark.parametrize("predicted", [False, True])
def test_what_is_predicted_is_not_called_measured(predicted: bool) -> None:
    """The paper is named once, and not in each row."""
    given: dict[str, Any] = {
        "text": "It is.", "claimed": 1, "tolerance": 0.1, "query": "", "measured": 1.0,
        "verdict": "confirmed", "unit": "", "why": None,
    }  # fmt: skip
    claims = [
        JudgedClaim(name="theirs", paper="A paper", published=True, **given),
        JudgedClaim(name="ours", paper=None, published=False, **given),
    ]
    [section] = claims_section(claims, predicted)
    assert section.about == "A paper. 2 claims: 2 confirmed"
    table = section.blocks[0]
    assert isinstance(table, Table)
    name = [one if isinstance(one, str) else one.name for one in table.columns][1]
    assert name == ("predicted" if predicted else "measured")
    by = [line.cells[3] for line in table.rows if isinstance(line, Row)]
    assert by == ["the paper", "expected"]


def _lines_of(block: object) -> tuple[object, ...]:
    return block.lines if isinstance(block, Table) else getattr(block, "texts", ())


def test_a_run_that_did_not_end_judges_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), BundleWriter(tmp_path / "b") as writer:
        writer.result(row("rtc", 2e6))
        raise KeyboardInterrupt
    one = judged(Bundle(tmp_path / "b"), claim(RATE.format("rtc"), expected=2e6))
    assert (one.verdict, one.why) == ("not-comparable", "This run is partial: interrupted.")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT troughput_pps FROM results", 'Referenced column "troughput_pps" not found'),
        ("SELECT 1, 2", "gives 2 columns; allowed: one value"),
        ("SELECT 1; SELECT 2", "is not one SELECT"),
        ("DELETE FROM results", "is not one SELECT"),
        ("COPY results TO 'stolen.csv'", "is not one SELECT"),
        ("INSTALL httpfs", "is not one SELECT"),
        ("SET enable_external_access = true", "is not one SELECT"),
        ("SELECT count(*) FROM read_text('{file}')", "disabled by configuration"),
        ("SELECT count(*) FROM '{file}'", "disabled by configuration"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_a_bad_query_is_bad_input_with_its_line(tmp_path: Path, query: str, problem: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    text = query.replace("{file}", str(file)).replace('"', '\\"')
    spec = f'name: x\nclaims:\n  c:\n    text: so\n    query: "{text}"\n    expected: 1\n'
    doc = document.parse(spec, tmp_path / "x.yaml")
    claims = {"c": Claim.model_validate(doc.data["claims"]["c"])}
    with pytest.raises(BadInput) as caught:
        check_claims(claims, doc)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/x.yaml:5: claims.c.query: ") and problem in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        ([2e6, True], 0),
        ([2e6, False], EXIT_CONTRADICTED),
        ([2e6, "yes"], EXIT_NOT_COMPARABLE),
        ([3e6, "yes"], EXIT_CONTRADICTED),  # the graver one
    ],
)
def test_the_exit_status_tells(tmp_path: Path, expected: list[Any], status: int) -> None:
    measured = two_rows(tmp_path)
    queries = (RATE.format("rtc"), FASTER)
    claims = {
        f"c{i}": claim(q, expected=e)
        for i, (q, e) in enumerate(zip(queries, expected, strict=True))
    }
    keep_claims(measured, judge_claims(measured, claims, lambda _: None))
    app = typer.Typer()
    app.command("report")(report)
    done = CliRunner().invoke(app, [str(measured.path), "--claims"])
    assert done.exit_code == status
    assert tally(measured.claims) in done.output
    assert CliRunner().invoke(app, [str(measured.path)]).exit_code == 0


def test_claims_of_a_run_that_ended_before_any_result_are_not_comparable(tmp_path: Path) -> None:
    text = "name: x\nchain: []\nclaims: {c: {text: so, query: SELECT 1, expected: 1}}\n"
    with pytest.raises(KeyboardInterrupt), BundleWriter(tmp_path / "b") as writer:
        writer.spec(text, {})
        raise KeyboardInterrupt
    app = typer.Typer()
    app.command()(report)
    shown = CliRunner().invoke(app, [str(tmp_path / "b"), "--claims"])
    assert shown.exit_code == EXIT_NOT_COMPARABLE
    assert "interrupted" in shown.stdout


def calibration() -> Calibration:
    def figure(value: float) -> MedianRange:
        return MedianRange(median=value, min=value, max=value)

    transfer = {"from": 0, "to": 1, "clean": figure(90), "modified": figure(95), "own": figure(5)}
    quantiles = {"count": 1, "p50": 1, "p99": 1, "max": 1}
    return Calibration.model_validate(
        {
            "created_at": "now", "headrace": "1", "server": detect().model_dump(),
            "load_average": 0, "locate": {"classes": (), "agreement": 1},
            "levels": [{"name": "L2", "bytes": 1, "reaches_bytes": 1, "cycles": 14.5}],
            "measured": {
                "cpus": (0, 1), "l1_bytes": 1, "l2_bytes": 1, "llc_bytes": 1, "rounds": 1,
                "tsc_hz": 2e9, "chase": (), "gather": (), "ring": (), "share": None, "placed": (),
                "transfer": [transfer],
                "clock": {
                    "tsc_hz": 2e9, "read_cycles": figure(20), "step_cycles": 1, "skew": (),
                    "sleep_late_ns": quantiles,
                    "interruptions_ns": {**quantiles, "per_s": 1, "share": 0},
                },
            },
        }
    )  # fmt: skip


def test_a_claim_may_be_of_the_calibration_that_the_run_kept(tmp_path: Path) -> None:
    """Its columns are there without one, too, but no row is."""
    level = claim(
        "select l.cycles from (select unnest(levels) as l from calibration) where l.name = 'L2'",
        expected=14.5,
    )
    moved = claim(
        "select median(t.clean.median) from (select unnest(measured.transfer) as t "
        "from calibration) where t.source = 0 and t.target = 1",
        expected=90,
    )
    with BundleWriter(tmp_path / "calibrated") as writer:
        writer.calibration(calibration())
    for one in (level, moved):
        assert judged(Bundle(tmp_path / "calibrated"), one).verdict == "confirmed"
        without = judged(bundle_of(tmp_path / one.query[-1:], row("rtc", 1e6)), one)
        assert (without.verdict, without.why) == ("not-comparable", "No row answers it.")


def test_a_point_that_is_not_there_gives_the_reason(tmp_path: Path) -> None:
    """Where the query names it; what other points lack is no reason."""
    told = [
        {"group": "edge", "point": "edge-1"},
        {"group": "far", "point": "far-18-1", "skipped": "needs 2 NUMA nodes"},
        {"group": "far", "point": "far-18-2", "failed": "engine died"},
        {"group": "x", "point": "other-1", "skipped": "needs KVM"},
    ]
    bundle = bundle_of(tmp_path, row("rtc", 1e6))
    (bundle.path / "samples" / "points.json").write_text(json.dumps(told))
    whys = {
        "chain = 'far-18-1'": "No row answers it: far-18-1 was skipped: needs 2 NUMA nodes.",
        "chain like 'far-18-_' and loss_ratio > 2": (
            "No row answers it: far-18-1 was skipped: needs 2 NUMA nodes; "
            "far-18-2 failed: engine died."
        ),
        "chain = 'edge-1'": "No row answers it.",
    }
    for where, why in whys.items():
        one = claim(f"select max(load_pps) from results where {where}", expected=1)
        assert judged(bundle, one).why == why


def doubted(pps: float, *checks: str, verdict: Verdict = "suspect") -> Result:
    failed = tuple(Finding(check=check, ok=False, text=f"{check}.") for check in checks)
    fine = Finding(check="late", ok=True, text="None was late.")
    return row("rtc", pps).model_copy(
        update={"audit": Audit(verdict=verdict, findings=(*failed, fine))}
    )


def numbered(rows: list[Result]) -> list[Result]:
    return [one.model_copy(update={"repetition": n}) for n, one in enumerate(rows, 1)]


FAST = "SELECT median(throughput_pps) > 1e6 FROM results"


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([doubted(2e6, "preemption", "alone")] * 6, "confirmed"),
        ([doubted(5e5, "standstill")] * 6, "contradicted"),
        ([doubted(2e6, "preemption")] * 5, "not-comparable"),  # five may agree by chance
        ([doubted(2e6, "preemption")] * 8 + [doubted(9e5, "pace")], "not-comparable"),
        ([doubted(2e6, "preemption")] * 5 + [doubted(2e6, "preemption", "late")], "not-comparable"),
        ([doubted(2e6, "late")] * 6, "not-comparable"),
        ([doubted(2e6, "stall", verdict="invalid")] * 6, "not-comparable"),
        ([doubted(2e6, "preemption")] * 5 + [row("rtc", 2e6)], "confirmed"),
    ],
)
def test_rows_that_were_disturbed_judge_where_each_of_six_repetitions_agrees(
    tmp_path: Path, rows: list[Result], verdict: str
) -> None:
    one = judged(bundle_of(tmp_path, *numbered(rows)), claim(FAST, expected=True))
    assert one.verdict == verdict
    if verdict != "not-comparable":
        assert one.why == "Each of 6 repetitions on a disturbed machine says so."


@pytest.mark.parametrize(
    ("of", "checks", "verdict"),
    [
        ("cycles", ["generator-limit"], "confirmed"),
        ("cycles", ["generator-limit", "sink"], "confirmed"),
        ("rate", ["generator-limit"], "not-comparable"),
        ("cycles", ["generator-limit", "late"], "not-comparable"),
    ],
)
def test_cycles_are_the_same_where_the_generator_was_the_limit(
    tmp_path: Path, of: str, checks: list[str], verdict: str
) -> None:
    rows = numbered([doubted(2e6, *checks, verdict="generator-bound")] * 2)
    one = judged(bundle_of(tmp_path, *rows), claim(FAST, expected=True, of=of))
    assert one.verdict == verdict and (one.why is None) == (verdict == "confirmed")
