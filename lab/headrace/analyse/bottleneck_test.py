# SPDX-License-Identifier: Apache-2.0
"""The narrowest part is found from counters alone, and said only where they show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.analyse.bottleneck import Pipe, of_sharing, pipe, pipe_of
from headrace.analyse.bundle_report import above, report
from headrace.analyse.capacity import Part, parts_of
from headrace.analyse.lcores import lcores_of
from headrace.analyse.repetitions import together
from headrace.analyse.units import significant
from headrace.record.bundle import Bundle
from headrace.record.counters import Counters, ReplicaReading, RingReading, Turns, WorkerReading
from headrace.record.estimates import Capacity, Interval, PartCapacity
from headrace.record.rows import Measurement
from headrace.record.segments import Limit
from headrace.record.testdata import EXECUTIONS, TSC_HZ, capacity, counters_of, segments_of
from headrace.record.verdict import Audit, Finding
from headrace.report.charts.pipe import draw

MPPS = 1e6


def measurement(execution: str, load: float, *, full: int = 0, **changes: Any) -> Measurement:
    segments = segments_of(EXECUTIONS[execution])
    sent = int(load * 2)
    fields: dict[str, Any] = {
        "chain": "edge",
        "direction": "forward",
        "repetition": 1,
        "execution": execution,
        "workload": "64B",
        "load_pps": load,
        "throughput_pps": load,
        "throughput_gbps_l1": 1.0,
        "throughput_gbps_l2": 1.0,
        "offered_pps": load,
        "sent_pps": load,
        "received_pps": load,
        "loss_ratio": 0.0,
        "audit": Audit(verdict="ok"),
        "duration_s": 2.0,
        "sent": sent,
        "segments": segments,
        "counters": counters_of(segments, sent, full, 1.0),
    }
    return Measurement(**(fields | changes))


@pytest.mark.parametrize(
    ("execution", "narrowest"),
    [("rtc", "acl+lb+l3fwd"), ("hybrid", "lb+l3fwd"), ("pipeline", "acl")],
)
def test_the_part_with_most_cycles_is_narrowest(execution: str, narrowest: str) -> None:
    drawn = pipe(measurement(execution, 10 * MPPS))
    assert drawn.narrowest == narrowest
    assert drawn.part(narrowest).capacity_pps == pytest.approx(
        capacity(EXECUTIONS[execution]), rel=0.01
    )


def test_no_trial_carried_more_than_what_is_called_the_most() -> None:
    """20.9 Mpps came through while a hypervisor had the lcores nearer to each other; slices of the
    machine's commonest state say 18.2."""
    one = measurement("rtc", 20.9 * MPPS)
    interval = Interval(value=18.2e6, low=17.0e6, high=21.9e6)
    part = PartCapacity(
        name="acl+lb+l3fwd", role="chain", cpus=(1,), pps=interval, tsc_hz=TSC_HZ, clock_hz=3e9,
        cycles_per_packet=Interval(value=143, low=119, high=153), quiet_share=0.4, slices=354,
    )  # fmt: skip
    capacities = Capacity(parts=(part,), narrowest="acl+lb+l3fwd", pps=interval, trials=3)
    headline = pipe(one.model_copy(update={"capacity": capacities})).headline.replace("\u202f", " ")
    assert headline == (
        "acl+lb+l3fwd is narrowest: it carried 20.9 Mpps; by the undisturbed slices of all trials "
        "the limit is 18.2 Mpps (17.0 Mpps to 21.9 Mpps)."
    )
    below = measurement("rtc", 18.0 * MPPS, capacity=capacities)
    assert "it can carry 18.2 Mpps (17.0 Mpps to 21.9 Mpps)" in pipe(below).headline.replace(
        "\u202f", " "
    )


def test_capacity_grows_with_the_lcores() -> None:
    one, three = pipe(measurement("rtc", MPPS)), pipe(measurement("rtc x 3", MPPS))
    name = "acl+lb+l3fwd"
    ratio = (three.part(name).capacity_pps or 0) / (one.part(name).capacity_pps or 1)
    assert ratio == pytest.approx(3, rel=0.01)


