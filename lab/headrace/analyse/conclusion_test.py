# SPDX-License-Identifier: Apache-2.0
"""The sentence names what the figures say, held against rates and costs that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.analyse.bottleneck import pipe
from headrace.analyse.bundle_report import report
from headrace.analyse.capacity import CycleCost
from headrace.analyse.conclusion import Conclusion, Standing, _why, conclude
from headrace.analyse.lcores import Lcore, folded, lcores_of
from headrace.analyse.notes import not_made
from headrace.analyse.summary import summarise
from headrace.analyse.units import significant
from headrace.model.paired import Rounds
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.estimates import Capacity, Interval, PartCapacity, Predicted, Span
from headrace.record.rows import Bounds, Result
from headrace.record.testdata import GENERATOR_CYCLES, IO_CYCLES, NF_CYCLES, TSC_HZ
from headrace.record.verdict import Audit, Finding


@pytest.fixture(scope="module")
def results(bundle_path: Path) -> list[Result]:
    """Without capacities: judged by the rates that the searches found."""
    rows = Bundle(bundle_path).results()
    return [
        r.model_copy(update={"capacity": None})
        for r in rows
        if r.goal == "ndr" and r.ground == "measured"
    ]


def of(folder: Path, results: list[Result]) -> Conclusion:
    with BundleWriter(folder) as w:
        for one in results:
            w.result(one)
    concluded = report(Bundle(folder)).groups[0].conclusion
    assert concluded is not None
    return concluded


def changed(results: list[Result], execution: str, **changes: Any) -> list[Result]:
    return [r.model_copy(update=changes) for r in results if r.execution == execution]


def at_rates(results: list[Result], **rates: float) -> list[Result]:
    return [
        r
        for name, pps in rates.items()
        for r in changed(results, name, throughput_pps=pps, policy_dropped=0, bounds=None)
    ]


def test_the_fastest_is_named_with_its_ratio(tmp_path: Path, results: list[Result]) -> None:
    concluded = of(tmp_path / "b", at_rates(results, rtc=10e6, pipeline=15e6, hybrid=12e6))
    assert (concluded.best, concluded.sure, concluded.tied) == ("pipeline", True, ())
    assert concluded.ratio is not None and concluded.ratio.value == pytest.approx(1.25)
    assert concluded.sentence.startswith("pipeline is best: ndr 15.0\u202fMpps, 1.25 times hybrid")
    assert [s.execution for s in concluded.standings] == ["pipeline", "hybrid", "rtc"]


def test_one_start_of_each_orders_nothing_that_starts_differ_by(
    tmp_path: Path, results: list[Result]
) -> None:
    """A demo named rtc best by 4 %, by one search of each."""
    once = [r for r in results if r.repetition == 1]
    near = at_rates(once, rtc=10.4e6, pipeline=10e6)
    concluded = of(tmp_path / "near", near)
    assert (concluded.best, concluded.tied, concluded.sure) == (None, (), False)
    assert concluded.sentence.startswith("Which is best is not known, as starts of one execution")
    far = of(tmp_path / "far", at_rates(once, rtc=11.1e6, pipeline=10e6))
    assert far.best == "rtc"
    again = of(tmp_path / "again", at_rates(results, rtc=10.4e6, pipeline=10e6))
    assert again.best == "rtc"


def test_who_carried_all_there_was_is_not_behind(tmp_path: Path, results: list[Result]) -> None:
    some = at_rates(results, rtc=10e6, pipeline=15e6)
    bound = Audit(verdict="generator-bound")
    few = [r.model_copy(update={"audit": bound}) for r in at_rates(results, hybrid=12e6)]
    concluded = of(tmp_path / "g", [*some, *few])
    assert (concluded.best, concluded.tied, concluded.ratio, concluded.sure) == (
        None,
        (),
        None,
        False,
    )
    assert concluded.sentence.startswith(
        "Which is best is not known, as more packets than hybrid had were not made: ndr pipeline "
        "15.0\u202fMpps, hybrid at least 12.0\u202fMpps and rtc 10.0\u202fMpps;"
    )


def test_ranges_that_overlap_are_a_tie(tmp_path: Path, results: list[Result]) -> None:
    some = at_rates(results, rtc=10e6, pipeline=15e6)
    near = [
        r.model_copy(update={"throughput_pps": pps})
        for r, pps in zip(at_rates(results, hybrid=0.0), (14.8e6, 14.9e6, 15.1e6), strict=True)
    ]
    concluded = of(tmp_path / "t", [*some, *near])
    assert (concluded.best, concluded.sure, concluded.tied) == (None, False, ("pipeline", "hybrid"))
    assert "pipeline and hybrid tie" in concluded.sentence and "ahead of rtc" in concluded.sentence


def predicted(results: list[Result], **ranges: tuple[float, float, float]) -> list[Result]:
    """By execution: the least, the figure, the most."""
    return [
        at_rates(results, **{name: rate})[0].model_copy(
            update={
                "ground": "predicted",
                "predicted": Predicted(server="a", carried_pps=Span(low=low, high=high)),
            }
        )
        for name, (low, rate, high) in ranges.items()
    ]


def test_predictions_are_judged_with_what_their_server_leaves_open(
    tmp_path: Path, results: list[Result]
) -> None:
    """Where nothing was measured beside them; one of each is no single repetition."""
    apart = of(
        tmp_path / "a", predicted(results, rtc=(9e6, 10e6, 11e6), pipeline=(12e6, 15e6, 16e6))
    )
    assert apart.best == "pipeline" and apart.ratio is not None
    assert (apart.ratio.low, apart.ratio.high) == pytest.approx((12 / 11, 16 / 9))
    assert apart.sentence.endswith("; predicted, and not measured.")
    near = of(
        tmp_path / "n", predicted(results, rtc=(9e6, 10e6, 13e6), pipeline=(12e6, 15e6, 16e6))
    )
    assert (near.best, near.tied) == (None, ("pipeline", "rtc"))
    measured = at_rates(results, rtc=10e6)
    beside = of(tmp_path / "m", [*measured, *predicted(results, pipeline=(14e6, 15e6, 16e6))])
    assert [s.execution for s in beside.standings] == ["rtc"]


def test_what_is_at_least_has_no_most(results: list[Result]) -> None:
    """A range around a lower bound named a ratio of 1.51 as its end."""
    bound = {"audit": Audit(verdict="generator-bound")}
    rows = [
        r.model_copy(update=bound if r.execution == "rtc" else {})
        for r in predicted(results, rtc=(25.8e6, 28.2e6, 30.9e6), pipeline=(20e6, 22.4e6, 25.4e6))
    ]
    told = conclude([(s, pipe(s.typical)) for s in summarise(rows)])
    assert told is not None and told.best == "rtc"
    assert "at least 1.26 times pipeline (1.02 at the ends of both ranges)" in told.sentence
    alone = conclude([(s, pipe(s.typical)) for s in summarise(rows[:1])])
    assert alone is not None
    assert "at least 28.2\u202fMpps (25.8\u202fMpps at the low end of its range)" in alone.sentence


def with_capacity(result: Result, value: float, half: float) -> Result:
    interval = Interval(value=value, low=value - half, high=value + half)
    part = PartCapacity(
        name="all", role="chain", cpus=(1,), cycles_per_packet=interval, pps=interval,
        tsc_hz=TSC_HZ, clock_hz=3e9, quiet_share=1, slices=100,
    )  # fmt: skip
    one = Capacity(parts=(part,), narrowest="all", pps=interval, trials=3)
    return result.model_copy(update={"capacity": one})


def test_capacities_are_judged_by_where_all_have_one(tmp_path: Path, results: list[Result]) -> None:
    """A disturbed machine turned the rates around, which the sentence says."""
    bad = Audit(verdict="suspect", findings=(Finding(check="preemption", ok=False, text="."),))
    concluded = of(
        tmp_path / "c",
        [
            with_capacity(r.model_copy(update={"audit": bad}), pps, 0.1e6)
            for name, rate, pps in (("rtc", 9e6, 20e6), ("hybrid", 12e6, 16e6))
            for r in at_rates(results, **{name: rate})
        ],
    )
    assert (concluded.best, concluded.by, concluded.sure, concluded.pairs) == (
        "rtc",
        "capacity",
        True,
        1,
    )
    assert concluded.ratio is not None and concluded.ratio.value == pytest.approx(1.25)
    assert concluded.sentence.startswith(
        "rtc is best: capacity 20.0\u202fMpps ± 0.50 % at 3.00 GHz, 1.25 ± 0.01 times hybrid"
    )
    assert "rtc ndr 9.00\u202fMpps on a disturbed machine" in concluded.sentence
    assert [s.figure.value for s in concluded.standings] == [20e6, 16e6]


def test_a_rate_found_with_lcores_elsewhere_is_not_held_against_a_capacity(
    results: list[Result],
) -> None:
    """A demo told a capacity of 13.7 Mpps and an NDR of 15.3: a line of the other lcore had taken
    312 cycles in the one and 78 in the other."""
    [one] = summarise(with_capacity(r, 13.7e6, 0.1e6) for r in at_rates(results, rtc=15.3e6)[:1])
    [result] = one.results
    assert result.trial is not None and result.capacity is not None
    apart = result.capacity.model_copy(update={"line_cycles": 312.0})
    one = one.model_copy(update={"results": (result.model_copy(update={"capacity": apart}),)})
    told = {}
    for line in (78.0, 325.0, 700.0):
        concluded = conclude([(one, pipe(one.typical))], lines={result.trial: line})
        assert concluded is not None
        told[line] = concluded.sentence.partition("rtc ndr ")[2]
    assert told == {
        78.0: "15.3\u202fMpps with its lcores nearer to each other.",
        325.0: "15.3\u202fMpps.",
        700.0: "15.3\u202fMpps with its lcores further apart.",
    }


def test_capacities_whose_ratio_may_be_1_tie(tmp_path: Path, results: list[Result]) -> None:
    rates = {"rtc": (20.0e6, 0.3e6), "hybrid": (19.8e6, 0.3e6), "pipeline": (15e6, 0.1e6)}
    some = [
        with_capacity(r, *rates[name]) for name in rates for r in at_rates(results, **{name: 1e7})
    ]
    concluded = of(tmp_path / "t", some)
    assert (concluded.best, concluded.tied, concluded.sure) == (None, ("rtc", "hybrid"), False)
    assert concluded.sentence.startswith("rtc and hybrid tie: capacity 20.0")
    assert "ahead of pipeline; what limits them: rtc's lcore " in concluded.sentence
    known = {one.execution: one for one in concluded.standings}
    for name in ("rtc", "hybrid"):
        full = known[name].fullest
        assert full is not None
        most = max((s for s in full.spent if s.kind == "nf"), key=lambda s: s.cycles)
        assert f"{name}'s lcore {full.cpu} with {significant(full.busy)} cycles" in (
            concluded.sentence
        )
        assert f"{significant(most.cycles)} of them in {most.name}" in concluded.sentence


def test_capacities_too_wide_to_compare_are_no_tie(tmp_path: Path, results: list[Result]) -> None:
    rates = {"rtc": (20.0e6, 9e6), "hybrid": (19.8e6, 0.3e6), "pipeline": (5e6, 0.1e6)}
    some = [
        with_capacity(r, *rates[name]) for name in rates for r in at_rates(results, **{name: 1e7})
    ]
    concluded = of(tmp_path / "u", some)
    assert (concluded.best, concluded.tied, concluded.sure) == (None, (), False)
    assert concluded.sentence.startswith(
        "Which is best of rtc and hybrid is not known: rtc's capacity 20.0\u202fMpps ± 45 % at "
        "3.00 GHz, 1.01 ± 0.45 times hybrid (one start of each, 95 %), ahead of pipeline; "
    )


def test_three_that_are_too_wide_are_counted_up(tmp_path: Path, results: list[Result]) -> None:
    rates = {"rtc": (20.0e6, 9e6), "hybrid": (19.8e6, 9e6), "pipeline": (19.5e6, 9e6)}
    some = [
        with_capacity(r, *rates[name]) for name in rates for r in at_rates(results, **{name: 1e7})
    ]
    sentence = of(tmp_path / "u", some).sentence
    assert sentence.startswith("Which is best of rtc, hybrid and pipeline is not known: ")


def test_what_is_faster_in_turn_is_best(results: list[Result]) -> None:
    """By their own starts' clocks the other had a little more."""
    turns = {  # packets per cycle
        "rtc": [x / 150 for x in (1.0, 1.01, 1.02, 1.0)],
        "hybrid": [x / 150 for x in (1.1, 1.12, 1.11, 1.1)],
    }
    rates = {"rtc": 20.2e6, "hybrid": 20.0e6}
    rows = [with_capacity(r, rates[n], 1e6) for n in rates for r in at_rates(results, **{n: 1e7})]
    explained = [(s, pipe(s.typical)) for s in summarise(rows)]
    concluded = conclude(explained, Rounds(turns))
    assert concluded is not None and concluded.best == "hybrid"
    [best, rtc] = concluded.standings
    assert best.each == pytest.approx([22.0e6, 22.4e6, 22.2e6, 22.0e6])  # at 3 GHz
    assert rtc.each == pytest.approx([x * 3e9 for x in turns["rtc"]])
    # The picture says what the sentence does, not 20.2 over 20.
    assert best.of_best is None and rtc.of_best == pytest.approx(1 / 1.0995, rel=1e-3)
    assert "hybrid is best" in concluded.sentence and " 1.10 ± 0.01 times rtc" in concluded.sentence


