# SPDX-License-Identifier: Apache-2.0
"""Capacities of slices whose costs are known, beside neighbours that make packets dear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from headrace.model.undisturbed import (
    ALONE_LEAST,
    LEAST,
    alone,
    capacity,
    of_usual_state,
    usual_lines,
)
from headrace.record.counters import Counters, ReplicaReading, RingReading, Turns
from headrace.record.segments import Segment
from headrace.record.slices import ReplicaSlices, Sliced

HZ, SLICE = 2_000_000_000, 20_000_000  # cycles of 10 ms
BURST = 32


def slices(
    name: str,
    cost: float,
    cpu: int = 1,
    n: int = 200,
    disturbed: Sequence[int] = (),
    share: float = 1.0,
    noise: float = 0.01,
    poll: float | None = None,
    cold: float = 1.0,
) -> ReplicaSlices:
    """A replica that is busy for `share` of each slice. In disturbed ones half of the time is
    taken, and a packet costs twice as much; in the slice behind one `cold` times as much. `poll`:
    cycles of a poll by itself, of few packets."""
    random = np.random.default_rng(len(name))
    off = np.isin(np.arange(n), disturbed)
    each = cost * (1 + noise * random.standard_normal(n)) * np.where(off, 2.0, 1.0)
    each[1:] *= np.where(off[:-1] & ~off[1:], cold, 1.0)
    ops = np.where(off, SLICE / 2, SLICE) * share
    together = np.full(n, float(BURST)) if poll is None else np.full(n, 4.0)
    packets = np.floor(ops / (each + (poll or 0.0) / together))
    counts = np.floor(packets / together)
    columns = {
        "end": SLICE * np.arange(1.0, n + 1), "ref": np.full(n, float(SLICE)), "ops": ops,
        "pauses": np.where(off, SLICE / 2, 0.0), "kept_us": np.zeros(n), "packets": packets,
        "found": counts, "pace": np.full(n, 160.0), "wide": np.full(n, 180.0),
        "line": np.zeros(n),
    }  # fmt: skip
    # Polls that find one packet and seven alternately: four in the mean.
    polls = np.zeros(n) if poll is None else np.floor(counts / 2)
    columns |= {
        "turns": 2 * polls,
        "turn_packets": 8 * polls,
        "turn_packets_squared": 50 * polls,
        "turn_cycles": polls * (2 * (poll or 0) + 8 * cost),
        "turn_cycles_by_packets": polls * (8 * (poll or 0) + 50 * cost),
    }
    return ReplicaSlices(name, 0, cpu, HZ, 256, columns)


def sliced(*replicas: ReplicaSlices, seen: Sequence[int] = (), load: float = 0.0) -> Sliced:
    """`seen`: packets of each replica; of the first, those that the chain takes in."""
    counts = seen or [1000] * len(replicas)
    return Sliced(
        load_pps=load,
        segments=tuple(Segment(name=one.segment, cpus=(one.cpu,)) for one in replicas),
        counters=Counters(
            tsc_hz=HZ,
            replicas=tuple(
                ReplicaReading(
                    segment=one.segment, index=0, cpu=one.cpu, packets_in=n, burst=BURST,
                    inputs={("wire-forward" if i == 0 else f"ring-{i}"): n}, turns=Turns(),
                )
                for i, (one, n) in enumerate(zip(replicas, counts, strict=True))
            ),
            rings={"wire-forward": RingReading(size=4096, full=500)},
        ),
        replicas=replicas,
    )  # fmt: skip


def test_a_neighbour_is_left_out() -> None:
    """A third of the slices cost twice as much: the mean over all of them would be 20 % off. Those
    behind them have cold caches: with these it would be 4 %."""
    estimate = capacity([[sliced(slices("acl", 100.0, disturbed=range(0, 200, 3), cold=1.08))]])
    assert estimate is not None
    [part] = estimate.parts
    assert part.cycles_per_packet.value == pytest.approx(100, rel=0.003)
    assert estimate.pps.value == pytest.approx(HZ / 100, rel=0.003)
    assert part.quiet_share == pytest.approx(2 / 3, abs=0.01) and part.slices == 66


def behind(off: Sequence[int], later: float = 0.0) -> Sliced:
    """A sink that gets 100 packets a slice, and none while the chain's lcore stood still; its own
    never does. Its slices begin so much of one later than the chain's."""
    chain, sink = slices("acl", 100.0, disturbed=off), slices("sink", 100.0, cpu=0)
    taken = chain["pauses"] / SLICE
    missed = (1 - later) * taken + later * np.append(taken[1:], 0.0)
    columns = {"packets": 100 * (1 - missed), "end": sink["end"] + later * SLICE}
    return sliced(chain, replace(sink, columns={**sink.columns, **columns}))


