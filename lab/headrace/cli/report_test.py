# SPDX-License-Identifier: Apache-2.0
"""headrace report, diff and doctor as a user or a script calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from headrace.cli.diff import diff
from headrace.cli.doctor import doctor, mends
from headrace.cli.explain import explain
from headrace.cli.report import report
from headrace.cli.run import run
from headrace.doctor import engine_build
from headrace.doctor.check import DoctorCheck
from headrace.errors import BadInput
from headrace.record.bundle import Bundle, BundleError, BundleWriter
from headrace.record.environment import Environment
from headrace.record.testdata import make_bundle

RESULT_NAMES = {
    "chain", "direction", "repetition", "execution", "workload", "goal", "load_pps",
    "throughput_pps", "throughput_gbps_l1", "offered_pps", "sent_pps", "received_pps", "loss_ratio",
    "latency_ns", "pdv_ns", "ipdv_ns_mean", "nf_cycles", "utilisation", "drops", "audit",
}  # fmt: skip


def call(*arguments: str | Path) -> Result:
    app = typer.Typer()
    for command in (report, diff, doctor, explain, run):
        app.command(command.__name__)(command)
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("cli") / "edge", repetitions=2)


def test_report_on_a_terminal(bundle: Path) -> None:
    done = call("report", bundle)
    assert done.exit_code == 0
    assert "acl → lb → l3fwd" in done.output
    assert "is narrowest" in done.output
    assert "generator-bound" in done.output


def test_a_bundle_without_results_is_told_in_a_line(bundle: Path, tmp_path: Path) -> None:
    """`diff` had every key of the other bundle as a difference, `report` nothing but a title."""
    [trial, *_] = Bundle(bundle).trials()
    with pytest.raises(KeyboardInterrupt), BundleWriter(tmp_path / "cut") as writer:
        writer.spec("name: cut\nchain: [l2fwd]\n", {"inputs": {}})
        writer.environment(Environment.model_validate_json(_text(bundle / "environment.json")))
        writer.trial(trial)
        raise KeyboardInterrupt
    with BundleWriter(tmp_path / "planned", command=("headrace", "plan", "s.yaml")):
        pass
    words = {"cut": "it holds 1 trial: This run is partial: interrupted.",
             "planned": "it holds 0 trials: it is of `headrace plan`"}  # fmt: skip
    for name, told in words.items():
        other = tmp_path / name
        line = f"{other}: has no results, {told}"
        for command in (
            ("diff", bundle, other),
            ("diff", other, bundle),
            ("report", bundle, other),
        ):
            done = call(*command)
            assert isinstance(done.exception, BundleError) and str(done.exception) == line, command
            assert done.output == ""
        shown = call("report", other)  # which is right of a run that was interrupted
        assert (shown.exit_code, shown.output) == (0, f"{line}\n")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def test_what_another_program_reads_is_not_cut(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    done = call("report", bundle)
    head = next(line for line in done.output.splitlines() if line.startswith("goal"))
    for column in ("spread", "L1 Gbit/s", "loss", "p50", "p99", "PDV p99", "cycles", "audit"):
        assert column in head
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.output
    assert max(map(len, done.output.splitlines())) > 100


def test_report_as_json_has_the_documented_names(bundle: Path) -> None:
    document = json.loads(call("report", bundle, "--json").output)
    assert document["state"] == "complete"
    assert set(document["results"][0]) >= RESULT_NAMES
    assert set(document["results"][0]["latency_ns"]) == {
        "mean", "min", "p50", "p90", "p99", "p999", "max",
    }  # fmt: skip
    assert document["bottlenecks"][0]["narrowest"] == "acl+lb+l3fwd"


def test_report_writes_a_page(bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.html"
    assert call("report", bundle, "--html", target).exit_code == 0
    assert target.read_text().startswith("<!doctype html>")


def test_a_page_that_cannot_be_written_is_bad_input(bundle: Path, tmp_path: Path) -> None:
    done = call("report", bundle, "--html", tmp_path / "no" / "r.html")
    assert "--html" in str(done.exception) and "cannot be written" in str(done.exception)


def test_no_bundle_is_bad_input(tmp_path: Path) -> None:
    commands: list[list[str | Path]] = [["report", tmp_path], ["diff", tmp_path, tmp_path]]
    for command in commands:
        done = call(*command)
        assert isinstance(done.exception, BundleError)
        assert done.exception.exit_status == 2


@pytest.mark.parametrize(
    "name",
    ["trials.parquet", "results.parquet", "spec.yaml", "resolved.json", "environment.json"],
)
def test_a_file_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    """What is left would be shown as if it were all: other figures, stated as sure."""
    one = make_bundle(tmp_path / "b", repetitions=1)
    (one / name).unlink()
    for command in (("report", one), ("diff", one, one), ("explain", one)):
        done = call(*command)
        assert isinstance(done.exception, BundleError)
        assert str(done.exception).startswith(f"{one / name}: is missing; allowed: ")
        assert done.exception.exit_status == 2


def test_a_spec_that_is_empty_is_none(tmp_path: Path) -> None:
    one = make_bundle(tmp_path / "b", repetitions=1)
    (one / "spec.yaml").write_text("\n")
    for command in (("report", one), ("diff", one, one), ("explain", one)):
        done = call(*command)
        assert isinstance(done.exception, BundleError)
        assert str(done.exception).startswith(f"{one / 'spec.yaml'}: is empty; allowed: ")


def test_a_bundle_without_its_status_is_no_folder_of_studies(tmp_path: Path) -> None:
    one = make_bundle(tmp_path / "b", repetitions=1)
    (one / "status.json").unlink()
    for command in (("run", "--check", one), ("explain", one)):
        done = call(*command)
        assert isinstance(done.exception, BundleError)
        assert str(done.exception) == f"{one}: has no status.json; not a bundle of `headrace run`"


def test_a_spec_that_is_nested_deeply(tmp_path: Path) -> None:
    one = make_bundle(tmp_path / "b", repetitions=1)
    (one / "spec.yaml").write_text("[" * 5000)
    done = call("report", one)
    assert isinstance(done.exception, BadInput) and "nested too deeply" in str(done.exception)


def test_a_run_that_has_only_begun_has_no_tables(tmp_path: Path) -> None:
    BundleWriter(tmp_path / "b")
    for journal in (tmp_path / "b").glob("*.jsonl"):
        journal.unlink()
    done = call("report", tmp_path / "b")
    assert done.exit_code == 0
    assert done.output.endswith("it holds 0 trials: This run is still running or was killed.\n")


def test_diff_as_text_and_json(bundle: Path) -> None:
    assert "are the same" in call("diff", bundle, bundle).output
    document = json.loads(call("diff", bundle, bundle, "--json").output)
    assert document["changed"] is False
    assert len(document["compared"]) == 9


def test_doctor_examines_this_machine() -> None:
    done = call("doctor", "--json")
    assert done.exit_code in (0, 1)
    document = json.loads(done.output)
    assert document["ready"] == (done.exit_code == 0)
    names = [c["name"] for c in document["checks"]]
    assert len(names) == len(set(names))
    assert {"lcores", "simd", "tsc", "hugepages", "nics", "af_xdp", "kvm", "perf-counters"} <= set(
        names
    )
    for check in document["checks"]:
        if check["status"] == "missing":
            assert check["means"], f"{check['name']}: what it is missing for"


def test_tools_that_are_not_built_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tmp_path / "headrace-engine"
    alone.touch(mode=0o755)
    monkeypatch.setenv("HEADRACE_ENGINE", str(alone))
    monkeypatch.setenv("PATH", str(tmp_path))
    [tools] = [c for c in engine_build.checks(alone, "make setup") if c.name == "tools"]
    assert (tools.status, tools.mend, tools.required) == ("missing", "make setup", False)
    assert "bench" in tools.found and "profile" in tools.found


def test_what_measuring_needs_is_mended_first() -> None:
    def lacking(name: str, required: bool) -> DoctorCheck:
        return DoctorCheck(
            name=name,
            group="g",
            status="missing",
            found="no",
            mend=f"mend {name}",
            required=required,
        )

    fine = DoctorCheck(name="f", group="g", status="ok", found="yes", mend="not needed")
    assert mends([lacking("a", False), lacking("b", True), fine]) == ["mend b", "mend a"]


@pytest.mark.parametrize("sudo", ["", "sudo "])
def test_packages_are_installed_by_one_command(sudo: str) -> None:
    def lacking(required: bool, *packages: str) -> DoctorCheck:
        command = f"{sudo}apt-get install -y {' '.join(packages)}"
        return DoctorCheck(
            name=packages[0], group="g", status="missing", found="no", mend=command,
            required=required,
        )  # fmt: skip

    several = [
        lacking(False, "podman"),
        lacking(True, "gcc"),
        lacking(False, "qemu", "podman", "gcc"),
    ]
    assert mends(several) == [
        f"{sudo}apt-get install -y gcc",
        f"{sudo}apt-get install -y podman qemu",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("time.json", "7"),
        ("time.json", '{"search": "long"}'),
        ("points.json", "{}"),
        ("points.json", "["),
        ("advice.json", "[]"),
    ],
)
def test_a_strangers_sample_that_is_none_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    bundle = make_bundle(tmp_path / "b", repetitions=1)
    (bundle / "samples" / name).write_text(text)
    done = call("report", bundle)
    assert isinstance(done.exception, BundleError), done.exception
    assert f"samples/{name}: " in str(done.exception) and "\n" not in str(done.exception)


def test_a_strangers_advice_shows_no_file_of_ours(tmp_path: Path) -> None:
    """A link, as an archive may have it: what is wrong with a text shows some of it."""
    bundle = make_bundle(tmp_path / "b", repetitions=1)
    (tmp_path / "shadow").write_text("root:secret")
    (bundle / "samples" / "advice.json").symlink_to(tmp_path / "shadow")
    done = call("report", bundle)
    assert isinstance(done.exception, BundleError)
    assert "is no regular file" in str(done.exception) and "secret" not in str(done.exception)
