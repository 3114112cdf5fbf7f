# SPDX-License-Identifier: Apache-2.0
"""A described server whose capacity can be added up by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from headrace.engine.place import Topology, place
from headrace.errors import BadInput
from headrace.ground.simulated import queueing
from headrace.ground.simulated.costs import HEADERLESS, counted, priced
from headrace.ground.simulated.ground import (
    SimulatedDeployed,
    SimulatedGround,
    SimulatedPoint,
)
from headrace.ground.simulated.priced_layout import PricedLayout
from headrace.ground.simulated.queueing import delays_ns
from headrace.ground.simulated.refuse import check_covered
from headrace.layout.events import Followed, Traversal, follow
from headrace.spec import document
from headrace.spec.described import DescribedServer
from headrace.spec.round_testdata import COSTS, read_round, round_server
from headrace.spec.study import Experiment, expand

SERVER = round_server(f"  acl: &nf {COSTS.replace('50, x', '50, x, 10%')}\n  lb: *nf")
STUDY = """
name: two
chain: [acl, lb]
deployment:
  execution: [{execution}]
  lcores: {{traffic: [0, 7], chain: {chain}}}
  steer: even
workload: {{flows: {{count: 1000}}}}
"""


def server(tmp_path: Path, text: str = SERVER) -> DescribedServer:
    return read_round(tmp_path, text)


def of(
    described: DescribedServer, execution: str, chain: str = "[1, 2]", corner: float = 0.0
) -> tuple[PricedLayout, Experiment]:
    doc = document.parse(STUDY.format(execution=execution, chain=chain), Path("two.yaml"))
    [one] = expand(doc)
    topology = Topology(lambda cpu: [cpu], lambda cpu: 0)
    placement = place(one, doc, list(described.cpus), topology)
    return priced(described, described, one, placement, counted(described, one, doc), corner), one


@pytest.mark.parametrize(
    ("execution", "chain", "cycles", "narrowest"),
    [
        ("rtc", "[1]", 20 + 15 + 5 + 50 + 50 + 10, "lcore 1"),
        ("rtc", "[1, 2]", (20 + 15 + 5 + 50 + 50 + 10) / 2, "lcore 1"),  # two replicas
        ("pipeline", "[1, 2]", 20 + 15 + 5 + 50 + 10, "lcore 1"),
        ("pipeline", "[1]", 2 * (20 + 5 + 50 + 10) + 15, "lcore 1"),  # handed over to itself
    ],
)
def test_the_busiest_lcore_sets_what_is_carried(
    tmp_path: Path, execution: str, chain: str, cycles: float, narrowest: str
) -> None:
    layout, _ = of(server(tmp_path), execution, chain)
    rate, place = layout.capacity()
    assert rate == pytest.approx(1e9 / cycles) and place == narrowest


@pytest.mark.parametrize(
    ("first", "second", "lcores", "known"),
    [
        ("acl", "lb", [[1], [2]], True),
        ("l2fwd", "lb", [[1], [2]], False),  # nobody has looked at headers before
        ("l2fwd", "acl", [[1], [2, 3]], True),  # who steers to replicas has
    ],
)
def test_packets_are_classified_once_and_by_who_reads_headers(
    tmp_path: Path, first: str, second: str, lcores: list[list[int]], known: bool
) -> None:
    """Taking one costs 20 cycles, and 8 where it was classified before; 15 more from an lcore."""
    costs = COSTS.replace("rx: [20, x]", "rx: [20, x], rx_known: [8, x], known_over: [15, x]")
    described = server(tmp_path, round_server(f"  acl: &nf {costs}\n  lb: *nf\n  l2fwd: {COSTS}"))
    text = (
        f"name: two\nchain: [{{name: a, nf: {first}}}, {{name: b, nf: {second}}}]\ndeployment:\n"
        f"  execution: {{name: e, segments: [[a], [b]], lcores: {lcores}}}\n"
        "  lcores: {traffic: [0, 7]}\n"
    )
    doc = document.parse(text, Path("two.yaml"))
    [one] = expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    taken = priced(described, described, one, placement, {"a": 1, "b": 1}).problem.nfs[1].rx
    assert taken.same == (8 if known else 20) and taken.apart == taken.same + 15


def test_functions_that_need_no_headers_are_those_that_the_engine_says() -> None:
    """Its own sources say which packets it classifies."""
    folder = Path(__file__).parents[4] / "engine" / "nf"
    none = {
        file.stem for file in folder.glob("*/*.c")
        if file.stem == file.parent.name and "wants_headers = true" not in file.read_text()
    }  # fmt: skip
    assert none - {"veb"} == HEADERLESS  # that one is no chain's


@pytest.mark.parametrize(("execution", "more"), [("rtc", 3000), ("pipeline", 3000)])
def test_a_delay_takes_as_many_cycles_as_it_is_told_to(
    tmp_path: Path, execution: str, more: float
) -> None:
    """Its own share of the costs may be off, what it is told may not."""
    text = SERVER.replace("  lb:", "  delay:", 1)
    described = server(tmp_path, text)
    rates = {}
    for cycles in (0, more):
        chain = f"[acl, {{delay: {{cycles: {cycles}}}}}]".replace("{", "{{").replace("}", "}}")
        study = STUDY.replace("[acl, lb]", chain)
        for corner in (-1.0, 0.0, 1.0):
            doc = document.parse(study.format(execution=execution, chain="[1, 2]"), Path("d.yaml"))
            [one] = expand(doc)
            placement = place(
                one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0)
            )
            count = counted(described, one, doc)
            layout = priced(described, described, one, placement, count, corner)
            rates[cycles, corner] = layout.capacity()[0]
    lcores = 2 if execution == "rtc" else 1  # replicas; of a pipeline the delay has one
    for corner in (-1.0, 0.0, 1.0):
        each = [lcores * 1e9 / rates[cycles, corner] for cycles in (0, more)]
        assert each[1] - each[0] == pytest.approx(more, rel=0.03)


def touching(described: DescribedServer, params: str) -> PricedLayout:
    """A delay and nothing else, on an lcore that is not the source's."""
    text = STUDY.format(execution="rtc", chain="[1]").replace("[acl, lb]", f"[{{delay: {params}}}]")
    doc = document.parse(text, Path("d.yaml"))
    [one] = expand(doc)
    check_covered(one, doc, described, described)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    return priced(described, described, one, placement, counted(described, one, doc))


