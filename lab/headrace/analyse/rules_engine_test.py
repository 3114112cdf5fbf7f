# SPDX-License-Identifier: Apache-2.0
"""A ring is called small only where it is, and its reader had time; findings say their origin."""

from __future__ import annotations

import pytest

from headrace.analyse.diagnosis import Diagnosis
from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules import explain
from headrace.analyse.rules_engine import RULES, narrowest
from headrace.record.bundle import Bundle
from headrace.record.counters import ReplicaReading, RingReading
from headrace.record.rows import Result, Trial
from headrace.record.testdata import TSC_HZ, make_bundle
from headrace.record.verdict import Audit, Finding, Verdict

LOAD = 1e6  # of the trial; its ring is of 1 ms at 1000 packets


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Trial]:
    bundle = Bundle(make_bundle(tmp_path_factory.mktemp("explain") / "b", repetitions=1))
    return bundle.results()[0], bundle.trials()[1]


def diagnosed(measured: tuple[Result, Trial], size: int, busy: float) -> Diagnosis:
    result, trial = measured
    assert trial.counters is not None
    ref = int(TSC_HZ * trial.duration_s)
    counters = trial.counters.model_copy(
        update={
            "rings": {"to-acl+lb+l3fwd": RingReading(size=size, full=5000)},
            "workers": tuple(
                w.model_copy(update={"ref_cycles": ref, "ops_cycles": int(ref * busy)})
                for w in trial.counters.workers
            ),
        }
    )
    lossy = {"load_pps": LOAD, "intended": int(2 * LOAD), "loss_ratio": 0.01, "counters": counters}
    (one,) = narrowest(
        Evidence(
            results=[result.model_copy(update={"load_pps": LOAD / 2})],
            trials=[trial.model_copy(update=lossy)],
        )
    )
    return one


@pytest.mark.parametrize(
    ("size", "busy", "rule"),
    [
        (64, 0.3, "small-ring"),
        (1000, 0.3, "small-ring"),
        (1024, 0.3, "slow-nf"),
        (65_536, 0.3, "slow-nf"),
        (64, 0.97, "slow-nf"),
    ],
)
def test_a_ring_is_small(measured: tuple[Result, Trial], size: int, busy: float, rule: str) -> None:
    assert diagnosed(measured, size, busy).rule == rule


def test_the_measurement_is_named(measured: tuple[Result, Trial]) -> None:
    text = "Measured: edge, rtc, 64 B, 1024 flows"
    assert diagnosed(measured, 64, 0.3).evidence[-1] == f"{text}, at a load of 1.00\u202fMpps."
    assert diagnosed(measured, 64, 0.97).evidence[-1] == f"{text}, ndr, at a load of 500\u202fkpps."


@pytest.mark.parametrize("verdict", ["invalid", "generator-bound"])
def test_the_tester_is_blamed_by_its_verdict(
    measured: tuple[Result, Trial], verdict: Verdict
) -> None:
    wrong = Finding(check="conservation", ok=False, text="Packets unaccounted for at acl (3)")
    audit = Audit(verdict=verdict, findings=(wrong,))
    result = measured[0].model_copy(update={"audit": audit})
    (one,) = [d for rule in RULES for d in rule(Evidence(results=[result]))]
    assert one.rule == verdict and one.evidence[0] == wrong.text


@pytest.mark.parametrize("apart", [False, True])
def test_no_lcore_is_advised_that_is_there(measured: tuple[Result, Trial], apart: bool) -> None:
    result, _ = measured
    cpus = {"generator": (0,), "sink": (3 if apart else 0,)}
    segments = [s.model_copy(update={"cpus": cpus.get(s.role, (1,))}) for s in result.segments]
    assert set(cpus) <= {s.role for s in segments}
    bound = {"audit": Audit(verdict="generator-bound"), "segments": tuple(segments)}
    (one,) = explain(Evidence(results=[result.model_copy(update=bound)]))[:1]
    assert one.rule == "generator-bound"
    assert ("lcores.traffic" in one.remedy) == (not apart)
    assert one.remedy.endswith("larger frames, or fewer fields that vary")
    (one,) = explain(Evidence(results=[result.model_copy(update={**bound, "segments": ()})]))[:1]
    assert one.remedy.startswith("end the other work, or give the traffic's programs more CPU")


def test_the_search_above_is_what_counts(measured: tuple[Result, Trial]) -> None:
    """The same overflow in a warm-up, which nobody asked for, is no finding."""
    result, trial = measured
    evidence = Evidence(results=[result], trials=[trial.model_copy(update={"phase": "warm-up"})])
    assert evidence.measurements() == [(result, None)]
    asked = Evidence(results=[result], trials=[trial])
    assert asked.measurements() == [(result, trial)]


