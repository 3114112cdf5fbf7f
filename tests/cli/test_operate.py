# SPDX-License-Identifier: Apache-2.0
"""A load that changes, from the command line: the bundle, its replay, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.record.operate import operate_logs
from support.lab import headrace, refused_in_a_line

pytestmark = pytest.mark.parallel

STUDY = """
name: steps
ground: {simulated: {server: xeon-platinum-8168}}
chain:
  - firewall: {default: permit}
  - nat: {pool: [203.0.113.1]}
deployment: {execution: rtc, lcores: {traffic: [0, 1], chain: [2, 3, 4]}}
workload: {flows: 4096, load: [[0, 5M], [1 s, 40M], [2 s, 40M]]}
measure: {operate: {slo: "p99=1ms,loss=0", policy: [headrace, static]}}
"""


def study(folder: Path, old: str = "", new: str = "", text: str = STUDY) -> None:
    assert old in text
    (folder / "s.yaml").write_text(text.replace(old, new))


def test_a_bundle_has_every_decision_and_is_replayed(engine_binary: Path, tmp_path: Path) -> None:
    """With the SLO of the command line, which is the bundle's from then on."""
    study(tmp_path)
    asked = ("operate", "s.yaml", "--slo", "p99=300us,loss=1%", "--json", "--out", "b")
    done = headrace(*asked, folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [row["goal"] for row in rows] == ["operate headrace", "operate static"]
    logs = operate_logs(tmp_path / "b")
    for row, log in zip(rows, logs.values(), strict=True):
        assert row["operated"] == log.operated.model_dump()
        assert row["sent"] == row["received"] + row["lost"] + row["operated"]["queued"]
        assert row["operated"]["slo_p99_ns"] == pytest.approx(300e3)
    assert logs[1].decisions[0].lcores_after > logs[1].decisions[0].lcores_before
    replayed = headrace("run", "b", "--json", "--out", "c", folder=tmp_path, engine=engine_binary)
    assert replayed.returncode == 0, replayed.stderr
    again = json.loads(replayed.stdout)["results"]
    assert [row["operated"] for row in again] == [row["operated"] for row in rows]
    explained = headrace("explain", "b", folder=tmp_path, engine=engine_binary)
    assert explained.returncode == 0, explained.stderr
    assert "headrace: " in explained.stdout and "SLO kept in" in explained.stdout
    page = (tmp_path / "c" / "report.html").read_text()
    assert "A load that changes" in page and "windows that broke the SLO" in page


def test_a_repetition_has_packets_of_its_own(engine_binary: Path, tmp_path: Path) -> None:
    study(tmp_path, "name: steps", "name: steps\nrepetitions: 2")
    done = headrace("run", "s.yaml", "--json", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [(row["goal"], row["repetition"]) for row in rows] == [
        (f"operate {policy}", n) for n in (1, 2) for policy in ("headrace", "static")
    ]
    assert rows[1]["sent"] != rows[3]["sent"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("load: [[0, 5M], [1 s, 40M], [2 s, 40M]]", "direction: forward", ["workload.load: none"]),
        ("[1 s, 40M], [2 s", "[3 s, 40M], [2 s", ["workload.load", "times that ascend"]),
        ("load: [", "load: {trace: no.csv, unit: gbps}, headers: {}} #", ["no such file"]),
        ("p99=1ms,loss=0", "p99=1ms,los=0", ["measure.operate.slo", "p99=200us,loss=0"]),
        ("rtc", "{segments: [[firewall], [nat]]}", ["deployment.execution", "covered: rtc"]),
        ("chain: [2, 3, 4]", "chain: [1, 2], shared: true", ["lcore 1 has traffic and chain"]),
        ("execution: rtc", "execution: rtc, steer: even", ["deployment.steer", "covered: hash"]),
        (
            "ground: {simulated: {server: xeon-platinum-8168}}",
            "ground: {kubernetes: {}}",
            ["measure.operate", "--on"],
        ),
        ("[headrace, static]", "[headrace, headrace]", ["policy", "each once"]),
        ("measure: {", "measure: {max: true, ", ["operate: beside max"]),
        ("[1 s, 40M], [2 s", "[1 ms, 40M], [2 ms", ["workload.load", "lasts 0.002 s", "0.01 s"]),
    ],
)
def test_what_cannot_be_operated_is_refused_in_a_line(
    engine_binary: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    study(tmp_path, old, new)
    refused_in_a_line(tmp_path / "s.yaml", words, engine_binary)


SHARED = """
name: two
ground: {simulated: {server: xeon-platinum-8168}}
chains:
  edge: [{firewall: {default: permit}}, {nat: {pool: [203.0.113.1]}}]
  core: [l2fwd, {firewall: {default: permit}}]
deployment: {execution: pipeline, lcores: {traffic: [0, 1], chain: [2]}}
workload: {flows: 4096}
measure:
  operate:
    slo: "p99=1ms,loss=0"
    policy: [headrace, static]
    chains:
      edge: {weight: 2, load: [[0, 1M], [1 s, 25M], [2 s, 25M]]}
      core: {load: [[0, 1M], [1 s, 15M], [2 s, 15M]]}
"""


def test_chains_that_share_lcores_have_a_row_each(engine_binary: Path, tmp_path: Path) -> None:
    """One lcore for 2 to 1, from when both have too little of it; what is sent and what is held
    back is what was asked for, and a replay has the same of each."""
    study(tmp_path, text=SHARED)
    done = headrace("run", "s.yaml", "--json", "--out", "b", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [(row["chain"], row["goal"]) for row in rows] == [
        (chain, f"operate {policy}")
        for policy in ("headrace", "static")
        for chain in ("edge", "core")
    ]
    for row in rows:
        operated = row["operated"]
        assert row["sent"] == row["received"] + row["lost"] + operated["queued"]
        assert row["sent"] + operated["shared"]["held_back"] == row["intended"]
        assert row["lost"] == 0 and operated["shared"]["held_back"] > 0
        assert row["audit"]["verdict"] == "ok"
    edge, core = (log.course[-1] for log in list(operate_logs(tmp_path / "b").values())[:2])
    assert (edge.lcores, core.lcores) == pytest.approx((2 / 3, 1 / 3), abs=0.01)
    replayed = headrace("run", "b", "--json", "--out", "c", folder=tmp_path, engine=engine_binary)
    again = json.loads(replayed.stdout)["results"]
    assert [row["operated"] for row in again] == [row["operated"] for row in rows]
    page = (tmp_path / "c" / "report.html").read_text()
    assert "Chains that share lcores" in page and "held back" in page


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("      core: {load", "      cor: {load", ["got edge, cor", "all of edge, core"]),
        ("workload: {flows: 4096}", "workload: {load: [[0, 1M], [2 s, 1M]]}",
         ["workload.load: beside measure.operate.chains"]),
        ("[headrace, static]", "[headrace, metron]", ["metron", "headrace, oracle, static"]),
        ("core: {load: [[0, 1M], [1 s, 15M], [2 s", "core: {load: [[0, 1M], [1 s, 15M], [3 s",
         ["chains.core.load", "lasts 3 s; covered: 2 s, as the load of edge"]),
        ("[1 s, 25M], [2 s, 25M]", "[1 s, 300M], [2 s, 300M]", ["loads of 315 Mpps in all"]),
        ("weight: 2", "weight: 0", ["chains.edge.weight"]),
        ("chains:\n      edge: {weight: 2, load: [[0, 1M], [1 s, 25M], [2 s, 25M]]}\n"
         "      core: {load: [[0, 1M], [1 s, 15M], [2 s, 15M]]}", "backpressure: false",
         ["backpressure", "allowed: with `chains`"]),
        (", lcores: {traffic: [0, 1], chain: [2]}", "", ["deployment.lcores", "are told"]),
    ],
)  # fmt: skip
def test_chains_that_cannot_share_lcores_are_refused_in_a_line(
    engine_binary: Path, tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    study(tmp_path, old, new, SHARED)
    refused_in_a_line(tmp_path / "s.yaml", words, engine_binary)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--slo", "200us"), ["--slo", "'200us'", "allowed: p99=200us,loss=0"]),
        (
            ("--slo", "p99=1ms", "--policy", "best"),
            ["--policy", "'best'", "headrace, oracle, static"],
        ),
        ((), ["--slo", "the study has none"]),
    ],
)
def test_wrong_options_are_refused_in_a_line(
    engine_binary: Path, tmp_path: Path, given: tuple[str, ...], words: list[str]
) -> None:
    study(tmp_path, 'measure: {operate: {slo: "p99=1ms,loss=0", policy: [headrace, static]}}')
    done = headrace("operate", "s.yaml", *given, folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("time_s,pps\n0,1e6\n1,2e6\n", []),
        ("0,1e6\n1;2e6\n", ["t.csv:2", "seconds,rate"]),
        ("0,1e6\n1,-1\n", ["rates from 0"]),
        ("0,1e6\n1,nan\n", ["rates from 0"]),
        ("0,1e6\n1,1e400\n", ["rates from 0"]),
        ("0,1e6\nnan,1e6\n", ["times that ascend"]),
        ("0,1e6\n", ["1 points", "2 or more"]),
    ],
)
def test_a_trace_is_read_or_its_line_named(
    engine_binary: Path, tmp_path: Path, lines: str, words: list[str]
) -> None:
    (tmp_path / "t.csv").write_text(lines)
    study(tmp_path, "load: [[0, 5M], [1 s, 40M], [2 s, 40M]]", "load: {trace: t.csv}")
    done = headrace("run", "--check", "s.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == (2 if words else 0), done.stderr
    for word in words:
        assert word in done.stderr