def test_a_delay_that_reads_a_packet_waits_for_its_line(tmp_path: Path) -> None:
    """A line of another lcore takes 60 cycles, and a quarter of it where many are fetched at once,
    as in the last-level cache (4 and 1). At a hundredth of the load polls find one packet."""
    text = SERVER.replace("  lb:", "  delay:", 1) + "transfer_cycles: [60, x]\n"
    described = server(tmp_path, text)
    reads, none = touching(described, "{touch_bytes: 1}"), touching(described, "{}")
    assert reads.busiest()[1] - none.busiest()[1] == pytest.approx(60 / 4)
    alone = reads.each_at(1e5)[1][0] - none.each_at(1e5)[1][0]
    assert alone == pytest.approx(60 - 45 / 32)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ("{table_reads: 2, table_bytes: 64}", "table_reads: cannot predict: delay: nobody"),
        ("{touch_bytes: 1, touch: write}", "touch: cannot predict: delay: write: .* covered: read"),
        ("{touch_bytes: 65}", "touch_bytes: cannot predict: delay: 65: .* covered: 1 to 64"),
        ("{touch_bytes: 1}", "touch_bytes: cannot predict: delay: server round has no `transfer"),
    ],
)
def test_what_a_delay_does_beside_waiting_is_refused(
    tmp_path: Path, params: str, problem: str
) -> None:
    described = server(tmp_path, SERVER.replace("  lb:", "  delay:", 1))
    with pytest.raises(BadInput, match=problem):
        touching(described, params)


def test_a_source_makes_what_its_lcore_has_left(tmp_path: Path) -> None:
    """Lcore 0 makes packets in 30 cycles and takes them back in 30; the chain carries 1 in 150."""
    one_lcore = STUDY.replace("traffic: [0, 7]", "traffic: [0]")
    doc = document.parse(one_lcore.format(execution="rtc", chain="[1]"), Path("two.yaml"))
    described, [one] = server(tmp_path), expand(doc)
    topology = Topology(lambda cpu: [cpu], lambda cpu: 0)
    placement = place(one, doc, list(described.cpus), topology)
    layout = priced(described, described, one, placement, counted(described, one, doc))
    assert layout.source_pps() == pytest.approx((1e9 - 1e9 / 150 * 30) / 30)
    apart, _ = of(described, "rtc", "[1]")
    assert apart.source_pps() == pytest.approx(1e9 / 30)


def test_a_longer_frame_costs_the_source_more(tmp_path: Path) -> None:
    """512 cycles for each KiB: 224 more for 512 bytes than for 64."""
    text = SERVER.replace("source: [30, x]", "source: [30, x], source_kib: [512, x]")
    doc = document.parse(
        STUDY.format(execution="rtc", chain="[1]").replace("{flows", "{frame: 512, flows"),
        Path("two.yaml"),
    )
    described, [one] = server(tmp_path, text), expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    layout = priced(described, described, one, placement, counted(described, one, doc))
    assert layout.source_pps() == pytest.approx(1e9 / (30 + 224))


