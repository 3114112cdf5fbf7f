# SPDX-License-Identifier: Apache-2.0
"""Elastic segments as a study asks for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.record.bundle import Bundle
from support.lab import headrace

STUDY = """
name: grows
chain:
  - firewall: {default: permit}
  - nat: {pool: [203.0.113.1]}
deployment: {execution: [rtc, {model: rtc, elastic: 2}], lcores: {shared: true}}
workload: {frame: 128, flows: 256}
measure: {loads: [20k], trial: 0.5 s}
warmup: 0.2 s
"""


def test_a_study_says_how_many_replicas_there_may_be(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(STUDY)
    done = headrace("run", "s.yaml", "--json", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert "elastic: each segment may have 2 replicas; spare for them:" in done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [row["execution"] for row in rows] == ["rtc", "rtc elastic 2"]
    assert all(row["received"] == row["sent"] > 0 for row in rows)
    resolved = Bundle(tmp_path / "b").spec_resolved
    assert resolved is not None
    plans = [one["plan"]["segments"][1] for one in resolved["experiments"]]
    assert [one.get("elastic") for one in plans] == [None, 2]


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("firewall: {default: permit}", "delay", ["elastic, but", "a delay, keeps"]),
        ("name:", "ground: {simulated: {server: xeon-platinum-8168}}\nname:",
         ["deployment.execution", "cannot predict: elastic"]),
    ],
)  # fmt: skip
def test_what_cannot_be_elastic_is_refused_in_a_line(
    engine_binary: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    (tmp_path / "s.yaml").write_text(STUDY.replace(old, new, 1))
    done = headrace("run", "--check", "s.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("headrace: s.yaml") and done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
