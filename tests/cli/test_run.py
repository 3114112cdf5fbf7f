# SPDX-License-Identifier: Apache-2.0
"""A user's way through: the README's experiment, its report, its replay, a comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.lab import headrace, state_left

pytestmark = pytest.mark.beside

REPO = Path(__file__).resolve().parents[2]

RESULT_NAMES = {
    "chain", "direction", "repetition", "execution", "workload", "goal", "load_pps",
    "throughput_pps", "throughput_gbps_l1", "offered_pps", "sent_pps", "received_pps",
    "loss_ratio", "latency_ns", "pdv_ns", "ipdv_ns_mean", "nf_cycles", "utilisation", "drops",
    "audit",
}  # fmt: skip

FIXED_LOADS = """
warmup: 0.1
deployment: {execution: [rtc, pipeline], hugepages: false}
workload: {frame: [64, nfvbench], flows: 4096}
measure: {loads: [20000], trial: 0.2}
"""


def readme_experiment(folder: Path) -> None:
    """The README's own spec and rules; only the search is replaced by short fixed loads."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", (REPO / "README.md").read_text(), re.DOTALL)
    [spec] = [text for kind, text in blocks if kind == "yaml"]
    [rules] = [text for kind, text in blocks if kind == "text"]
    (folder / "as-printed.yaml").write_text(spec)
    chain = spec.partition("deployment:")[0]
    (folder / "mine.yaml").write_text(chain + FIXED_LOADS)
    (folder / "my.rules").write_text(rules)


def run_json(folder: Path, engine: Path, what: str) -> dict[str, Any]:
    done = headrace("run", what, "--json", folder=folder, engine=engine, timeout=600)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def first(engine_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("first")
    readme_experiment(folder)
    return folder, run_json(folder, engine_binary, "mine.yaml")


def test_json_has_the_documented_names(first: tuple[Path, Any]) -> None:
    _, printed = first
    assert set(printed) >= {"bundle", "results"}
    assert len(printed["results"]) == 4  # two execution models, two frame mixes, one load
    for row in printed["results"]:
        assert set(row) >= RESULT_NAMES
        # A stalled machine sends late; then the audit must not call it fine.
        kept = row["sent_pps"] == pytest.approx(20000, rel=0.05)
        assert row["audit"]["verdict"] in (
            ("ok", "suspect", "generator-bound") if kept else ("suspect", "generator-bound")
        )
        assert set(row["nf_cycles"]) == {"acl", "l2fwd"}


def test_nothing_is_left_but_the_bundle(first: tuple[Path, Any]) -> None:
    folder, printed = first
    bundle = folder / printed["bundle"]
    assert {"spec.yaml", "resolved.json", "environment.json", "report.html"} <= {
        path.name for path in bundle.iterdir()
    }
    assert state_left(folder) == []


def test_the_report_needs_no_network(first: tuple[Path, Any]) -> None:
    folder, printed = first
    page = (folder / printed["bundle"] / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)
    assert "<svg" in page


def test_progress_is_on_stderr_and_the_table_on_stdout(engine_binary: Path, tmp_path: Path) -> None:
    chain = "name: empty\nchain: []\n"
    (tmp_path / "empty.yaml").write_text(chain + FIXED_LOADS.replace("[rtc, pipeline]", "rtc"))
    done = headrace("run", "empty.yaml", folder=tmp_path, engine=engine_binary, timeout=600)
    assert done.returncode == 0, done.stderr
    for progress in ("2 measurements, about", "tester alone", "memory: "):
        assert progress in done.stderr and progress not in done.stdout
    for result in ("Bundle: runs/", "Report: runs/", "empty chain", "audit"):
        assert result in done.stdout and result not in done.stderr


def test_replay_and_diff(first: tuple[Path, Any], engine_binary: Path) -> None:
    folder, printed = first
    (folder / "my.rules").unlink()  # the bundle has its own copy
    (folder / "mine.yaml").unlink()
    again = run_json(folder, engine_binary, printed["bundle"])
    assert again["bundle"] != printed["bundle"]
    kept = [sorted(p.name for p in (folder / b / "inputs").iterdir())
            for b in (printed["bundle"], again["bundle"])]  # fmt: skip
    assert kept[0] and kept[0] == kept[1]
    assert len(again["results"]) == len(printed["results"])
    compared = headrace(
        "diff", printed["bundle"], again["bundle"], folder=folder, engine=engine_binary
    )
    assert compared.returncode in (0, 1), compared.stderr
    assert "Traceback" not in compared.stderr


@pytest.mark.parallel
def test_the_functions_describe_themselves(engine_binary: Path, tmp_path: Path) -> None:
    done = headrace("nf", "acl", "--json", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert "denied" in done.stdout
    assert headrace("nf", "none", folder=tmp_path, engine=engine_binary).returncode == 2


@pytest.mark.parallel
def test_doctor_says_what_it_found(engine_binary: Path, tmp_path: Path) -> None:
    done = headrace("doctor", "--json", folder=tmp_path, engine=engine_binary)
    assert done.returncode in (0, 1), done.stderr
    json.loads(done.stdout)