AWAY = """source_back: [7, x], source_away: [50, x], source_spill: [9, x], source_far_kib: [100, x],
  stamp_line: [11, x]"""


@pytest.mark.parametrize(
    ("traffic", "chain", "frame", "source", "sink"),
    [
        ([0], "[0]", 64, 30, 20),  # its lines never leave the lcore
        ([0], "[1]", 64, 30 + 7, 20 + 10),  # they come back
        ([0, 7], "[1]", 64, 30 + 50, 20 + 10),
        ([0, 7], "[0]", 64, 30 + 50 + 9, 20 + 10),  # this lcore goes on with them at once
        ([0, 7], "[7]", 576, 30 + 50 + 50 + 11, 20 + 11),  # the stamp is in a line of its own
        ([0], "[1]", 576, 30 + 7 + 50, 20 + 10),
    ],
)
def test_who_makes_packets_waits_for_lines_that_were_elsewhere(
    tmp_path: Path, traffic: list[int], chain: str, frame: int, source: float, sink: float
) -> None:
    text = SERVER.replace("source: [30, x]", f"source: [30, x], {AWAY}")
    study = STUDY.replace("traffic: [0, 7]", f"traffic: {traffic}, shared: true")
    study = study.replace("{{flows", f"{{{{frame: {frame}, flows")
    doc = document.parse(study.format(execution="rtc", chain=chain), Path("two.yaml"))
    described, [one] = server(tmp_path, text), expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    layout = priced(described, described, one, placement, counted(described, one, doc))
    [first], [last] = layout.stages[0], layout.stages[-1]
    assert (first.cycles, last.cycles) == pytest.approx((source, sink))


def test_a_segment_that_gets_classified_packets_of_another_lcore(tmp_path: Path) -> None:
    """Without a figure of its own it pays what taking unclassified ones costs."""
    known = SERVER.replace("rx: [20, x]", "rx: [20, x], rx_known: [4, x], sent_over: [6, x]")
    with_own = known.replace("sent_over", "known_over: [8, x], sent_over")
    for text, taken in ((known, 20 + 15), (with_own, 4 + 8)):
        layout, _ = of(server(tmp_path, text), "pipeline", "[1, 2]")
        first, second = layout.stages[1][0].cycles, layout.stages[2][0].cycles
        assert first == pytest.approx(20 + 15 + 5 + 50 + 10 + 6)
        assert second == pytest.approx(taken + 5 + 50 + 10 + 6)


def test_popular_flows_wait_less_and_are_on_one_replica(tmp_path: Path) -> None:
    """1,000 flows of 64 B in 32 KiB, of which each replica has half: all fit; 10,000 do not."""
    text = SERVER.replace(
        "poll: [0, x]", "poll: [0, x], accesses: [1, x], bytes_per_entry: [64, x]"
    )
    described = server(tmp_path, text)

    def chain(flows: str) -> PricedLayout:
        study = STUDY.replace("{{count: 1000}}", f"{{{{{flows}}}}}")
        doc = document.parse(study.format(execution="rtc", chain="[1, 2]"), Path("two.yaml"))
        [one] = expand(doc)
        check_covered(one, doc, described, described)
        nowhere = Topology(lambda cpu: [cpu], lambda cpu: 0)
        placement = place(one, doc, list(described.cpus), nowhere)
        return priced(described, described, one, placement, counted(described, one, doc))

    even, zipf = chain("count: 10000"), chain("count: 10000, order: zipf")
    assert 75 < zipf.stages[1][0].cycles < even.stages[1][0].cycles
    assert even.uneven == (1.0,) and zipf.uneven[0] > 1.01


def test_replicas_share_bursts_and_not_what_a_poll_costs(tmp_path: Path) -> None:
    """64 cycles of a poll are 2 of a packet in a full burst, and 2 more in half of one."""
    layout, _ = of(server(tmp_path, SERVER.replace("poll: [0, x]", "poll: [64, x]")), "rtc")
    [first, second] = layout.stages[1]
    assert first.cycles == second.cycles == pytest.approx((150 + 2) / 2)


