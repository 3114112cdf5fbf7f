# SPDX-License-Identifier: Apache-2.0
"""What commands that need the engine print with --json is what the published schema says, and a
study's claims are judged at its run's end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli._testdata import valid
from headrace.errors import EXIT_CONTRADICTED, EXIT_NOT_COMPARABLE
from support.lab import headrace

pytestmark = pytest.mark.beside

STUDY = """\
name: claims
chain: [l2fwd]
deployment: {execution: rtc, hugepages: false}
workload: {frame: 64, flows: 64}
warmup: 0.2
measure: {loads: [20000], trial: 0.5}
claims:
  none-created:
    text: Nobody receives more than was sent
    query: SELECT max(received - sent) <= 0 FROM results
    expected: true
  most-arrives:
    text: The chain delivers what is offered
    query: SELECT median(throughput_pps) FROM results
    expected: 20000
    tolerance: 10%
  half-lost:
    text: Half of the packets are lost (false on purpose)
    query: SELECT median(loss_ratio) FROM results
    published: 0.5
    tolerance: 20%
    paper: a paper that nobody wrote
"""


@pytest.fixture(scope="module")
def run(engine_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, Any]:
    folder = tmp_path_factory.mktemp("claims")
    (folder / "study.yaml").write_text(STUDY)
    arguments = ("run", "study.yaml", "--out", "b", "--json", "--claims")
    done = headrace(*arguments, folder=folder, engine=engine_binary, timeout=600)
    assert done.stdout, done.stderr
    return folder, done.returncode, valid("run", done.stdout)


def test_claims_are_judged_at_a_runs_end(run: tuple[Path, int, Any]) -> None:
    folder, status, output = run
    claims = {one["name"]: one for one in output["claims"]}
    assert json.loads((folder / "b" / "claims.json").read_text()) == output["claims"]
    trusted = {row["audit"]["verdict"] for row in output["results"]} == {"ok"}
    verdicts = [claims[name]["verdict"] for name in ("none-created", "most-arrives", "half-lost")]
    if trusted:
        assert verdicts == ["confirmed", "confirmed", "contradicted"]
        assert status == EXIT_CONTRADICTED
    else:  # other work disturbed the only trial: nothing may be said by it
        assert verdicts == ["not-comparable"] * 3 and status == EXIT_NOT_COMPARABLE
        assert all("does not trust" in one["why"] for one in claims.values())


def test_a_bundle_of_a_run(run: tuple[Path, int, Any], engine_binary: Path) -> None:
    folder, _, output = run
    for command, arguments in (
        ("report", ["report", "b"]),
        ("diff", ["diff", "b", "b"]),
        ("explain", ["explain", "b"]),
        ("run --check", ["run", "b", "--check"]),
    ):
        done = headrace(*arguments, "--json", folder=folder, engine=engine_binary)
        assert done.returncode == 0, done.stderr
        printed = valid(command, done.stdout)
        if command == "report":
            assert printed["claims"] == output["claims"]
            assert printed["results"] == output["results"]


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("command", "arguments"),
    [("nf", ["nf"]), ("nf NAME", ["nf", "acl"]), ("nf NAME", ["nf", "ring"])],
)
def test_what_the_engine_describes(
    command: str, arguments: list[str], tmp_path: Path, engine_binary: Path
) -> None:
    done = headrace(*arguments, "--json", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert valid(command, done.stdout)


@pytest.mark.parallel
def test_each_function_and_link_has_one_line(tmp_path: Path, engine_binary: Path) -> None:
    done = headrace("nf", folder=tmp_path, engine=engine_binary)
    kinds = json.loads(headrace("nf", "--json", folder=tmp_path, engine=engine_binary).stdout)
    lines = [line.split(None, 1) for line in done.stdout.splitlines() if line.startswith("  ")]
    names = [*sorted(kinds["nfs"]), *sorted(kinds["links"])]
    assert [name for name, _ in lines] == names
    for name, doc in lines:
        assert (kinds["nfs"] | kinds["links"])[name]["doc"].startswith(doc)
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parallel
def test_a_query_that_cannot_be_asked(tmp_path: Path, engine_binary: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("max(received", "max(recieved"))
    done = headrace("run", "study.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2 and done.stdout == ""
    assert "study.yaml:10: claims.none-created.query: " in done.stderr
    assert not (tmp_path / "runs").exists()
