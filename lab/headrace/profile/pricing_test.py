# SPDX-License-Identifier: Apache-2.0
"""Costs out of runs that are made of known costs: all other layouts are then known, too."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headrace.layout.cuts import layouts as all_layouts
from headrace.layout.layout import (
    SOURCE,
    Edge,
    Hop,
    Layout,
    NfCost,
    Problem,
    Traffic,
    further,
    homes,
    loads,
    resteered,
    throughput,
)
from headrace.profile.pricing import PricedPart, Taken, layouts, price

HZ, KEPT = 2e9, 0.97


def truth(n: int, edges: tuple[Edge, ...] = (), relief: float = 6.0, crowd: float = 0.0) -> Problem:
    draw = random.Random(n)
    nfs = []
    for i in range(n):
        work, behind = draw.uniform(20, 120), (5, 30, 10, 65) if i else (30, 55, 12, 75)
        replicated = work - relief + 20  # half of the tables, and short bursts
        nfs.append(
            NfCost(
                name=str(i),
                rx=Hop(behind[0], behind[1], behind[2:]),
                work=Hop(work, work + 15, (replicated, replicated + 28)),
                tx=Hop(3, 4, (7, 21)),
                loop=1.0,
                replicated=replicated,
                relief=relief,
            )
        )
    traffic = Traffic(Hop(160, 150, (185, 185)), Hop(45, 80, (70, 70)), 0, 1, crowd=crowd)
    return Problem(tuple(nfs), traffic, (0, 1), HZ, kept=KEPT, edges=edges)


def ran(given: Problem, layout: Layout, tables: float = 1.0) -> Taken:
    """As the engine's counters would have it, each function's cycles at its own place."""
    n, on = len(given.nfs), [(0,), *layout.lcores, (1,)]
    home = homes(n, layout)
    crowd = {
        cpu: sum(1 / n / len(on[home[i]]) for i in range(n) if cpu in on[home[i]]) for cpu in (0, 1)
    }
    stages: list[tuple[PricedPart, ...]] = []
    source = given.traffic.source.mixed(*_ends(0, on[1]))
    source += given.traffic.crowd * further(layout, 0) * (len(on[1]) > 1)
    stages.append((PricedPart(0, 1.0, source, 0.0, 0.0, 32),))
    for at in range(1, len(on) - 1):
        here = [i for i in range(n) if home[i] == at]
        mixed = resteered(given.nfs, home, at - 1), resteered(given.nfs, home, at)
        stages.append(
            tuple(_part(given, here, on, at, cpu, crowd[cpu] * tables, mixed) for cpu in on[at])
        )
    sink = given.traffic.sink.mixed(*_ends(1, on[-2]))
    stages.append((PricedPart(1, 1.0, sink, 0.0, 0.0, 32),))
    return Taken(layout, tuple(stages), HZ * KEPT / max(loads(given, layout).values()))


def _ends(cpu: int, others: tuple[int, ...]) -> tuple[float, bool]:
    return (cpu in others) / len(others), len(others) > 1


def _part(
    given: Problem,
    here: list[int],
    on: list[tuple[int, ...]],
    at: int,
    cpu: int,
    crowd: float,
    mixed: tuple[bool, bool],
) -> PricedPart:
    """`mixed`: whether flows are steered otherwise behind the segment before, and behind this."""
    own, of, to = on[at], on[at - 1], on[at + 1]
    several = len(own) > 1
    near = 1.0 if several and of == own and not mixed[0] else (cpu in of) / len(of)
    nfs = given.on(cpu)
    first, last = nfs[here[0]], nfs[here[-1]]
    work = {i: nfs[i].inside(several, crowd) for i in here}
    work[here[0]] += first.work.mixed(near, several) - first.inside(several)
    tx = last.tx.mixed((cpu in to) / len(to))
    if several:
        tx = last.tx.mixed((0.5 if mixed[1] else 1.0) * (own == to), True)
    rx = first.rx.mixed(near, several)
    return PricedPart(cpu, 1 / len(own), rx, tx, 1.0, 32, sum(work.values()), work)


@pytest.mark.parametrize(
    ("n", "resteers"), [(1, ()), (3, ()), (4, ()), (1, (0,)), (3, (1,)), (4, (0, 2)), (4, range(4))]
)
def test_every_layout_is_priced_out_of_a_few(n: int, resteers: Sequence[int]) -> None:
    """Behind a load balancer, say, half of what replicas get comes from the other lcore."""
    given = truth(n, crowd=25.0)
    given = replace(
        given, nfs=tuple(replace(nf, resteers=i in resteers) for i, nf in enumerate(given.nfs))
    )
    runs = {
        name: ran(given, layout, 0.5 if name == "half" else 1.0)
        for name, layout in layouts(n, (0, 1)).items()
    }
    ways = tuple(Edge(i - 1, i, 1.0) for i in range(n + 1))
    priced = price([str(i) for i in range(n)], runs, ways, (0, 1), HZ, set(map(str, resteers)))
    assert priced.kept == pytest.approx(KEPT, rel=0.02)
    for layout in all_layouts(given):
        predicted, real = throughput(priced, layout), throughput(given, layout)
        assert predicted == pytest.approx(real, rel=0.05), layout.text("abcd"[:n])


def test_who_begins_a_segment_pays_for_what_those_behind_need() -> None:
    """A function that needs nothing of a packet's headers receives at 15 cycles alone and reads the
    header itself; with others behind it packets are classified when they come, at 170. What those
    others pay to receive, 55, is of packets whose headers the function before them has read."""
    given = truth(3, relief=0.0)
    alone = replace(given.nfs[0], rx=Hop(5, 15, (5, 15)), work=Hop(10, 50, (10, 50)), replicated=10)
    joined = replace(alone, joined=(Hop(150, 170, (150, 170)), Hop(10, 10, (10, 10))))
    given = replace(given, nfs=(joined, *given.nfs[1:]))

    def of(layout: Layout) -> Taken:
        first = given.nfs[0]
        if layout.cuts[0] > 1 and first.joined is not None:
            first = replace(first, rx=first.joined[0], work=first.joined[1])
        return ran(replace(given, nfs=(first, *given.nfs[1:])), layout)

    runs = {name: of(layout) for name, layout in layouts(3, (0, 1)).items()}
    priced = price("abc", runs, given.ways, (0, 1), HZ)
    for cuts, on in (((2, 1), ((1,), (1,))), ((2, 1), ((0,), (1,))), ((1, 2), ((1,), (1,)))):
        layout = Layout(cuts, on)
        assert throughput(priced, layout) == pytest.approx(throughput(given, layout), rel=0.05)


def test_who_reads_a_header_first_pays_less_on_the_lcore_that_made_it() -> None:
    """The function before it needs none: behind its ring 460 cycles on the measuring lcore, where
    nobody has seen the header, and 100 on the source's. Both were priced at 460."""
    given = truth(3, relief=0.0)

    def with_second(same: float) -> tuple[NfCost, ...]:
        second = replace(given.nfs[1], rx=Hop(same, 500, (same, 500)))
        return (given.nfs[0], second, given.nfs[2])

    given = replace(given, nfs=with_second(460), special={0: with_second(100)})
    runs = {name: ran(given, layout) for name, layout in layouts(3, (0, 1)).items()}
    priced = price("abc", runs, given.ways, (0, 1), HZ)
    for on in (((0,), (0,), (1,)), ((0,), (0,), (0,)), ((1,), (1,), (1,))):
        layout = Layout((1, 1, 1), on)
        assert throughput(priced, layout) == pytest.approx(throughput(given, layout), rel=0.05)