def test_doubtful_figures_are_said_to_be(tmp_path: Path, results: list[Result]) -> None:
    some = at_rates(results, rtc=10e6, pipeline=15e6)
    bad = Audit(verdict="suspect")
    doubted = [r.model_copy(update={"audit": bad}) if r.execution == "rtc" else r for r in some]
    concluded = of(tmp_path / "d", doubted)
    assert (concluded.best, concluded.sure) == ("pipeline", False)
    assert concluded.sentence.endswith("and not sure: the audit doubts rtc.")
    invalid = [r.model_copy(update={"audit": Audit(verdict="invalid")}) for r in some]
    none = of(tmp_path / "i", invalid)
    assert none.best is None and "No execution can be named best" in none.sentence


def test_nobody_is_best_before_one_whom_the_machine_held_up(
    tmp_path: Path, results: list[Result]
) -> None:
    """Beside bursts of other work hybrid was called best, 1.21 times pipeline, by one maximum of
    each: 12.3 and 11.5 Mpps was what they could carry, and rtc more."""
    some = [r for r in at_rates(results, rtc=10e6, pipeline=15e6) if r.repetition == 1]

    def where(execution: str) -> Conclusion:
        check = Finding(check="preemption", ok=False, value=0.25, limit=0.01, text="Kept.")
        bad = Audit(verdict="suspect", findings=(check,))
        held_up = changed(some, execution, audit=bad)
        return of(tmp_path / execution, held_up + [r for r in some if r.execution != execution])

    behind = where("rtc")
    assert behind.best is None
    assert "not known, as the machine took of what rtc carried" in behind.sentence
    assert where("pipeline").best == "pipeline"  # it would have carried more