def test_segments_on_one_lcore_share_its_cycles() -> None:
    apart = measurement("pipeline", 5 * MPPS)
    counters = apart.counters
    assert counters is not None
    chain = [s for s in apart.segments if s.role == "chain"]
    names = [s.name for s in chain]
    replicas = tuple(
        r.model_copy(update={"cpu": 2}) if r.segment in names else r for r in counters.replicas
    )
    busy = sum(r.ops_cycles for r in replicas if r.cpu == 2)
    workers = tuple(w for w in counters.workers if w.cpu < 2)
    together = apart.model_copy(
        update={
            "segments": tuple(
                s.model_copy(
                    update={"cpus": (2,), "shares_cpu_with": tuple(n for n in names if n != s.name)}
                )
                if s in chain
                else s
                for s in apart.segments
            ),
            "counters": Counters(
                tsc_hz=TSC_HZ,
                workers=(*workers, WorkerReading(cpu=2, ref_cycles=2 * TSC_HZ, ops_cycles=busy)),
                replicas=replicas,
                rings=counters.rings,
            ),
        }
    )
    drawn = pipe(together)
    assert (drawn.narrowest, drawn.marked) == ("acl", ("acl",))  # the costliest of them
    expected = TSC_HZ / sum(TSC_HZ / (pipe(apart).part(n).capacity_pps or 1) for n in names)
    for name in names:
        assert drawn.part(name).capacity_pps == pytest.approx(expected, rel=0.01)
    assert "share is narrowest" in drawn.headline
    assert "acl is the costliest of them" in drawn.headline
    share = drawn.part("acl").share_of_lcore
    assert share is not None and share == pytest.approx(
        expected / (pipe(apart).part("acl").capacity_pps or 1), rel=0.01
    )
    assert sum(drawn.part(n).share_of_lcore or 0.0 for n in names) == pytest.approx(1.0)
    assert together.counters is not None
    full = {
        name: r.model_copy(update={"full": together.sent // 2}) if name == "to-acl" else r
        for name, r in together.counters.rings.items()
    }
    lossy = pipe(
        together.model_copy(
            update={"counters": together.counters.model_copy(update={"rings": full})}
        )
    )
    assert len({lossy.part(n).capacity_pps for n in names}) == 1
    assert (lossy.part("l3fwd").capacity_pps or 0) < 0.8 * expected
    gains = next(r for r in drawn.reasons if r.startswith("On an lcore of its own"))
    assert gains.endswith(f"gains at most {significant(min(1 / share, 1 / (1 - share)), 2)} times.")


def test_a_full_ring_above_the_found_rate_is_the_evidence() -> None:
    at = measurement("pipeline", 20 * MPPS)
    counters = measurement("pipeline", 21 * MPPS).counters
    assert counters is not None
    rings = counters.rings | {"to-lb": RingReading(size=4096, full=123_456)}
    above = measurement(
        "pipeline", 21 * MPPS, counters=counters.model_copy(update={"rings": rings})
    )
    drawn = pipe(at, above)
    assert drawn.narrowest == "lb"
    text = " ".join(drawn.reasons)
    assert "to-lb" in text and "123\u202f456" in text
    assert "By cycles alone acl would be narrower" in text


def test_a_chain_that_carried_more_than_the_estimate_can_carry_that() -> None:
    at = measurement("rtc", 30 * MPPS)  # beyond what its cycles allow: it was held up
    assert pipe(at).part("acl+lb+l3fwd").capacity_pps == pytest.approx(30 * MPPS)


def test_uneven_replicas_narrow_the_part() -> None:
    even = measurement("rtc x 3", 10 * MPPS)
    counters = even.counters
    assert counters is not None
    first, *others = [r for r in counters.replicas if r.segment == "acl+lb+l3fwd"]
    double = first.model_copy(
        update={"packets_in": first.packets_in * 2, "ops_cycles": first.ops_cycles * 2}
    )
    uneven = even.model_copy(
        update={
            "counters": counters.model_copy(
                update={
                    "replicas": tuple(
                        double if r is first else r for r in counters.replicas if r is not others[0]
                    )
                }
            )
        }
    )
    drawn = pipe(uneven)
    assert drawn.part("acl+lb+l3fwd").capacity_pps == pytest.approx(
        (pipe(even).part("acl+lb+l3fwd").capacity_pps or 0) / 2, rel=0.02
    )
    assert any("unevenly" in r for r in drawn.reasons)


def test_a_generator_bound_figure_names_no_part_of_the_chain() -> None:
    bound = Audit(verdict="generator-bound")
    drawn = pipe(measurement("rtc", 5 * MPPS, audit=bound))
    assert drawn.narrowest is None and not drawn.marked
    assert "lower bound" in drawn.headline
    assert any("held up" in r for r in drawn.reasons)
    at_limit = pipe(measurement("rtc x 3", 42 * MPPS, audit=bound))
    assert at_limit.narrowest == "generator"


def test_a_generator_that_fell_short_of_its_load_may_yet_have_sent_too_much() -> None:
    """It made half of what was asked for, and of that the chain lost 18 %. What a port of the
    tester's did not take never reached the chain."""
    unsent = Audit(verdict="generator-bound")
    sent, lost = 10 * MPPS, int(1.8 * MPPS)
    more: dict[str, Any] = {
        "intended": 2 * sent,
        "sent": sent,
        "lost": lost,
        "loss_ratio": 0.18,
        "full": lost,
    }
    drawn = pipe(measurement("rtc", sent, audit=unsent, **more))
    assert drawn.narrowest == "acl+lb+l3fwd"
    port = Finding(check="port", ok=False, text="", value=lost)
    kept = unsent.model_copy(update={"findings": (port,)})
    assert pipe(measurement("rtc", sent, audit=kept, **more)).narrowest is None


def test_a_tester_that_is_narrower_is_named_whatever_the_verdict() -> None:
    """Bars and mark follow one rule: the smallest capacity, wherever it is."""
    drawn = pipe(measurement("rtc x 3", 38 * MPPS))
    narrowest = min(drawn.parts, key=lambda p: p.capacity_pps or 0.0)
    assert narrowest.role == "generator"
    assert drawn.narrowest == "generator" and "generator" in drawn.marked
    assert "The tester is narrower than the chain" in drawn.headline
    assert any(r.startswith("The chain's narrowest part is acl+lb+l3fwd") for r in drawn.reasons)


def test_what_offered_more_than_came_out_is_not_the_bottleneck() -> None:
    """At the same load as above a ring in front of the chain turned 18 % away."""
    lost = int(0.18 * 38 * MPPS * 2)
    drawn = pipe(measurement("rtc x 3", 38 * MPPS, loss_ratio=0.18, full=lost, lost=lost))
    assert drawn.part("generator").capacity_pps == min(p.capacity_pps or 0 for p in drawn.parts)
    assert drawn.narrowest == "acl+lb+l3fwd"
    assert "acl+lb+l3fwd is narrowest" in drawn.headline


def test_intended_drops_are_said_and_the_bound_is_of_the_load() -> None:
    policed: dict[str, Any] = {"throughput_pps": 334.0, "policy_dropped": 19_332, "sent": 20_000}
    bound = Audit(verdict="generator-bound")
    drawn = pipe(measurement("rtc", 10_000, audit=bound, **policed))
    assert "a load of 10.0\u202fkpps is the most" in drawn.headline
    assert "334" not in drawn.headline and drawn.carried_pps == pytest.approx(10_000)
    reason = next(r for r in drawn.reasons if "dropped by policy" in r)
    assert "19\u202f332 packets" in reason and "throughput of 334\u202fpps" in reason
    clean = pipe(measurement("rtc", 10_000, audit=bound))
    assert not any("policy" in r for r in clean.reasons)


def test_a_trial_nobody_asked_for_is_no_evidence(bundle_path: Path) -> None:
    bundle = Bundle(bundle_path)
    result, trials = bundle.results()[0], bundle.trials()
    assert above(result, trials) is not None
    for phase in ("warm-up", "max", "calibration"):
        other = [t.model_copy(update={"phase": phase}) for t in trials]
        assert above(result, other) is None


def test_without_counters_nothing_is_claimed() -> None:
    drawn = pipe(measurement("rtc", 5 * MPPS, counters=None))
    assert drawn.narrowest is None
    assert "No counters" in drawn.headline


def test_a_report_explains_each_measured_execution(bundle_path: Path) -> None:
    (group,) = report(Bundle(bundle_path)).groups
    assert group.primary == "ndr"
    named = {e.summary.key.execution: e.pipe.narrowest for e in group.explained}
    assert named == {
        "rtc": "acl+lb+l3fwd",
        "hybrid": "lb+l3fwd",
        "pipeline": "acl",
        "rtc x 3": "generator",
    }


def test_a_function_beside_may_be_the_narrowest() -> None:
    """It has an lcore, but no ring: its packets come from the segment that it is beside."""
    at = measurement("hybrid", MPPS)
    lead, tail = at.segments[1], at.segments[2]
    assert at.counters is not None
    side = next(r for r in at.counters.replicas if r.segment == tail.name)
    slow = {name: nf.model_copy(update={"cycles": nf.cycles * 9}) for name, nf in side.nfs.items()}
    beside = side.model_copy(
        update={
            "segment": f"{lead.name}:slow", "inputs": {}, "outputs": {}, "io_packets": 0,
            "rx_cycles": 0, "tx_cycles": 0, "nfs": slow, "ops_cycles": side.ops_cycles * 9,
        }
    )  # fmt: skip
    replicas = [beside if r is side else r for r in at.counters.replicas]
    segments = [
        s.model_copy(update={"name": beside.segment}) if s is tail else s for s in at.segments
    ]
    drawn = pipe(
        at.model_copy(
            update={
                "segments": tuple(segments),
                "counters": at.counters.model_copy(update={"replicas": tuple(replicas)}),
            }
        )
    )
    assert drawn.narrowest == f"{lead.name}:slow"
    part = drawn.part(beside.segment)
    assert part.rings == {}
    assert part.utilisation is not None
    assert "slow" in draw(drawn, 900)


WAITED = Audit(
    verdict="suspect",
    findings=(
        Finding(
            check="preemption", ok=False, value=0.43, limit=0.05,
            text="Lcore 2 was kept from running for 43.00% of the trial.",
        ),
    ),
)  # fmt: skip


def held_up(
    at: Measurement, cpu: int, *, waited_s: float = 0.0, stood_s: float = 0.0, audit: Audit = WAITED
) -> Measurement:
    """An interrupted poll was timed, so that links cost a hundred times what they do."""
    assert at.counters is not None
    hurt: dict[str, Any] = {"waited_ns": int(waited_s * 1e9)}
    hurt["standstill_cycles"] = int(stood_s * TSC_HZ)
    workers = [
        w.model_copy(update=hurt if w.cpu == cpu else {"waited_ns": 0}) for w in at.counters.workers
    ]
    replicas = [
        r.model_copy(update={"tx_cycles": r.tx_cycles * 100}) if r.cpu == cpu else r
        for r in at.counters.replicas
    ]
    counters = {"workers": tuple(workers), "replicas": tuple(replicas)}
    return at.model_copy(
        update={"audit": audit, "counters": at.counters.model_copy(update=counters)}
    )


@pytest.mark.parametrize("why", [{"waited_s": 0.86}, {"stood_s": 0.86}])
def test_time_in_which_an_lcore_did_not_run_is_no_packets_cost(why: dict[str, Any]) -> None:
    at = held_up(measurement("pipeline", MPPS), 2, **why)
    drawn = pipe(at)
    assert drawn.narrowest is None and not drawn.marked
    assert drawn.headline.startswith("Not named: the measurement was disturbed. acl did not run")
    part = drawn.part("acl")
    assert (part.capacity_pps, part.cycles_per_packet, part.costs) == (None, None, ())
    assert part.held_up == pytest.approx(0.43)
    assert (drawn.part("lb").capacity_pps or 0) > MPPS
    assert any("acl (lcore 2) was held up for 43" in r for r in drawn.reasons)
    spent = {s.kind for one in lcores_of(at) if one.cpu == 2 for s in one.spent}
    assert spent & {"nf", "links", "loop"} == set() and "unknown" in spent
    assert "Not named" in draw(drawn, 900)


def test_an_lcore_is_held_up_for_no_more_than_all_of_its_time() -> None:
    """Both are of the trial and of the wait for its last packets: 2.4 s of 3, in a trial of 2."""
    at = held_up(measurement("pipeline", MPPS), 2, waited_s=2.4)
    assert at.counters is not None and at.duration_s == 2.0
    longer = [w.model_copy(update={"ref_cycles": int(3 * TSC_HZ)}) for w in at.counters.workers]
    counters = at.counters.model_copy(update={"workers": tuple(longer)})
    part = pipe(at.model_copy(update={"counters": counters})).part("acl")
    assert part.held_up == pytest.approx(0.8)


def test_a_record_without_waiting_times_goes_by_the_audit() -> None:
    at = held_up(measurement("rtc", MPPS), 2)
    assert at.counters is not None
    old = [w.model_copy(update={"waited_ns": None}) for w in at.counters.workers]
    counters = at.counters.model_copy(update={"workers": tuple(old)})
    assert pipe(at.model_copy(update={"counters": counters})).narrowest is None
    assert pipe(at).narrowest is not None  # it is told that these lcores did not wait


def test_a_short_stop_hides_no_costs() -> None:
    """The engine tells pauses from what packets cost, whatever the load."""
    for load in (0.05 * MPPS, 10 * MPPS):
        assert pipe(held_up(measurement("rtc", load), 2, waited_s=0.01)).narrowest is not None


def test_a_tester_that_was_held_up_is_not_said_to_be_narrow() -> None:
    drawn = pipe(held_up(measurement("rtc", MPPS), 0, waited_s=0.86))
    assert drawn.narrowest == "acl+lb+l3fwd"
    assert drawn.part("generator").capacity_pps is None
    bound = WAITED.model_copy(update={"verdict": "generator-bound"})
    busy = measurement("rtc x 3", 42 * MPPS)
    assert pipe(held_up(busy, 0, waited_s=0.86, audit=bound)).narrowest is None


def test_a_ring_in_front_of_whom_did_not_run_is_no_evidence() -> None:
    at, above = measurement("pipeline", 20 * MPPS), measurement("pipeline", 21 * MPPS)
    assert above.counters is not None
    rings = above.counters.rings | {"to-lb": RingReading(size=4096, full=123_456)}
    above = above.model_copy(
        update={"counters": above.counters.model_copy(update={"rings": rings})}
    )
    assert pipe(at, above).narrowest == "lb"
    assert pipe(at, held_up(above, 3, waited_s=0.86)).narrowest == "acl"


def repeated(*loads: float, **changes: Any) -> list[Measurement]:
    return [measurement("rtc", load, repetition=i + 1, **changes) for i, load in enumerate(loads)]


def test_a_bound_is_of_all_repetitions_as_the_table_is() -> None:
    drawn = pipe_of(
        repeated(0.0366 * MPPS, 0.0953 * MPPS, audit=Audit(verdict="generator-bound")), []
    )
    assert drawn.throughput_pps == pytest.approx(65_950)
    assert "66.0\u202fkpps (median of 2 repetitions; the most 95.3\u202fkpps)" in drawn.headline
    assert all((p.capacity_pps or 0) >= 95_300 for p in drawn.parts)
    mixed = repeated(MPPS, 1.1 * MPPS)
    bound = mixed[1].model_copy(update={"audit": Audit(verdict="generator-bound")})
    assert "lower bound" in pipe_of([mixed[0], bound], []).headline  # as the table's `≥`


def test_no_part_is_narrower_than_what_came_through_in_any_repetition() -> None:
    """A repetition whose lcores seemed slow does not take back what another one showed."""
    slow = repeated(2 * MPPS, 2 * MPPS)
    assert slow[0].counters is not None
    dear = [
        r.model_copy(update={"ops_cycles": r.ops_cycles * 40}) for r in slow[0].counters.replicas
    ]
    counters = slow[0].counters.model_copy(update={"replicas": tuple(dear)})
    slow = [one.model_copy(update={"counters": counters}) for one in slow]
    fast = measurement("rtc", 15 * MPPS, repetition=3)
    drawn = pipe_of([*slow, fast], [])
    assert drawn.carried_pps == pytest.approx(2 * MPPS)
    assert min(p.capacity_pps or 0 for p in drawn.parts) == pytest.approx(15 * MPPS)


def test_cycles_are_the_median_and_packets_the_sum() -> None:
    each = repeated(MPPS, MPPS, MPPS)
    dear = held_up(each[0], 2, audit=Audit(verdict="ok"))  # its links cost a hundred times more
    part = pipe_of([dear, *each[1:]], []).part("acl+lb+l3fwd")
    one = pipe(each[1]).part("acl+lb+l3fwd")
    assert part.cycles_per_packet == pytest.approx(one.cycles_per_packet)
    assert part.drops == {name: 3 * n for name, n in one.drops.items()}


def test_a_repetition_in_which_an_lcore_did_not_run_is_named_and_left_out() -> None:
    each = repeated(MPPS, MPPS)
    drawn = pipe_of([held_up(each[0], 2, waited_s=0.86), each[1]], [])
    assert drawn.narrowest == "acl+lb+l3fwd"
    assert drawn.part("acl+lb+l3fwd").capacity_pps == pytest.approx(
        pipe(each[1]).part("acl+lb+l3fwd").capacity_pps
    )
    assert any(r.startswith("Repetition 1 is not in the cycles") for r in drawn.reasons)
    assert any(r.startswith("Audit: Repetition 1: Lcore 2") for r in drawn.reasons)
    both = pipe_of([held_up(one, 2, waited_s=0.86) for one in each], [])
    assert both.narrowest is None and "Not named" in both.headline


def test_loss_above_names_its_repetition() -> None:
    above = repeated(25 * MPPS, 26 * MPPS, full=5_000)
    drawn = pipe_of(repeated(20 * MPPS, 20 * MPPS), above)
    assert [r[:18] for r in drawn.reasons if "did not carry" in r] == [
        "In repetition 1 at",
        "In repetition 2 at",
    ]


def test_what_hardly_gains_is_not_told_in_times() -> None:
    """The sink carries 2 % more: an lcore of its own for the costlier function gained 1.0 times."""

    def part(name: str, cpu: int, capacity: float, share: float | None = None) -> Part:
        role = "sink" if name == "sink" else "chain"
        return Part(name=name, role=role, cpus=(cpu,), capacity_pps=capacity, share_of_lcore=share)

    shared = [part("acl", 1, 10 * MPPS, 0.6), part("lb", 1, 10 * MPPS, 0.4)]
    for sink, gain in ((10.2 * MPPS, "little."), (30 * MPPS, "at most 1.7 times.")):
        [text] = of_sharing(shared[0], [*shared, part("sink", 0, sink)])
        assert text.endswith(f"widening acl so gains {gain}")


def test_many_parts_alike_are_drawn_as_the_narrowest_of_them() -> None:
    def part(name: str, nf: str, capacity: float, cpu: int) -> Part:
        return Part(
            name=name, role="chain", cpus=(cpu,), nfs=(nf,), capacity_pps=capacity, utilisation=0.5
        )

    many = [part(f"vnf{i}.1", f"vnf{i}.1-l2fwd", i * MPPS, i % 2) for i in range(1, 64)]
    every = Pipe(
        parts=(
            Part(name="generator", role="generator", cpus=(0,)),
            *many,
            part("other", "l3fwd", 2 * MPPS, 1),
        ),
        throughput_pps=MPPS,
        carried_pps=MPPS,
        narrowest="vnf1.1",
        marked=("vnf1.1",),
        headline="",
    )
    drawn = every.drawn()
    assert [p.name for p in drawn] == [
        "generator",
        "vnf1.1",
        "vnf2.1 … vnf63.1 (62)",
        "other",
    ]
    assert (drawn[2].capacity_pps, drawn[2].cpus) == (2 * MPPS, (0, 1))
    # Few are drawn each.
    few = every.model_copy(update={"parts": every.parts[:6]})
    assert few.drawn() == list(few.parts)


def switch(used: float, dropped: int = 0, kind: str = "switch") -> Limit:
    return Limit.model_validate(
        {
            "kind": kind,
            "place": "nic",
            "gbps": 1.0,
            "used": used,
            "crossings": 2,
            "dropped": dropped,
        }
    )


@pytest.mark.parametrize(
    ("here", "over", "full", "named"),
    [
        ([switch(0.98)], [], 0, True),  # nothing more fits
        ([switch(0.80)], [], 0, False),
        ([switch(0.93)], [switch(1.0, 9_000)], 0, True),  # what was too much was lost there
        ([switch(0.93)], [switch(1.0, 9_000)], 20_000, False),  # more was lost in front of a part
        ([switch(0.93)], [switch(1.0, 9_000)], 9_000, True),  # a real NIC's: lost in front of it
        ([switch(0.50)], [switch(0.55, 9_000)], 0, False),  # a pause, not the limit
    ],
)
def test_a_limit_is_named_where_it_holds_the_chain_back(
    here: list[Limit], over: list[Limit], full: int, named: bool
) -> None:
    at = measurement("pipeline", 8 * MPPS, limits=tuple(here))
    above = [measurement("pipeline", 9 * MPPS, full=full, limits=tuple(over))] if over else []
    drawn = pipe_of([at], above)
    if not named:
        assert drawn.limit is None and drawn.narrowest == "acl"
        return
    assert drawn.headline == "Switch capacity of the NIC, 1 Gbit/s, reached."
    assert drawn.narrowest is None and drawn.limit is not None and drawn.marked == ("nic",)
    # Use and losses are this measurement's, as its own `limits` have them, not the trial's above.
    assert drawn.limit == here[0]
    assert any("goes between NIC and host 2×" in reason for reason in drawn.reasons)
    assert any("By its cycles the chain could carry" in reason for reason in drawn.reasons)


def test_of_several_limits_the_one_that_lost_most_is_named() -> None:
    at = measurement("pipeline", 8 * MPPS)
    both = (switch(1.0, 10), switch(1.0, 500, kind="uplink"))
    drawn = pipe_of([at], [measurement("pipeline", 9 * MPPS, limits=both)])
    assert drawn.headline == "Uplink of the NIC, 1 Gbit/s, reached."


def test_a_packet_costs_no_more_than_there_was_and_pauses_are_told_apart() -> None:
    """Functions' cycles are sampled and may come out high; that an lcore was busy is counted."""
    at = measurement("rtc", MPPS)
    assert at.counters is not None
    replicas = [
        r.model_copy(update={"tx_cycles": r.tx_cycles * 3, "rx_cycles": r.rx_cycles * 3})
        for r in at.counters.replicas
    ]
    workers = [
        w.model_copy(update={"pauses_cycles": w.ref_cycles // 50}) for w in at.counters.workers
    ]
    counters = {"workers": tuple(workers), "replicas": tuple(replicas)}
    at = at.model_copy(update={"counters": at.counters.model_copy(update=counters)})
    drawn = pipe(at)
    for part in (p for p in drawn.parts if p.role == "chain"):
        [replica] = (r for r in replicas if r.segment == part.name)
        each = replica.ops_cycles / replica.packets_in
        assert part.cycles_per_packet == pytest.approx(each)
        assert sum(c.cycles for c in part.costs) == pytest.approx(each)
        assert part.paused == pytest.approx(0.02, rel=1e-3)
    assert any("kept its lcore from working for 2" in r for r in drawn.reasons)


def test_of_repetitions_the_median_use_is_told() -> None:
    """A disturbed one carried less, and used less of the limit; it is not what the others show."""
    each = [
        measurement("pipeline", load * MPPS, repetition=n, limits=(switch(used, 5),))
        for n, load, used in ((1, 6, 0.747), (2, 8, 0.997), (3, 8, 0.996))
    ]
    over = measurement("pipeline", 9 * MPPS, limits=(switch(1.0, 900),))
    drawn = pipe_of(each, [over])
    assert drawn.limit is not None
    assert "At 8.00\u202fMpps frames take 99.6\u202f% of it (layer 1)." in drawn.reasons


def small_bursts(at: Measurement, fixed: int = 800) -> Measurement:
    """Each poll takes `fixed` cycles by itself and 60 for each packet: with 3 packets in the mean
    it is busy all the time, and with 32 it takes over three times as many."""
    assert at.counters is not None
    sizes = [1 + i % 5 for i in range(1000)]
    took = [fixed + 60 * n for n in sizes]
    turns = Turns(
        n=len(sizes),
        packets=sum(sizes),
        packets_squared=sum(n * n for n in sizes),
        cycles=sum(took),
        cycles_by_packets=sum(n * t for n, t in zip(sizes, took, strict=True)),
    )

    def small(r: ReplicaReading) -> ReplicaReading:
        if r.segment in ("generator", "sink"):
            return r
        polls = r.packets_in // 3
        ops = int(r.packets_in * (fixed / 3 + 60))
        changes = {"turns": turns, "burst": 32, "polls": polls, "idle_polls": 0, "ops_cycles": ops}
        return r.model_copy(update=changes)

    replicas = tuple(map(small, at.counters.replicas))
    return at.model_copy(update={"counters": at.counters.model_copy(update={"replicas": replicas})})


def test_an_lcore_busy_with_small_bursts_can_carry_more() -> None:
    at = small_bursts(measurement("rtc", MPPS))
    assert at.counters is not None
    tsc_hz = at.counters.tsc_hz
    [part] = [p for p in parts_of(at) if p.role == "chain"]
    assert part.burst == pytest.approx(3, rel=1e-3)
    assert part.full_burst_cycles == pytest.approx(800 / 32 + 60, rel=1e-6)
    assert part.cycles_per_packet == pytest.approx(800 / 3 + 60, rel=1e-3)
    assert part.capacity_pps == pytest.approx(tsc_hz / 85, rel=0.01)
    assert any("In full bursts a packet costs 85.0 cycles" in r for r in pipe(at).reasons)


def test_what_full_bursts_cost_is_the_median_of_the_repetitions() -> None:
    """Beside it stands what a packet cost in those that came, which is a median, too."""
    first, *others = repeated(MPPS, MPPS, MPPS)
    each = [small_bursts(first, fixed=1600), *map(small_bursts, others)]
    drawn = pipe_of(each, [])
    assert any(
        "In full bursts a packet costs 85.0 cycles" in r and "in those that came 327:" in r
        for r in drawn.reasons
    )
    part = drawn.part("acl+lb+l3fwd")
    assert part.full_burst_cycles == pytest.approx(800 / 32 + 60, rel=1e-6)
    assert part.burst == pytest.approx(3, rel=1e-3)


def paused_for(at: Measurement, share: float) -> Measurement:
    assert at.counters is not None
    workers = tuple(
        w.model_copy(update={"pauses_cycles": int(w.ref_cycles * share)})
        for w in at.counters.workers
    )
    return at.model_copy(update={"counters": at.counters.model_copy(update={"workers": workers})})


def test_pauses_are_the_median_of_the_repetitions() -> None:
    """The first was disturbed, two were not: the chain is not said to be."""
    each = repeated(MPPS, MPPS, MPPS)
    disturbed = paused_for(each[0], 0.04)
    assert pipe(disturbed).part("acl+lb+l3fwd").paused == pytest.approx(0.04, rel=1e-3)
    assert pipe_of([disturbed, *each[1:]], []).part("acl+lb+l3fwd").paused == 0
    mostly = pipe_of([each[0], paused_for(each[1], 0.02), paused_for(each[2], 0.03)], [])
    assert mostly.part("acl+lb+l3fwd").paused == pytest.approx(0.02, rel=1e-3)


def test_whether_a_tester_had_cycles_left_goes_by_the_loss_of_all_repetitions() -> None:
    """The first lost nothing by chance; in all of them together 12 % were turned away."""
    lost = int(0.18 * 38 * MPPS * 2)
    calm = measurement("rtc x 3", 38 * MPPS, repetition=1)
    lossy = [
        measurement("rtc x 3", 38 * MPPS, repetition=n, loss_ratio=0.18, full=lost, lost=lost)
        for n in (2, 3)
    ]
    drawn = pipe_of([calm, *lossy], [])
    assert drawn.narrowest == "acl+lb+l3fwd"
    assert together([calm, *lossy]).loss_ratio == pytest.approx(
        2 * lost / sum(one.sent for one in (calm, *lossy))
    )


def test_a_sink_is_no_part_of_the_chain() -> None:
    """Generator and sink are both narrower than the chain, on lcores of their own."""
    at = measurement("rtc x 3", 38 * MPPS)
    assert at.counters is not None
    slow = [
        r.model_copy(update={"ops_cycles": r.ops_cycles * 2}) if r.segment == "sink" else r
        for r in at.counters.replicas
    ]
    counters = at.counters.model_copy(update={"replicas": tuple(slow)})
    drawn = pipe(at.model_copy(update={"counters": counters}))
    width = {p.role: p.capacity_pps or 0.0 for p in drawn.parts}
    assert max(width["generator"], width["sink"]) < width["chain"]
    assert "The tester is narrower" in drawn.headline
    assert any(r.startswith("The chain's narrowest part is acl+lb+l3fwd") for r in drawn.reasons)


def test_an_interval_is_not_that_of_one_repetition() -> None:
    """The first has undisturbed slices, in which it was slow, and the second has none: "can carry
    13.5 Mpps (5.65 Mpps to 6.10 Mpps)" was said of both."""
    slow = Interval(value=5.8 * MPPS, low=5.65 * MPPS, high=6.1 * MPPS)
    one = PartCapacity(
        name="acl+lb+l3fwd", role="chain", cpus=(2,), pps=slow, tsc_hz=TSC_HZ, clock_hz=TSC_HZ,
        cycles_per_packet=Interval(value=400, low=390, high=410), quiet_share=0.5, slices=43,
        at_limit=True,
    )  # fmt: skip
    capacity = Capacity(parts=(one,), narrowest=one.name, pps=slow, trials=1)
    first, second = repeated(6 * MPPS, 13.5 * MPPS)
    drawn = pipe_of([first.model_copy(update={"capacity": capacity}), second], [])
    part = drawn.part("acl+lb+l3fwd")
    assert part.sampled is None and (part.capacity_pps or 0.0) >= 13.5 * MPPS
    assert not any("6.10" in text for text in (drawn.headline, *drawn.reasons))
    both = [one.model_copy(update={"capacity": capacity}) for one in (first, second)]
    assert pipe_of(both, []).part("acl+lb+l3fwd").sampled is not None


def test_of_two_repetitions_the_capacity_is_neithers_alone() -> None:
    """The slower of the two stood in the headline, with its own interval, and the median of both
    in the table beside it."""

    def sampled(cycles: float, pps: float) -> Capacity:
        one = PartCapacity(
            name="acl+lb+l3fwd", role="chain", cpus=(2,), tsc_hz=TSC_HZ, clock_hz=TSC_HZ,
            pps=Interval(value=pps, low=pps - 1, high=pps + 1), quiet_share=0.5, slices=40,
            cycles_per_packet=Interval(value=cycles, low=cycles - 1, high=cycles + 1),
        )  # fmt: skip
        return Capacity(parts=(one,), narrowest=one.name, pps=one.pps, trials=1)

    loads = (5 * MPPS, 5 * MPPS, 5 * MPPS)
    slow, fast, fastest = (
        one.model_copy(update={"capacity": capacity})
        for one, capacity in zip(
            repeated(*loads),
            (sampled(400, 6 * MPPS), sampled(300, 8 * MPPS), sampled(240, 10 * MPPS)),
            strict=True,
        )
    )
    two = pipe_of([fast, slow], []).part("acl+lb+l3fwd").sampled
    assert two is not None
    assert two.cycles_per_packet == Interval(value=350, low=299, high=401)
    assert two.pps == Interval(value=7 * MPPS, low=6 * MPPS - 1, high=8 * MPPS + 1)
    assert two.slices == 80
    three = pipe_of([fastest, slow, fast], []).part("acl+lb+l3fwd").sampled
    assert three is not None and three.cycles_per_packet.value == 300
