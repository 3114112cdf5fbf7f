# SPDX-License-Identifier: Apache-2.0
"""A campaign that is killed and gone on with ends as one that was not."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest

from headrace.cli._testdata import valid
from support import chain_graphs
from support.chain_graphs import FUNCTIONS, rows
from support.lab import COMMAND, command

pytestmark = pytest.mark.parallel
PATIENCE_S = 600.0  # it takes seconds where nobody else has the CPUs


@pytest.fixture
def both_bases(tmp_path: Path) -> Path:
    return chain_graphs.both_bases(tmp_path)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Six chains, predicted for a described server."""
    words = [
        f"  {a}-{b}: [{FUNCTIONS[a]}, {FUNCTIONS[b]}]" for a, b in product(FUNCTIONS, FUNCTIONS)
    ]
    file = tmp_path / "words.yaml"
    file.write_text(
        "name: words\nchains:\n" + "\n".join(words[:6]) + "\nworkload: {flows: 1024}\n"
        "measure: {max: true, loads: [1M]}\nground: {simulated: {server: reference}}\n"
    )
    return file


def campaign(spec: Path, folder: Path, *options: str) -> list[str]:
    return ["campaign", str(spec), "--out", str(folder), "--json", *options]


def run(spec: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command(campaign(spec, folder, *options), spec.parent, timeout=900)


def complete(folder: Path) -> set[str]:
    states = {
        file.parent.name: json.loads(file.read_text()) for file in folder.glob("*/status.json")
    }
    return {name for name, status in states.items() if status["state"] == "complete"}


def kill_after(spec: Path, folder: Path, count: int) -> set[str]:
    """SIGKILL as soon as so many bundles are whole; gives those."""
    arguments = campaign(spec, folder, "--jobs", "1")
    process = subprocess.Popen([str(COMMAND), *arguments], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while len(complete(folder)) < count:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, f"no {count} bundles are whole"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return complete(folder)


def test_killed_twice_it_equals_one_that_was_not(spec: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = run(spec, whole)
    assert done.returncode == 0, done.stderr
    first = kill_after(spec, killed, 1)
    written = {name: (killed / name / "status.json").stat().st_mtime_ns for name in first}
    second = kill_after(spec, killed, len(first) + 2)
    assert first < second and len(second) < 6
    # A run that was killed itself: another chain's rows, to be seen if they were taken for its own.
    unfinished = killed / "6-1"
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(killed / min(first), unfinished)
    status = json.loads((unfinished / "status.json").read_text())
    (unfinished / "status.json").write_text(json.dumps({**status, "state": "running"}))
    again = run(spec, killed)
    assert again.returncode == 0, again.stderr
    for name, at in written.items():
        assert (killed / name / "status.json").stat().st_mtime_ns == at, f"{name} was run again"
    for stem in ("trials", "results"):
        assert len(rows(whole, stem)) == 12  # two loads of six chains
        assert rows(killed, stem) == rows(whole, stem)
    points = [json.loads(one.stdout)["points"] for one in (done, again)]
    assert points[0] == points[1]


@pytest.mark.slow
def test_64_graphs_killed_and_gone_on_with_twice(both_bases: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = run(both_bases, whole)
    assert done.returncode == 0, done.stderr
    first = kill_after(both_bases, killed, 20)
    second = kill_after(both_bases, killed, 45)
    assert 20 <= len(first) < len(second) < 64
    again = run(both_bases, killed)
    assert again.returncode == 0, again.stderr
    for stem in ("trials", "results"):
        assert len(rows(whole, stem)) == 64
        assert rows(killed, stem) == rows(whole, stem)
    points = [json.loads(one.stdout)["points"] for one in (done, again)]
    assert points[0] == points[1]


def test_halving_gives_the_best_most_runs(spec: Path, tmp_path: Path) -> None:
    """The chains are all slower than the generator, as a lower bound is never left out."""
    more = ", ".join([FUNCTIONS["acl"]] * 4)
    spec.write_text(spec.read_text().replace("}]\n", f"}}, {more}]\n"))
    done = run(spec, tmp_path / "c", "--keep", "2")
    assert done.returncode == 0, done.stderr
    points = json.loads(done.stdout)["points"]
    assert [len(one["runs"]) for one in points] == [2, 2, 2, 1, 1, 1]
    medians = [one["median"] for one in points]
    assert medians[:2] == sorted(medians, reverse=True)[:2]
    assert [one["left_out"] for one in points] == [False] * 2 + [True] * 4


def test_a_point_by_its_number_is_the_campaigns(spec: Path, tmp_path: Path) -> None:
    """A replay of its bundle is of that point, too."""
    one = command(("run", spec, "--point", "2", "--out", tmp_path / "b", "--json"), tmp_path)
    assert one.returncode == 0, one.stderr
    assert {row["chain"] for row in json.loads(one.stdout)["results"]} == {"acl-l2"}
    again = command(("run", tmp_path / "b", "--check", "--json"), tmp_path)
    assert again.returncode == 0, again.stderr
    assert [p["chain"] for p in json.loads(again.stdout)["experiments"]] == ["acl-l2"]
    wrong = command(("run", spec, "--point", "7"), tmp_path)
    assert wrong.returncode == 2
    assert wrong.stderr.splitlines()[-1] == (
        "headrace: --point: got 7; allowed: 1 to 6, as the study has no groups"
    )


def test_the_points_for_scripts(spec: Path, tmp_path: Path) -> None:
    """By what `--point` takes; nothing is written for a list."""
    done = run(spec, tmp_path / "c", "--list")
    assert done.returncode == 0, done.stderr
    listed = valid("campaign --list", done.stdout)
    assert listed["study"] == "words" and not (tmp_path / "c").exists()
    assert [one["point"] for one in listed["points"]] == list("123456")
    assert listed["points"][1]["title"].startswith("acl-l2, ")


def test_another_study_does_not_go_on_with_it(spec: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "campaign.json").write_text(
        json.dumps({"spec": "name: other", "server": None, "rule": {}})
    )
    done = run(spec, folder)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"headrace: --out {folder}: its campaign began with another text of the spec; allowed: "
        "the same, or another folder"
    )
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "campaign.json"]


def test_what_differs_from_the_campaign_that_began_is_named(spec: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    rule = {"until": 0.05, "most": 10, "keep": 2}
    order = {"spec": spec.read_text(), "server": None, "rule": rule}
    (folder / "campaign.json").write_text(json.dumps(order))
    for options, words in (
        (("--until", "5%", "--keep", "3"), "--keep: got 3; the campaign in {} began with 2"),
        (("--until", "9%", "--keep", "2"), "--until: got '9%'; the campaign in {} began with '5%'"),
        (("--keep", "2"), "--until: got nothing; the campaign in {} began with '5%'"),
        (("--on", "reference"), "--on: got 'reference'; the campaign in {} began with nothing"),
    ):
        done = run(spec, folder, *options)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1] == (
            f"headrace: {words.format(folder)}; allowed: the same, or another --out"
        )


def test_jobs_are_for_what_is_predicted(tmp_path: Path) -> None:
    here = tmp_path / "here.yaml"
    here.write_text("name: here\nchain: [l2fwd]\n")
    done = run(here, tmp_path / "c", "--pods", "headrace:1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "headrace: --pods: got 'headrace:1'; --on SERVER is missing; allowed: a study that is "
        "predicted, as with --on SERVER; one that is measured on a cluster needs no --pods"
    )
    done = run(here, tmp_path / "c", "--on", "reference", "--pods", "")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("headrace: --pods: got ''; allowed: ")


def test_jobs_without_a_cluster_are_one_line(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kubernetes")
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    done = run(spec, tmp_path / "c", "--pods", "headrace:1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("headrace: Kubernetes: no cluster: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "c").exists()  # where it would keep others from this folder