def test_a_fixed_load_is_judged_by_latency(tmp_path: Path, results: list[Result]) -> None:
    fixed = []
    for name, p99 in (("rtc", 5000.0), ("pipeline", 20_000.0)):
        for r in changed(results, name, goal="fixed", load_pps=1e6, goal_parameters=None):
            assert r.latency_ns is not None
            times = r.latency_ns.model_copy(update={"p99": p99})
            fixed.append(r.model_copy(update={"latency_ns": times}))
    concluded = of(tmp_path / "f", fixed)
    assert concluded.best == "rtc"
    assert (
        "rtc is best: p99 at 1.00\u202fMpps 5.00\u202fµs, 0.250 times pipeline"
        in concluded.sentence
    )
    # Nor are cycles the cause of a tail far below what an lcore can carry.
    assert "because" not in concluded.sentence
    once = [next(r for r in fixed if r.execution == name) for name in ("rtc", "pipeline")]
    untold = of(tmp_path / "o", once)
    assert untold.best is None and not untold.sure
    assert untold.sentence.startswith("Which is best is not known before it is repeated: p99 at")


def test_an_lcores_cycles_add_up_to_the_time_of_a_packet(results: list[Result]) -> None:
    """By the cost model that the counters were made with, and the rate alone."""
    at = next(r for r in results if r.execution == "pipeline")
    packets = at.throughput_pps
    lcores = {one.cpu: one for one in lcores_of(at)}
    assert set(lcores) == {0, 1, 2, 3, 4}
    for one in lcores.values():
        assert sum(s.cycles for s in one.spent) == pytest.approx(TSC_HZ / packets, rel=1e-6)
    assert lcores[0].busy == pytest.approx(GENERATOR_CYCLES, rel=0.03)
    for cpu, (name, cycles) in enumerate(NF_CYCLES.items(), 2):
        assert lcores[cpu].cycles(name) == pytest.approx(cycles, rel=0.03)
        assert lcores[cpu].cycles("links") == pytest.approx(IO_CYCLES, rel=0.03)


