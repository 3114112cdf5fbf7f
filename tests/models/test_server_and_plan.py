# SPDX-License-Identifier: Apache-2.0
"""server, profile and plan as users call them: what comes out, and what bad input says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from headrace.cli._testdata import valid
from headrace.spec.plan import ChainPlan
from headrace.spec.profile import Profile
from headrace.spec.server import Server
from support.engine import free_cpus
from support.lab import headrace, state_left

pytestmark = pytest.mark.beside

SPEC = """\
name: two
chain: [l2fwd, monitor]
workload: {frame: 64, flows: 100}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parallel
def test_detect(home: Path, engine_binary: Path) -> None:
    done = headrace("server", "detect", "--json", folder=home, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    assert len(Server.model_validate(valid("server detect", done.stdout)).cpus) == os.cpu_count()


BAD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "rounds": (("server", "calibrate", "--rounds", "0"), ("--rounds", "0", "1..20")),
    "cpus": (("server", "calibrate", "--cpus", "x"), ("--cpus", "'x'", "0,1")),
    "no such CPU": (("server", "calibrate", "--cpus", "4000"), ("--cpus", "4000", "allowed")),
    "no such NF": (("profile", "nope"), ("nope", "allowed", "l3fwd")),
    "param": (("profile", "null", "--param", "action"), ("--param", "action", "key=value")),
    "states": (("profile", "lb", "--states", "1G"), ("--states", "1G", "10000000")),
    "sweep": (("profile", "lb", "--only", "colour"), ("--only", "colour", "state")),
    "param of another": (
        ("profile", "null", "--param", "flows=1", "--only", "burst"),
        ("flows", "action"),
    ),
    "no spec": (("plan", "none.yaml"), ("none.yaml", "no such file")),
    "lcores": (("plan", "two.yaml", "--lcores", "4000"), ("--lcores", "4000", "allowed")),
    "rate": (("plan", "two.yaml", "--rate", "fast"), ("--rate", "fast", "1.5M")),
    "slo": (("plan", "two.yaml", "--slo", "latency=5us"), ("--slo", "latency=5us", "rate")),
    "aim": (("plan", "two.yaml", "--aim", "speed"), ("--aim", "'speed'", "latency")),
    "costs": (("plan", "two.yaml", "--costs", "guessed"), ("--costs", "profiles")),
    "no profile": (
        ("plan", "two.yaml", "--costs", "profiles"),
        ("l2fwd.json", "no such file", "headrace profile l2fwd"),
    ),
    "sweep in a spec": (("plan", "swept.yaml"), ("sweep", "one workload")),
    "empty chain": (("plan", "empty.yaml"), ("chain", "empty", "at least one")),
}


@pytest.mark.parallel
@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str, home: Path, engine_binary: Path) -> None:
    arguments, words = BAD[case]
    (home / "two.yaml").write_text(SPEC)
    (home / "swept.yaml").write_text(SPEC + "sweep: {workload.flows: [1, 2]}\n")
    (home / "empty.yaml").write_text("name: none\nchain: []\n")
    done = headrace(*arguments, folder=home, engine=engine_binary)
    assert done.returncode == 2, done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("headrace: ") and "Traceback" not in done.stderr
    for word in words:
        assert word in last
    assert state_left(home) == []


@pytest.mark.skipif(len(free_cpus()) < 2, reason="needs two CPUs")
def test_a_short_profile(home: Path, engine_binary: Path) -> None:
    done = headrace(
        *("profile", "delay", "--param", "table_reads=1", "--states", "100,1k", "--json"),
        *("--only", "state", "--repetitions", "1", "--seconds", "0.1", "--no-corun"),
        folder=home,
        engine=engine_binary,
    )
    assert done.returncode == 0, done.stderr
    profile = Profile.model_validate(valid("profile", done.stdout))
    assert profile.params == {"table_reads": 1}
    assert [p.settings.state for p in profile.points if p.sweep == "state"] == [100, 1000]
    assert all(p.cost.nf.median > 0 and p.cost.rx.median > 0 for p in profile.points)
    assert (profile.pmu is None) == (profile.pmu_absent is not None)
    stored = json.loads((home / "home/profiles/delay.json").read_text())
    assert stored["nf"] == "delay"
    assert "<svg" in (home / "home/profiles/delay.html").read_text()
    assert state_left(home) == []