def test_behind_what_rewrites_flows_half_comes_from_the_other_lcore(tmp_path: Path) -> None:
    """Two replicas behind two: what another lcore hands over costs 15 cycles more, which half of
    the packets of each of the two pays where the functions before steer them otherwise."""
    described = server(tmp_path)
    execution = "{segments: [[acl], [lb]], lcores: [[1, 2], [1, 2]]}"
    doc = document.parse(STUDY.format(execution=execution, chain="[1, 2]"), Path("two.yaml"))
    [one] = expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    count = counted(described, one, doc)
    cycles = {}
    for resteers in ("acl", "lb", ""):
        given = priced(described, described, one, placement, count, resteers={resteers})
        cycles[resteers] = [part.cycles for part in given.stages[2]]
    assert cycles["lb"] == cycles[""]
    more = [a - b for a, b in zip(cycles["acl"], cycles[""], strict=True)]
    assert more == pytest.approx([15 / 4] * 2)


def test_a_packet_that_is_alone_in_its_burst_pays_for_the_poll(tmp_path: Path) -> None:
    """0.1 Mpps is one packet in 10,000 cycles: each poll finds one. It costs 640 once, and the
    second function half of that, of which a full burst's packets have a 32nd each."""
    described = server(tmp_path, SERVER.replace("poll: [0, x]", "poll: [640, x]"))
    layout, _ = of(described, "rtc", "[1]")
    assert layout.each_at(0)[1] == pytest.approx([150])
    assert layout.each_at(1e5)[1] == pytest.approx([150 + 960 - 960 / 32])


def test_what_an_lcore_was_busy_for_is_by_its_bursts(tmp_path: Path) -> None:
    """0.1 Mpps for a second at 1 GHz, each packet alone: 150 cycles, and a poll's 930 more."""
    described = server(tmp_path, SERVER.replace("poll: [0, x]", "poll: [640, x]"))
    doc = document.parse(STUDY.format(execution="rtc", chain="[1]"), Path("two.yaml"))
    [one] = expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    ground = SimulatedGround(described, described, "analytic")
    up = SimulatedDeployed(SimulatedPoint(one, doc, ground, placement))
    [offer] = up.point.offers
    up.start(offer, 1e5, 1.0)
    [seen] = up.read()
    assert seen.figures.utilisation["1"] == pytest.approx(0.1080)
    assert seen.figures.counters is not None
    [chain] = [r for r in seen.figures.counters.replicas if r.segment == "chain"]
    assert chain.sending_ops_cycles == pytest.approx(1080 * 1e5)


def test_lines_of_another_socket_take_longer(tmp_path: Path) -> None:
    """Lcores 8 to 15 are the second socket's: 120 cycles for a line instead of 60."""
    two = SERVER.replace("cores_per_socket: 8", "cores_per_socket: 8\nsockets: 2")
    text = two + "transfer_cycles: [60, x]\nremote_cycles: [120, x]\n"
    described = server(tmp_path, text)
    near, _ = of(described, "rtc", "[1]")
    far, _ = of(described, "rtc", "[8]")
    assert far.stages[1][0].cycles - near.stages[1][0].cycles == pytest.approx(15)
    assert far.stages[2][0].cycles - near.stages[2][0].cycles == pytest.approx(10)
    alone = STUDY.replace("[acl, lb]", "[acl]").format(execution="rtc", chain="[8]")
    doc = document.parse(alone, Path("two.yaml"))
    ground = SimulatedGround(server(tmp_path, two), server(tmp_path, two), "events")
    with pytest.raises(BadInput, match="lcores on sockets"):
        ground.check(doc)


def test_a_thread_beside_a_busy_one_is_slower(tmp_path: Path) -> None:
    """Threads 1 and 9 are of one core, which gives each 0.6 of what it has for one."""
    two = SERVER.replace("cores_per_socket: 8", "cores_per_socket: 8\nthreads_per_core: 2")
    described = server(tmp_path, two + "thread_speed: [0.6, x]\n")
    apart, _ = of(described, "rtc", "[1, 2]")
    beside, _ = of(described, "rtc", "[1, 9]")
    assert beside.capacity()[0] == pytest.approx(0.6 * apart.capacity()[0])


def test_rare_pauses_are_followed_for_as_long_as_they_take_to_come(tmp_path: Path) -> None:
    """One of 500 us in 50 ms on each lcore: a packet in a hundred meets one, and most do not."""
    described = server(tmp_path, SERVER + "pauses: {per_s: [20, x], us: [500]}\n")
    here, one = of(described, "rtc", "[1]")
    delays = delays_ns(here, 3e6, here.capacity()[0], one, described, "events")
    assert delays is not None
    p50, p99 = np.quantile(delays, (0.5, 0.99))
    assert p50 < 5_000 and 50_000 < p99 < 1_000_000