def test_replicas_are_not_priced_as_one_with_half_of_the_flows() -> None:
    """Which they were, by one lcore that had half of them: without their short bursts, and without
    what the other one takes of the caches meanwhile."""
    given = truth(3)
    runs = {
        name: ran(given, layout, 0.5 if name == "half" else 1.0)
        for name, layout in layouts(3, (0, 1)).items()
    }
    priced = price("abc", runs, given.ways, (0, 1), HZ)
    for i, nf in enumerate(priced.nfs):
        [half] = runs["half"].stages[1]
        assert nf.replicated == pytest.approx(given.nfs[i].replicated, rel=1e-6)
        if i:  # the first one has the other lcore's header to fetch besides
            assert nf.replicated == pytest.approx(half.nfs[i] + 20)


def test_a_function_that_gets_packets_from_two_places_is_seen_in_neither() -> None:
    """Half of the packets go past the second function: the third gets them from both lcores."""
    edges = (Edge(SOURCE, 0, 1.0), Edge(0, 1, 0.5), Edge(0, 2, 0.5), Edge(1, 2, 0.5), Edge(2, 3, 1))
    given = truth(3, edges, relief=0.0)
    runs = {name: ran(given, layout) for name, layout in layouts(3, (0, 1)).items()}
    odd = runs["odd"]
    mixed = PricedPart(1, 1.0, 999.0, 4.0, 1.0, 32, 999.0, {2: 999.0})
    runs["odd"] = Taken(odd.layout, (*odd.stages[:3], (mixed,), odd.stages[4]), odd.sent_pps)
    priced = price("abc", runs, edges, (0, 1), HZ)
    for nfs in (priced.nfs, *priced.special.values()):
        assert nfs[2].rx.apart < 100 and nfs[2].work.apart < 200