def test_lcores_that_do_the_same_are_folded(results: list[Result]) -> None:
    at = next(r for r in results if r.execution == "rtc x 3")
    some = folded(lcores_of(at), 3)
    assert [(one.chain, one.alike) for one in some] == [(False, 1), (False, 1), (True, 3)]
    assert folded(lcores_of(at), 5) == lcores_of(at)


def test_a_goal_that_no_load_met_has_no_figure(tmp_path: Path, results: list[Result]) -> None:
    """Its last trial was above the goal: it is no rate that the chain carries."""
    met = at_rates(results, rtc=10e6, pipeline=12e6)
    none = Bounds(lower_pps=None, upper_pps=2e4, stopped_by="min-load")
    unmet = [r.model_copy(update={"bounds": none}) for r in changed(results, "hybrid")]
    concluded = of(tmp_path / "some", [*met, *unmet])
    assert concluded.best == "pipeline" and not concluded.sure
    assert [s.execution for s in concluded.standings] == ["pipeline", "rtc"]
    assert "No load that was tried met ndr, down to: hybrid 20.0\u202fkpps." in concluded.sentence
    alone = of(tmp_path / "none", unmet)
    assert alone.sentence == "No load that was tried met ndr, down to: hybrid 20.0\u202fkpps."


def test_a_comparison_that_told_nothing_is_said_behind_its_searches(results: list[Result]) -> None:
    """One search of each, some minutes apart, named what ten starts beside each other had not."""
    kept = Finding(check="preemption", ok=False, value=0.25, limit=0.01, text="Kept.")
    rates = at_rates(results, rtc=10e6) + changed(
        at_rates(results, pipeline=15e6),
        "pipeline",
        audit=Audit(verdict="suspect", findings=(kept,)),
    )
    rows = [r for r in rates if r.repetition == 1]
    explained = [(s, pipe(s.typical)) for s in summarise(rows)]
    nothing = Rounds({"rtc": [], "pipeline": []}, {"rtc": [1.0], "pipeline": [1.1]})
    alone = conclude(explained)
    assert alone is not None and alone.best == "pipeline"
    told = conclude(explained, nothing)
    assert told is not None and (told.best, told.sure) == (None, False)
    assert told.sentence.startswith(
        "Which is best is not known, as the comparison in turn did not tell: ndr pipeline 15.0"
    )
    some = Rounds({}, {"rtc": [1.0, 1.0], "pipeline": [1.1, 1.1]})
    decided = conclude(explained, some)
    assert decided is not None and decided.best == "pipeline"
    again = conclude([(s, pipe(s.typical)) for s in summarise(rates)], nothing)
    assert again is not None and again.best == "pipeline"
    quiet = [r for r in at_rates(results, rtc=10e6, pipeline=15e6) if r.repetition == 1]
    others = conclude([(s, pipe(s.typical)) for s in summarise(quiet)], nothing)  # engines, say
    assert others is not None and others.best == "pipeline"


