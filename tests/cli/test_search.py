# SPDX-License-Identifier: Apache-2.0
"""Searches, maximum rate and both directions on the real engine; interrupts and lost paths."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.record.bundle import Bundle
from support.lab import COMMAND, environment, headrace, state_left

pytestmark = pytest.mark.beside

SPEC = """\
name: small
chain:
  - acl: {rules_file: some.rules, default: deny}
  - l2fwd
deployment: {execution: pipeline, memory_mb: 256, ring: 1024}
workload: {direction: both, frame: csit, flows: 64, headers: {src_ip: 198.18.0.1}}
measure:
  max: true
  trial: 0.2
  drain: 0.02
  patience: 0
  search: [pdr, 50%]
  goals: {initial_trial: 0.1, final_trial: 0.1, duration_sum: 0.2, width: 40%, preceding_targets: 1}
repetitions: 2
warmup: 0.1
"""
RULES = "@198.18.0.0/15\t198.18.0.0/15\t0 : 65535\t0 : 65535\t0x11/0xFF\t0x0000/0x0000\n"


@pytest.fixture(scope="module")
def searched(engine_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("run")
    (folder / "small.yaml").write_text(SPEC)
    (folder / "some.rules").write_text(RULES)
    arguments = ("run", "small.yaml", "--json", "--out", "b")
    done = headrace(*arguments, folder=folder, engine=engine_binary, timeout=600)
    assert done.returncode == 0, done.stderr
    assert state_left(folder) == []
    return folder / "b", json.loads(done.stdout)


def test_every_combination_is_there(searched: tuple[Path, Any]) -> None:
    _, printed = searched
    combinations = {
        (r["execution"], r["repetition"], r["direction"], r["goal"]) for r in printed["results"]
    }
    assert combinations == {
        ("pipeline", repetition, direction, goal)
        for repetition in (1, 2)
        for direction in ("forward", "reverse", "both")
        for goal in ("max", "pdr", "loss-50%")
    }


def test_bounds_are_stated(searched: tuple[Path, Any]) -> None:
    bundle, _ = searched
    for result in Bundle(bundle).results():
        if result.goal == "max":
            continue
        assert result.bounds is not None and result.goal_parameters is not None
        assert result.bounds.trials > 0 and result.bounds.stopped_by
        if result.bounds.lower_pps is not None:
            assert result.loss_ratio <= result.goal_parameters.loss_ratio or (
                result.direction != "both"
            )


def test_the_sum_of_the_directions(searched: tuple[Path, Any]) -> None:
    bundle, _ = searched
    trials = Bundle(bundle).trials()
    assert trials
    for both in (t for t in trials if t.direction == "both"):
        parts = [t for t in trials if t.trial == both.trial and t.direction != "both"]
        assert both.sent == sum(t.sent for t in parts)
        assert both.received == sum(t.received for t in parts)
        assert all(f.ok for f in both.audit.findings if f.check == "conservation")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_leaves_a_usable_bundle(
    engine_binary: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    (tmp_path / "long.yaml").write_text(
        "name: long\nchain: []\nwarmup: 0\nmeasure: {loads: [1k, 2k, 3k], trial: 1}\n"
        "deployment: {memory_mb: 128}\n"
    )
    with subprocess.Popen(
        [str(COMMAND), "run", "long.yaml", "--out", "b"],
        cwd=tmp_path,
        env=environment(tmp_path, engine_binary),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        journal = tmp_path / "b" / "results.jsonl"
        deadline = time.monotonic() + 300
        while not (journal.exists() and journal.stat().st_size) and time.monotonic() < deadline:
            assert run.poll() is None, run.communicate()[0]
            time.sleep(0.05)
        run.send_signal(number)
        output, _ = run.communicate(timeout=120)
    assert run.returncode == status, output
    assert "Traceback" not in output
    partial = Bundle(tmp_path / "b")
    assert partial.status.state == "partial" and partial.results() and partial.trials()
    assert (tmp_path / "b" / "report.html").is_file()
    assert state_left(tmp_path) == []


def test_a_lost_path_names_the_element(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "deny.yaml").write_text(
        "name: deny\nchain: [l2fwd, {acl: {default: deny}}]\nwarmup: 0\n"
        "measure: {loads: [1k], trial: 0.1}\ndeployment: {memory_mb: 128}\n"
    )
    done = headrace("run", "deny.yaml", folder=tmp_path, engine=engine_binary, timeout=600)
    assert done.returncode == 1
    assert "output of acl" in done.stderr and "denied-by-default" in done.stderr
    assert "Traceback" not in done.stderr and state_left(tmp_path) == []