@pytest.mark.parametrize("later", [0.0, 0.3])
def test_who_waits_for_an_lcore_that_stands_still_is_held_up_with_it(later: float) -> None:
    """A quarter of the chain's slices lose half of their time: 7/8 of the packets come. In them a
    packet costs twice as much: one of thirteen."""
    seen = alone(behind(range(0, 200, 4), later), "sink")
    assert seen is not None and seen.rate == pytest.approx(8 / 7, rel=0.005)
    assert seen.cycles["acl", 0] == pytest.approx(13 / 14, rel=0.005)
    whole = alone(behind([]), "sink")
    assert whole is not None and whole.rate == 1.0
    assert whole.cycles == {("acl", 0): 1.0, ("sink", 0): 1.0}


@pytest.mark.parametrize("worse", [{"wide": 270.0}, {"line": 344.0}])
def test_who_waits_for_a_core_that_others_share_is_held_up_with_it(worse: dict[str, float]) -> None:
    """Nothing is taken from the lcore, but packets cost half as much again in a third of its
    slices: somebody is on the other hyperthread, or the lcores are farther from each other."""
    usual = {"pace": 160.0, "wide": 180.0, "line": 78.0}
    chain, sink = slices("acl", 100.0, noise=0.0), slices("sink", 100.0, cpu=0)
    slow = np.arange(200) >= 134
    packets = np.where(slow, chain["packets"] / 1.5, chain["packets"])
    readings = {key: np.where(slow, worse.get(key, value), value) for key, value in usual.items()}
    shared = replace(chain, columns={**chain.columns, "packets": packets, **readings})
    received = replace(sink, columns={**sink.columns, "packets": packets})
    seen = alone(sliced(shared, received), "sink")
    assert seen is not None
    assert seen.rate == pytest.approx(packets[0] / packets.mean(), rel=0.01)
    assert seen.cycles["acl", 0] == pytest.approx(packets.mean() / packets[0], rel=0.01)


def test_a_clock_that_moves_in_steps_is_no_slow_core() -> None:
    """Additions took 130, 156 or 182 TSC cycles, as that clock moves by 26: of all trials of a plan
    one was left, as each had slices beside which others were slow."""
    chain, sink = slices("acl", 100.0, noise=0.0), slices("sink", 100.0, cpu=0)
    steps = np.tile([130.0, 156.0, 182.0], 67)[:200]
    moving = replace(chain, columns={**chain.columns, "pace": steps, "wide": steps + 13})
    later = replace(sink, columns={**sink.columns, "end": sink["end"] + 0.3 * SLICE})
    seen = alone(sliced(moving, later), "sink")
    assert seen is not None and seen.rate == pytest.approx(1.0, rel=0.001)


def test_of_two_undisturbed_slices_there_is_no_rate() -> None:
    def left(n: int) -> object:
        return alone(behind(range(n, 200)), "sink")

    assert left(ALONE_LEAST) is not None and left(ALONE_LEAST - 1) is None


def test_what_the_kernel_says_counts_as_much_as_a_pause() -> None:
    one = slices("acl", 100.0, disturbed=range(0, 200, 3))
    kept = {**one.columns, "pauses": np.zeros(200), "kept_us": one["pauses"] / HZ * 1e6}
    estimate = capacity([[sliced(ReplicaSlices("acl", 0, 1, HZ, 256, kept))]])
    assert estimate is not None and estimate.pps.value == pytest.approx(HZ / 100, rel=0.003)


@pytest.mark.parametrize("column, factor", [("pace", 1.3), ("wide", 1.5)])
def test_a_slow_core_is_left_out(column: str, factor: float) -> None:
    one = slices("acl", 100.0, disturbed=range(0, 200, 3))
    slow = np.isin(np.arange(200), range(0, 200, 3))
    columns = {**one.columns, "pauses": np.zeros(200)}
    columns[column] = np.where(slow, columns[column] * factor, columns[column])
    estimate = capacity([[sliced(ReplicaSlices("acl", 0, 1, HZ, 256, columns))]])
    assert estimate is not None and estimate.pps.value == pytest.approx(HZ / 100, rel=0.003)