@pytest.mark.parametrize("share", [0.43, 0.002])
def test_a_disturbance_comes_before_any_shortage(
    measured: tuple[Result, Trial], share: float
) -> None:
    """Another lcore does not help whom other work keeps from running."""
    result, _ = measured
    assert result.counters is not None
    waited = int(share * result.duration_s * 1e9)
    workers = [w.model_copy(update={"waited_ns": waited}) for w in result.counters.workers]
    text = f"Lcore 2 was kept from running for {share:.2%} of the trial."
    failed = Finding(check="preemption", ok=False, value=share, text=text)
    disturbed = result.model_copy(
        update={
            "audit": Audit(verdict="suspect", findings=(failed,)),
            "counters": result.counters.model_copy(update={"workers": tuple(workers)}),
        }
    )
    first, *others = explain(Evidence(results=[disturbed]))
    assert (first.rule, first.evidence[0]) == ("disturbed", text)
    assert ("slow-nf" in {d.rule for d in others}) == (share < 0.05)
    assert "disturbed" not in {d.rule for d in explain(Evidence(results=[result]))}
    # Pauses of one in a hundred are not why most packets are lost.
    flooded = disturbed.model_copy(update={"loss_ratio": 0.9})
    rules = {d.rule for d in explain(Evidence(results=[flooded]))}
    assert ("disturbed" in rules) == (share >= 0.05)


def test_a_reader_that_did_not_run_had_no_time(measured: tuple[Result, Trial]) -> None:
    assert diagnosed(measured, 64, 0.3).rule == "small-ring"
    result, trial = measured
    assert trial.counters is not None
    workers = [
        w.model_copy(update={"waited_ns": int(trial.duration_s * 5e8)})
        for w in trial.counters.workers
    ]
    counters = trial.counters.model_copy(update={"workers": tuple(workers)})
    assert diagnosed((result, trial.model_copy(update={"counters": counters})), 64, 0.3).rule != (
        "small-ring"
    )


def test_short_pauses_are_the_rings_affair(measured: tuple[Result, Trial]) -> None:
    """A millisecond in twenty: more than the ring holds, and no more than a larger one would."""
    result, trial = measured
    assert trial.counters is not None
    waited = int(trial.duration_s * 0.06 * 1e9)
    counters = trial.counters.model_copy(
        update={
            "rings": {"to-acl+lb+l3fwd": RingReading(size=64, full=5000)},
            "workers": tuple(
                w.model_copy(update={"ops_cycles": int(w.ref_cycles * 0.3), "waited_ns": waited})
                for w in trial.counters.workers
            ),
        }
    )
    failed = Finding(check="preemption", ok=False, value=0.06, text="Lcore 2 was kept waiting.")
    lossy = {
        "load_pps": LOAD, "intended": int(2 * LOAD), "loss_ratio": 0.01, "counters": counters,
        "audit": Audit(verdict="suspect", findings=(failed,)),
    }  # fmt: skip
    evidence = Evidence(
        results=[result.model_copy(update={"load_pps": LOAD / 2}), result.model_copy(update=lossy)],
        trials=[trial.model_copy(update=lossy)],
    )
    assert explain(evidence)[0].rule == "small-ring"
    assert "disturbed" not in {d.rule for d in explain(evidence)}


def test_a_tester_that_is_narrower_is_said_as_a_report_says_it(
    measured: tuple[Result, Trial],
) -> None:
    """It made the load that was asked for, so the audit has nothing against it."""
    result, _ = measured
    assert result.counters is not None
    counters = result.counters.model_copy(
        update={"replicas": tuple(map(slow_generator, result.counters.replicas))}
    )
    slow = result.model_copy(update={"counters": counters, "capacity": None})
    (one,) = [d for d in explain(Evidence(results=[slow])) if d.rule == "narrow-tester"]
    assert one.text.startswith("The tester is narrower than the chain: generator can carry")
    assert one.remedy == "larger frames"  # generator and sink have lcores of their own already
    assert "narrow-tester" not in {d.rule for d in explain(Evidence(results=[result]))}


def slow_generator(replica: ReplicaReading) -> ReplicaReading:
    if replica.segment != "generator":
        return replica
    update = {"tx_cycles": 50 * replica.io_packets, "ops_cycles": 400 * replica.packets_out}
    return replica.model_copy(update=update)
