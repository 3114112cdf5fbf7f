# SPDX-License-Identifier: Apache-2.0
"""A load that changes on an engine of this machine: lcores come and go, and each packet is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headrace.record.operate import operate_logs
from support.lab import headrace, refused_in_a_line

STUDY = """
name: grows
chain:
  - nat: {pool: [203.0.113.1, 203.0.113.2]}
  - firewall: {default: permit}
deployment:
  execution: [{model: rtc, elastic: 2}]
  lcores: {shared: true, traffic: [0], chain: [1, 0]}
workload: {frame: 128, flows: 4096, load: [[0, 200k], [1 s, 100M], [2 s, 200k], [3 s, 200k]]}
measure: {operate: {slo: {p99: 500 ms, loss: 0}, policy: [rsspp, static]}}
"""


def test_lcores_are_added_while_packets_come(engine_binary: Path, tmp_path: Path) -> None:
    """RSS++ gives more than one lcore to what fills one. What is made is what came through, was
    dropped by name, or is still inside: counted by source, sink and functions, each for itself."""
    (tmp_path / "s.yaml").write_text(STUDY)
    done = headrace("run", "s.yaml", "--json", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    grows, static = json.loads(done.stdout)["results"]
    assert [row["goal"] for row in (grows, static)] == ["operate rsspp", "operate static"]
    for row in (grows, static):
        assert row["ground"] == "measured"
        inside = row["operated"]["queued"]
        assert row["sent"] == row["received"] + row["lost"] + row["policy_dropped"] + inside > 0
        assert sum(row["drops"].values()) == row["lost"]
        told = {finding["check"]: finding["ok"] for finding in row["audit"]["findings"]}
        assert told["conservation"] is True
        # The load's three seconds, and the last look, which is late where the machine is busy.
        seconds = row["operated"]["seconds"]
        assert 2.95 <= seconds <= 4
        # Of 10 ms; in some of them a source that was kept from its lcore sent nothing.
        assert 80 * seconds <= row["operated"]["windows"] <= 107 * seconds
    assert grows["operated"]["most_lcores"] == 2 and grows["operated"]["moves"] >= 64
    log = operate_logs(tmp_path / "b")[1]
    assert (log.decisions[0].lcores_before, log.decisions[0].lcores_after) == (1, 2)
    assert max(one.lcores for one in log.course if 1 <= one.at_s <= 2.5) == 2
    page = (tmp_path / "b" / "report.html").read_text()
    assert "generator-bound: " in page and "0 of 0 results" not in page  # 100 Mpps nobody makes
    assert static["operated"]["steps"] == 0 and static["operated"]["mean_lcores"] == 2


SHARED = """
name: two
chains:
  edge: [{nat: {pool: [203.0.113.1]}}, {firewall: {default: permit}}]
  core: [{acl: {rules: [{action: permit}]}}, monitor]
deployment:
  execution: [{model: rtc, elastic: 2}]
  lcores: {shared: true, traffic: [0], chain: [1, 0]}
workload: {frame: 128, flows: 4096}
measure:
  operate:
    slo: {p99: 500 ms, loss: 0}
    policy: [headrace, static]
    chains:
      edge: {weight: 3, load: [[0, 200k], [1 s, 50M], [3 s, 200k], [4 s, 200k]]}
      core: {load: [[0, 200k], [1 s, 50M], [3 s, 200k], [4 s, 200k]]}
"""


def test_chains_share_the_lcores_of_an_engine(engine_binary: Path, tmp_path: Path) -> None:
    """Two chains in one engine, both with more than all lcores carry for two seconds: their sources
    are held back, and they have lcores by 3 to 1. Each is counted by itself, to the packet."""
    (tmp_path / "s.yaml").write_text(SHARED)
    done = headrace("run", "s.yaml", "--json", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [(row["chain"], row["goal"]) for row in rows] == [
        (chain, f"operate {policy}")
        for policy in ("headrace", "static")
        for chain in ("edge", "core")
    ]
    for row in rows:
        assert row["ground"] == "measured"
        shared, inside = row["operated"]["shared"], row["operated"]["queued"]
        assert row["sent"] == row["received"] + row["lost"] + row["policy_dropped"] + inside > 0
        assert sum(row["drops"].values()) == row["lost"]
        told = {finding["check"]: finding["ok"] for finding in row["audit"]["findings"]}
        assert told["conservation"] is True
        # Of 100 M packets in two seconds most were not sent; those that were not are not more.
        assert row["intended"] == pytest.approx(100.4e6, rel=0.1)
        assert 10e6 < shared["held_back"] <= row["intended"] - row["sent"]
        assert shared["lcores"] == 2 and shared["backpressure"] is True
    # Who knows the peaks gives them 3 to 1 of two lcores from the start; the other when they come.
    lcores = [row["operated"]["mean_lcores"] for row in rows[2:]]
    assert lcores == pytest.approx([1.5, 0.5])
    edge, core = list(operate_logs(tmp_path / "b").values())[:2]
    for log, share in ((edge, "1.5"), (core, "0.5")):
        whys = [one.why for one in log.decisions]
        assert any(why.endswith(f"{share} of 2 are its share") for why in whys), whys
    assert edge.operated.most_lcores == 2 and edge.operated.moves > 0
    page = (tmp_path / "b" / "report.html").read_text()
    assert "Chains that share lcores" in page and "held back" in page


@pytest.mark.parallel
def test_it_is_said_before_how_long_the_load_takes(engine_binary: Path, tmp_path: Path) -> None:
    """Three seconds for each of two policies, and what comes before."""
    (tmp_path / "s.yaml").write_text(STUDY)
    done = headrace("run", "--check", "s.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    about = re.search(r"about (\d+) s", done.stdout + done.stderr)
    assert about is not None and 12 <= int(about[1]) <= 20


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[{model: rtc, elastic: 2}]", "pipeline", ["cannot operate: pipeline", "elastic: N"]),
        (", [4 s, 200k]]}\n      core", "]}\n      core",
         ["chains.core.load", "lasts 4 s; covered: 3 s, as the load of edge"]),
        ("monitor]", "{name: a-name-of-thirty-characters-ok, nf: monitor}]",
         ["30 characters", "share an engine: 28"]),
        ("core: [{acl", "core: [{delay: {}}, {acl", ["delay", "elastic"]),
    ],
)  # fmt: skip
def test_chains_that_cannot_share_an_engine_are_refused_in_a_line(
    engine_binary: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    assert old in SHARED
    (tmp_path / "s.yaml").write_text(SHARED.replace(old, new, 1))
    refused_in_a_line(tmp_path / "s.yaml", words, engine_binary)


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[{model: rtc, elastic: 2}]", "rtc", ["cannot operate: rtc", "elastic: N"]),
        ("{model: rtc, elastic: 2}", "{model: pipeline, elastic: 2}", ["rtc, one segment"]),
        ("chain: [1, 0]", "chain: [1]", ["deployment.lcores", "two or more"]),
        ("{operate: {", "{operate: {buckets: 512, ", ["operate.buckets", "covered: 256"]),
        ("{operate: {", "{operate: {interval: 20 ms, ", ["operate.interval", "covered: 0.01"]),
        ("{operate: {", "{operate: {model_error: 0.2, ", ["operate.model_error", "measured"]),
        ("deployment:\n", "deployment:\n  hosting: process\n", ["hosting"]),
    ],
)
def test_what_cannot_be_operated_is_said_in_a_line(
    engine_binary: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    assert old in STUDY
    (tmp_path / "s.yaml").write_text(STUDY.replace(old, new, 1))
    refused_in_a_line(tmp_path / "s.yaml", words, engine_binary)