def test_slices_with_lcores_elsewhere_are_left_out() -> None:
    """Lines of the other lcore took 344 cycles instead of 78 in a third of the slices, and packets
    half as much again. Of two starts the state that most slices of both are of counts; a state
    that is asked for counts however few its slices are."""
    elsewhere = np.arange(200) >= 140
    one = slices("acl", 100.0, noise=0.002)
    packets = np.where(elsewhere, one["packets"] / 1.5, one["packets"])
    line = np.where(elsewhere, 344.0, 78.0)
    columns = {**one.columns, "packets": packets, "found": packets / BURST, "line": line}
    mixed = sliced(ReplicaSlices("acl", 0, 1, HZ, 256, columns))
    alone = capacity([[mixed]])
    assert alone is not None and alone.line_cycles == 78
    assert alone.pps.value == pytest.approx(HZ / 100, rel=0.003)
    assert alone.parts[0].quiet_share == pytest.approx(140 / 200, abs=0.04)  # edges are of neither
    far = {**columns, "packets": one["packets"] / 1.5, "line": np.full(200, 344.0)}
    far["found"] = far["packets"] / BURST
    both = capacity([[mixed], [sliced(ReplicaSlices("acl", 0, 1, HZ, 256, far))]])
    assert both is not None and both.line_cycles == 344
    assert both.pps.value == pytest.approx(HZ / 150, rel=0.003)
    near = capacity(
        [[mixed], [sliced(ReplicaSlices("acl", 0, 1, HZ, 256, far))]], {(1, frozenset({1})): 78.0}
    )
    assert near is not None and near.pps.value == pytest.approx(HZ / 100, rel=0.003)


def test_lcores_that_lie_differently_are_no_other_state() -> None:
    """Three lcores: the third's neighbour is on another socket. Nothing moved, and all slices of
    all of them count."""
    lines = {1: 78.0, 2: 78.0, 3: 344.0}
    several = [slices(name, 100.0, cpu) for cpu, name in enumerate(("acl", "lb", "nat"), 1)]
    replicas = [
        ReplicaSlices(
            one.segment, 0, one.cpu, HZ, 256, {**one.columns, "line": np.full(200, lines[one.cpu])}
        )
        for one in several
    ]
    whole = sliced(*replicas)
    assert of_usual_state(whole, usual_lines([whole])) == 1
    estimate = capacity([[whole]])
    assert estimate is not None and [part.quiet_share for part in estimate.parts] == [1, 1, 1]
    assert estimate.line_cycles == pytest.approx((78 + 78 + 344) / 3)


def test_a_clock_that_wanders_is_taken_out() -> None:
    """The same cycles of the core for each packet, at 1.25 and at 1.19 times the TSC's clock."""
    slow = np.arange(200) % 20 >= 10
    one = slices("acl", 100.0, noise=0.0)
    pace = np.where(slow, 256 * 0.84, 256 * 0.8)
    packets = SLICE / (100 * np.where(slow, 0.84 / 0.8, 1.0))
    columns = {**one.columns, "pace": pace, "wide": pace * 1.1, "packets": packets}
    columns["found"] = packets / BURST
    estimate = capacity([[sliced(ReplicaSlices("acl", 0, 1, HZ, 256, columns))]])
    assert estimate is not None and estimate.clock_hz == pytest.approx(1.25 * HZ)
    assert estimate.pps.value == pytest.approx(HZ / 100, rel=1e-6)
    assert estimate.pps.half < 1e-6 * estimate.pps.value


def test_what_does_not_follow_the_clock_is_left_as_it_is() -> None:
    """A wait by the TSC's own clock costs as much at any clock of the core."""
    pace = np.where(np.arange(200) % 20 >= 10, 256 * 0.84, 256 * 0.8)
    columns = {**slices("delay", 100.0, noise=0.003).columns, "pace": pace, "wide": pace * 1.1}
    estimate = capacity([[sliced(ReplicaSlices("delay", 0, 1, HZ, 256, columns))]])
    assert estimate is not None and estimate.pps.value == pytest.approx(HZ / 100, rel=0.003)


