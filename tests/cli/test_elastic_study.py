# SPDX-License-Identifier: Apache-2.0
"""Elastic segments as a study asks for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.record.bundle import Bundle
from support.lab import headrace, refused_in_a_line

pytestmark = pytest.mark.beside

STUDY = """
name: grows
chain:
  - firewall: {default: permit}
  - nat: {pool: [203.0.113.1]}
deployment: {execution: [rtc, {model: rtc, elastic: 2}], lcores: {shared: true}}
workload: {frame: 128, flows: 256}
measure: {loads: [5k], trial: 0.3 s}
warmup: 0.1 s
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


BECOMES = "[pipeline, {model: pipeline, becomes: [rtc, pipeline], every: 50 ms}, "
BECOMES += "{model: rtc, elastic: 2, becomes: [[[firewall], [nat]], rtc], every: 50 ms}]"


def test_a_chain_goes_to_other_partitions_in_each_trial(
    engine_binary: Path, tmp_path: Path
) -> None:
    spec = STUDY.replace("[rtc, {model: rtc, elastic: 2}]", BECOMES)
    (tmp_path / "s.yaml").write_text(spec)
    done = headrace("run", "s.yaml", "--json", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    plain, becomes, elastic = json.loads(done.stdout)["results"]
    assert becomes["execution"] == "pipeline becomes rtc, pipeline"
    assert plain["partitions"] == []
    for row, ways in ((becomes, {"rtc", "pipeline"}), (elastic, {"rtc", "hybrid firewall|nat"})):
        changes = row["partitions"]
        assert row["received"] == row["sent"] > 0 and row["reordered"] == 0
        # On a busy machine a change may come late; the last of them is always to where it began.
        assert len(changes) >= 2 and {one["to"] for one in changes} == ways
        assert changes[-1]["to"] == ("pipeline" if row is becomes else "rtc")
        assert all(one["functions"] == 2 and one["took_ns"] > one["paused_ns"] for one in changes)
        assert [one["at_s"] for one in changes] == sorted(one["at_s"] for one in changes)
        assert set(row["nf_cycles"]) == {"firewall", "nat"}


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{model: rtc, elastic: 2}", "{model: rtc, becomes: pipeline, replicas: 2}",
         ["deployment.execution", "becomes: beside replicas; allowed: one of them"]),
        ("{model: rtc, elastic: 2}", "{model: rtc, every: 1 s}", ["every: belongs to `becomes`"]),
        ("{model: rtc, elastic: 2}", "{model: rtc, becomes: [[[nat], [firewall]]]}",
         ["becomes", "each once and in order: ['firewall', 'nat']"]),
        ("{model: rtc, elastic: 2}", "{model: rtc, becomes: threads}", ["deployment.execution"]),
        ("{execution: [rtc, {model: rtc, elastic: 2}]",
         "{hosting: process, execution: [{model: rtc, becomes: pipeline}]",
         ["becomes", "with hosting process; allowed: inside one engine"]),
        ("firewall: {default: permit}", "delay", ["elastic, but", "a delay, keeps"]),
        ("name:", "ground: {simulated: {server: xeon-platinum-8168}}\nname:",
         ["deployment.execution", "cannot predict: elastic"]),
    ],
)  # fmt: skip
def test_what_cannot_be_elastic_is_refused_in_a_line(
    engine_binary: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    (tmp_path / "s.yaml").write_text(STUDY.replace(old, new, 1))
    refused_in_a_line(tmp_path / "s.yaml", words, engine_binary)