@pytest.mark.slow
@pytest.mark.skipif(len(free_cpus()) < 2, reason="needs two CPUs")
def test_a_plan_for_latency_out_of_stored_profiles(home: Path, engine_binary: Path) -> None:
    """Nothing is measured for it but what the profiles have; then it is run at the load."""
    (home / "two.yaml").write_text(SPEC)
    for nf in ("l2fwd", "monitor"):
        done = headrace(
            *("profile", nf, "--only", "state,frame", "--states", "100,1k", "--no-corun"),
            *("--repetitions", "1", "--seconds", "0.25"),
            folder=home,
            engine=engine_binary,
        )
        assert done.returncode == 0, done.stderr
    done = headrace(
        *("plan", "two.yaml", "--costs", "profiles", "--aim", "latency", "--rate", "50k"),
        *("--verify", "--json", "--seconds", "0.1"),
        folder=home,
        engine=engine_binary,
    )
    assert done.returncode == 0, done.stderr
    [plan] = [ChainPlan.model_validate(one) for one in valid("plan", done.stdout)]
    assert (plan.aim, plan.costs, plan.rate_pps) == ("latency", "profiles", 50e3)
    best = plan.layout("best")
    assert best.predicted_latency_us and best.measured_latency_us
    for one in plan.layouts:
        assert one.predicted_latency_us is None or (
            best.predicted_latency_us <= one.predicted_latency_us * (1 + 1e-9)
        )
    assert state_left(home) == []


BRANCHED = """\
name: branched
chain:
  - nf: l3fwd
    params:
      routes: [{prefix: 198.19.0.1/32, next_hop: 0}, {prefix: 198.19.0.2/32, next_hop: 1}]
      next_hops: [{edge: 0}, {edge: 1}]
    to: {out1: out}
  - monitor
workload: {frame: 64, flows: 100, dst_ips_file: servers}
deployment:
  execution: {segments: [[l3fwd], [monitor]], lcores: [[0], [1]]}
  lcores: {traffic: [0, 1], shared: true}
measure: {loads: 10k, trial: 0.2 s}
warmup: 0.1 s
"""


@pytest.fixture(scope="module")
def planned(
    engine_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ChainPlan]:
    """A chain with a branch: half of the packets go past its second function. Its plan is verified,
    and what was chosen is a spec in a folder `elsewhere`."""
    if free_cpus()[:2] != [0, 1]:
        pytest.skip("needs CPUs 0 and 1")
    home = tmp_path_factory.mktemp("planned")
    (home / "branched.yaml").write_text(BRANCHED)
    (home / "servers").write_text("198.19.0.1\n198.19.0.2\n")
    (home / "elsewhere").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_HOME", str(home / "home"))
        done = headrace(
            *("plan", "branched.yaml", "--verify", "--json", "--repetitions", "1"),
            *("--seconds", "0.1", "--html", "plan.html", "--out", "elsewhere/chosen.yaml"),
            folder=home,
            engine=engine_binary,
        )
    assert done.returncode == 0, done.stderr
    [plan] = [ChainPlan.model_validate(one) for one in valid("plan", done.stdout)]
    return home, plan


def test_a_plan_that_is_verified(planned: tuple[Path, ChainPlan]) -> None:
    home, plan = planned
    assert plan.bound_pps >= plan.layout("best").predicted_pps * (1 - 1e-9)
    for one in plan.layouts:
        assert [f for s in one.segments for f in s.functions] == ["l3fwd", "monitor"]
        assert one.measured_pps and one.measured_pps > 0
        if plan.reference is None:  # it was run where the hypervisor had the lcores elsewhere
            assert plan.mixed and one.paced_pps is None
            continue
        assert one.elsewhere == (one.paced_pps is None)
        if one.paced_pps is None:
            continue
        # The pace is of the same rounds: what it makes of a rate lies among the rounds' own.
        low = one.measured_min_pps * plan.reference.then_pps / plan.reference.now_max_pps
        high = one.measured_max_pps * plan.reference.then_pps / plan.reference.now_min_pps
        assert low <= one.paced_pps * (1 + 1e-9) and one.paced_pps <= high * (1 + 1e-9)
    assert (home / "plan.html").read_text().count("<table") >= 2
    assert state_left(home) == []


def test_a_plan_is_a_spec_that_runs(planned: tuple[Path, ChainPlan], engine_binary: Path) -> None:
    """What was chosen runs on packets, where the plan says, from another folder than the spec's."""
    home, plan = planned
    elsewhere = home / "elsewhere"
    assert [f.share for f in plan.functions] == pytest.approx([1, 0.5], abs=0.01)
    # The layout that the spec has is priced beside the others, and is none that costs came from.
    assert [s.lcores for s in plan.layout("given").segments] == [(0,), (1,)]
    done = headrace("run", "chosen.yaml", "--json", folder=elsewhere, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    # What is predicted is how fast rings that wait let it be, and that is what it measures.
    spec = yaml.safe_load((elsewhere / "chosen.yaml").read_text())
    assert spec["deployment"]["ring"] == {"size": 1024, "on_full": "wait"}
    assert (spec["deployment"]["wire"], spec["deployment"]["wire_on_full"]) == (1024, "wait")
    [result] = json.loads(done.stdout)["results"]
    assert result["goal"] == "max" and result["audit"]["verdict"] in ("ok", "suspect")
    ran = {tuple(s["nfs"]): s["cpus"] for s in result["segments"] if s["role"] == "chain"}
    planned = {s.functions: list(s.lcores) for s in plan.layout("best").segments}
    assert ran == planned
    assert result["received"] == result["sent"] > 1000
    assert all(result["nf_cycles"][name] > 0 for name in ("l3fwd", "monitor"))
    assert state_left(elsewhere) == []