def test_the_interval_holds_the_truth_in_most_of_its_draws() -> None:
    held = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        one = slices("acl", 100.0, noise=0.0)
        # Costs that wander: slices beside each other are alike.
        level = np.repeat(random.normal(0, 0.02, 20), 10)
        columns = {**one.columns, "packets": SLICE / (100 * (1 + level))}
        columns["found"] = columns["packets"] / BURST
        estimate = capacity([[sliced(ReplicaSlices("acl", 0, 1, HZ, 256, columns))]])
        assert estimate is not None
        truth = HZ / 100 * (1 + 0.02**2)
        held += estimate.pps.low <= truth <= estimate.pps.high
    assert 85 <= held <= 100


def test_starts_that_differ_widen_the_interval() -> None:
    near = [[sliced(slices("acl", cost))] for cost in (100.0, 100.1, 99.9)]
    far = [[sliced(slices("acl", cost))] for cost in (100.0, 108.0, 92.0)]
    close, wide = capacity(near), capacity(far)
    assert close is not None and wide is not None
    assert close.pps.half < 0.01 * close.pps.value
    assert wide.pps.half > 0.03 * wide.pps.value


def test_the_interval_has_what_a_start_carried() -> None:
    """One start of nine is 10 % faster than the others, and takes in so much, slice by slice."""
    estimate = capacity([[sliced(slices("acl", cost))] for cost in (*[100.0] * 8, 90.0)])
    assert estimate is not None and estimate.parts[0].pps == estimate.pps
    assert estimate.pps.high >= HZ / 90 * 0.997 and estimate.pps.value < HZ / 98


def test_the_interval_has_nothing_that_was_carried_with_lcores_elsewhere() -> None:
    """A demo said 13.6 Mpps give or take 39 %: one start had met lcores near each other."""
    starts = []
    for cost, line in (*[(100.0, 344.0)] * 8, (60.0, 78.0)):
        one = slices("acl", cost)
        columns = {**one.columns, "line": np.full(200, line)}
        starts.append([sliced(ReplicaSlices("acl", 0, 1, HZ, 256, columns))])
    estimate = capacity(starts)
    assert estimate is not None and estimate.line_cycles == 344
    assert estimate.pps.high < HZ / 98


def test_parts_of_one_lcore_add_up_and_others_do_not() -> None:
    """The second sees half of the packets of the first, on its lcore; the third has its own."""
    estimate = capacity(
        [[sliced(slices("a", 100.0), slices("b", 60.0), slices("c", 80.0, cpu=2),
                 seen=(1000, 500, 500))]]
    )  # fmt: skip
    assert estimate is not None
    a, b, c = estimate.parts
    assert a.pps.value == pytest.approx(HZ / 130, rel=0.005) and b.pps == a.pps
    assert c.pps.value == pytest.approx(HZ / 40, rel=0.005)
    assert b.cycles_per_packet.value == pytest.approx(60, rel=0.005)
    assert estimate.narrowest == "a" and estimate.pps == a.pps


def test_far_from_its_limit_a_part_goes_by_the_line_through_its_polls() -> None:
    estimate = capacity([[sliced(slices("acl", 50.0, share=0.3, poll=320.0), load=1e6)]])
    assert estimate is not None
    assert estimate.pps.value == pytest.approx(HZ / (50 + 320 / BURST), rel=0.01)


def test_packets_that_come_one_by_one_tell_nothing_of_full_bursts() -> None:
    one = slices("acl", 50.0, share=0.1, poll=1300.0)
    alone = {name: one["found"] for name in one.columns if name == "packets" or "turn" in name}
    one = replace(one, columns={**one.columns, **alone})
    assert capacity([[sliced(one, load=1e5)]]) is None


def test_too_small_a_sample_is_none() -> None:
    enough = slices("acl", 100.0, n=300, disturbed=range(LEAST, 300))
    few = slices("acl", 100.0, n=300, disturbed=range(LEAST - 1, 300))
    assert capacity([[sliced(enough)]]) is not None
    assert capacity([[sliced(few)]]) is None
    assert capacity([]) is None


def test_a_start_counts_the_same_however_long_it_went_on() -> None:
    """Five short starts, and one that went on for long and was dearer; few slices tell less."""
    short = [[sliced(slices("chain", 100.0, n=100))] for _ in range(5)]
    long = capacity([*short, [sliced(slices("chain", 130.0, n=3000))]])
    few = capacity([*short, [sliced(slices("chain", 130.0, n=LEAST // 3))]])
    assert long is not None and few is not None
    assert long.parts[0].cycles_per_packet.value == pytest.approx(105.0, rel=0.003)
    assert few.parts[0].cycles_per_packet.value == pytest.approx(100 + 10 / 5.33, rel=0.003)