def test_an_interval_is_what_the_costs_spread_makes(tmp_path: Path) -> None:
    described = server(tmp_path)
    rates = [of(described, "rtc", "[1]", corner)[0].capacity()[0] for corner in (-1.0, 0.0, 1.0)]
    assert rates == pytest.approx([1e9 / 140, 1e9 / 150, 1e9 / 160])


def test_both_engines_say_the_same_where_there_is_room(tmp_path: Path) -> None:
    described = server(tmp_path)
    here, one = of(described, "pipeline")
    capacity, _ = here.capacity()
    medians = []
    for engine in ("events", "analytic"):
        delays = delays_ns(here, 0.5 * capacity, capacity, one, described, engine)
        assert delays is not None
        medians.append(sorted(delays)[len(delays) // 2])
    assert medians[0] == pytest.approx(medians[1], rel=0.2)
    assert delays_ns(here, 1.1 * capacity, capacity, one, described, "analytic") is None


def test_what_was_followed_is_not_followed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two points whose lcores cost the same have the same delays; another load, other costs or
    pauses have others."""
    followed: list[float] = []

    def counting(way: Traversal, packets: int) -> Followed:
        followed.append(way.rate)
        return follow(way, packets)

    monkeypatch.setattr(queueing, "follow", counting)
    queueing._followed_ns.cache_clear()

    def delays(text: str, load: float) -> bytes:
        described = server(tmp_path, text)
        here, one = of(described, "pipeline")
        told = delays_ns(here, load, 6e6, one, described, "events")
        assert told is not None
        return told.tobytes()

    first = delays(SERVER, 3e6)
    assert delays(SERVER, 3e6) == first and len(followed) == 1
    pauses = "pauses: {per_s: [1000, x], us: [50]}\n"
    others = [
        delays(SERVER, 4e6),
        delays(SERVER.replace("50, x, 10%", "60, x, 10%"), 3e6),
        delays(SERVER + pauses, 3e6),
    ]
    assert len(followed) == 4 and len({first, *others}) == 4


def test_a_packed_file_of_routes_is_read_once(tmp_path: Path) -> None:
    """Three corners of costs are priced by the entries of one reading."""
    routes = tmp_path / "routes"
    routes.write_bytes(gzip.compress(b"".join(b"10.%d.0.0/16 0\n" % i for i in range(200))))
    routes_cost = SERVER.replace("poll: [0, x]", "poll: [0, x], entries: routes")
    with_l3fwd = routes_cost.replace("acl: &nf", "l3fwd: &nf")
    described = server(tmp_path, with_l3fwd)
    chain = f"[{{l3fwd: {{routes_file: {routes}}}}}]"
    text = STUDY.replace("[acl, lb]", chain.replace("{", "{{").replace("}", "}}"))
    doc = document.parse(text.format(execution="rtc", chain="[1]"), tmp_path / "two.yaml")
    [one] = expand(doc)
    placement = place(one, doc, list(described.cpus), Topology(lambda cpu: [cpu], lambda cpu: 0))
    point = SimulatedPoint(one, doc, SimulatedGround(described, described, "events"), placement)
    assert counted(described, one, doc) == {"l3fwd": 200}
    point.priced()
    routes.unlink()
    assert point.priced(1.0).capacity() < point.priced(-1.0).capacity()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("chain: [acl, lb]", "chain: [acl, monitor]"), "monitor: server round has no cost of it"),
        (("workload:", "measure: {chaos: {kills: 2}}\nworkload:"), "measure.chaos"),
        (
            (
                "workload:",
                "testbed: {ports: {a: {device: 'tap:a'}, b: {device: 'tap:b'}}, "
                "tester: a, chain: b}\nworkload:",
            ),
            "testbed: cannot predict: ports",
        ),
        (("steer: even", "hosting: vm"), "server round has no `machines`"),
        (("steer: even", "hosting: process"), "server round has no `hosting`"),
    ],
)
def test_what_is_not_covered_is_refused_with_its_key(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    described = server(tmp_path)
    text = STUDY.format(execution="rtc", chain="[1]").replace(*change)
    doc = document.parse(text, Path("two.yaml"))
    with pytest.raises(BadInput, match=words):
        [one] = expand(doc)
        check_covered(one, doc, described, described)


def test_a_figure_without_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="clock_mhz"):
        server(tmp_path, SERVER.replace("clock_mhz: [1000, x]", "clock_mhz: 1000"))
    with pytest.raises(BadInput, match="source y; allowed: x"):
        server(tmp_path, SERVER.replace("clock_mhz: [1000, x]", "clock_mhz: [1000, y]"))