def test_a_goal_that_nobody_met_leaves_a_comparison_untold(results: list[Result]) -> None:
    none = Bounds(lower_pps=None, upper_pps=1e4, stopped_by="min-load")
    late = Finding(check="unsent", ok=False, value=0.32767, limit=0.001, text="Not in time.")
    kept = Finding(check="preemption", ok=False, value=0.25, limit=0.01, text="Kept.")
    bad = Audit(verdict="suspect", findings=(late, kept))
    unmet = changed(results, "rtc", bounds=none, audit=bad, loss_ratio=0.0)
    [one] = summarise(unmet)
    told = conclude([(one, pipe(one.typical))], Rounds({"rtc": [], "pipeline": []}))
    assert told is not None and told.sentence == (
        "No load that was tried met ndr, down to: rtc 10.0\u202fkpps (32.8\u202f% of whose "
        "packets were not made in time). Which is best of rtc and pipeline is not known, as the "
        "comparison in turn did not tell."
    )
    assert not_made(one) == (
        "rtc, ndr: no load met it, as the source did not make 32.8\u202f% of the packets that "
        "were due; the loss of 0 is of those that were made."
    )
    [lost] = summarise([r.model_copy(update={"loss_ratio": 0.1}) for r in unmet])
    assert not_made(lost) is None  # that is why


def test_what_one_cost_saves_and_others_take_back_adds_up() -> None:
    """95 against 82 cycles, of which links save 17: the difference of 13 was given as 17 fewer."""

    def standing(name: str, links: float, work: float) -> Standing:
        spent = (
            CycleCost(name="links", kind="links", cycles=links),
            CycleCost(name="acl", kind="nf", cycles=work),
        )
        lcore = Lcore(cpu=1, segments=("chain",), chain=True, spent=spent)
        figure = Interval(value=1e6, low=1e6, high=1e6)
        return Standing(execution=name, figure=figure, verdict="ok", lcores=(lcore,))

    told = _why(standing("rtc", 10, 72), standing("pipeline", 27, 68))
    assert "82.0 cycles per packet carried, pipeline's 95.0, 17.0 fewer in" in told
    assert told.endswith(" and 4.00 more elsewhere")
    assert not _why(standing("rtc", 10, 68), standing("pipeline", 27, 68)).endswith("elsewhere")