def test_who_comes_to_an_lcore_once_is_not_priced_as_who_comes_back() -> None:
    """The third function gets its packets from the other lcore in `odd` as in `from 2`, but there
    they have been on its own before: 300 cycles more, as the layouts that go back and forth wait
    for more lines of both. What a chain pays that is cut once is the other price."""
    given = truth(3, relief=0.0)
    runs = {name: ran(given, layout) for name, layout in layouts(3, (0, 1)).items()}
    odd = runs["odd"]
    [part] = odd.stages[3]
    back = replace(part, rx=part.rx + 300)
    runs["odd"] = replace(odd, stages=(*odd.stages[:3], (back,), odd.stages[4]))
    priced = price("abc", runs, given.ways, (0, 1), HZ)
    assert priced.special[1][2].rx.apart == pytest.approx(given.nfs[2].rx.apart)
    layout = Layout((2, 1), ((0,), (1,)))
    assert throughput(priced, layout) == pytest.approx(throughput(given, layout), rel=0.05)


@pytest.mark.parametrize("away", ["whole", "near", "in turn", "odd", "from 1"])
def test_costs_are_of_one_state_where_a_run_was_of_another(away: str) -> None:
    """The chain in one segment could be run with lcores elsewhere only, where each line of the
    other one costs 75 cycles more: by that run its own layout was priced 28 % below what it
    carried."""
    given = truth(3, crowd=25.0)
    runs = {
        name: ran(given, layout, 0.5 if name == "half" else 1.0)
        for name, layout in layouts(3, (0, 1)).items()
    }
    runs[away] = _moved(runs[away])
    priced = price("abc", runs, tuple(Edge(i - 1, i, 1.0) for i in range(4)), (0, 1), HZ)
    for layout in all_layouts(given):
        predicted, real = throughput(priced, layout), throughput(given, layout)
        assert predicted == pytest.approx(real, rel=0.08), layout.text("abc")


def _moved(one: Taken, line: float = 75.0) -> Taken:
    """The same where what comes from, or goes to, another lcore costs so much more."""
    on = [tuple(part.cpu for part in stage) for stage in one.stages]
    stages = []
    for at, stage in enumerate(one.stages):
        before, after = on[at - 1] if at else (0,), on[at + 1] if at + 1 < len(on) else (1,)
        stages.append(
            tuple(
                replace(
                    part,
                    rx=part.rx + line * (part.cpu not in before),
                    tx=part.tx + line / 5 * (part.cpu not in after),
                )
                for part in stage
            )
        )
    return replace(one, stages=tuple(stages), sent_pps=one.sent_pps / 1.3, away=True)
