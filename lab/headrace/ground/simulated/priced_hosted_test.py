# SPDX-License-Identifier: Apache-2.0
"""VNFs in processes of their own, on a described server whose cycles can be added up by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.ground.hosted.arrangement import arrange, placement_of
from headrace.ground.hosted.cpus import Cpu
from headrace.ground.simulated.costs import counted
from headrace.ground.simulated.priced_hosted import HostedLayout, priced_hosted, spread
from headrace.ground.simulated.refuse import check_covered
from headrace.layout.events import Traversal, follow
from headrace.spec import document
from headrace.spec.described import DescribedServer
from headrace.spec.round_testdata import COSTS, read_round, round_server
from headrace.spec.study import expand

HOSTING = """\
hosting:
  {switch: [30, x], take: [40, x], give: [25, x], vnf_take: [35, x], vnf_give: [15, x],
   far: [60, x], own: [20, x], copy_kib: [64, x], far_kib: [128, x], own_kib: [256, x],
   vnf_own_kib: [512, x], reach: [0, x], poll: [64, x], vnf_poll: [0, x], idle: [20, x],
   vnf_idle: [2, x], pause: [0, x], slice_us: [100, x], change_us: [0, x],
   wake_us: [5, x], rouse_us: [1, x]}
"""
SERVER = round_server(f"  l2fwd: {COSTS}") + HOSTING
# Of a machine's VNF, 30 cycles more to take a packet and 5 to give it; of the host, 7 and 11.
MACHINES = (
    HOSTING.replace("hosting:", "machines:")
    .replace("vnf_take: [35", "vnf_take: [65").replace("vnf_give: [15", "vnf_give: [20")
    .replace(" take: [40", " take: [47").replace(" give: [25", " give: [36")
)  # fmt: skip
# Taking, loop, its own work and that of its addresses, giving.
VNF = 35 + 60 + 5 + 50 + 50 + 15 + 20
SOURCE_AND_SINK = 30 + 20
IN, ON, OUT = 20 + 30 + 25 + 20, 40 + 60 + 30 + 25 + 20, 40 + 60 + 30 + 10


def server(tmp_path: Path, text: str = SERVER) -> DescribedServer:
    return read_round(tmp_path, text)


def hosted(
    tmp_path: Path, hosting: str, chain: str = "[1]", more: str = "", frame: int = 64,
    text: str = SERVER, kind: str = "process", order: str = "round-robin",
) -> HostedLayout:  # fmt: skip
    described = server(tmp_path, text)
    two = "[l2fwd, {name: next, nf: l2fwd, params: {}}]" if "pipeline" in more else "[l2fwd]"
    if "segments" in more:
        two = "[{name: a, nf: l2fwd}, {name: b, nf: l2fwd}, {name: c, nf: l2fwd}]"
    doc = document.parse(
        f"name: hosted\nchain: {two}\ndeployment:\n  hosting: {{kind: {kind}, {hosting}}}\n"
        f"  lcores: {{traffic: [0], chain: {chain}}}\n{more}"
        f"workload: {{frame: {frame}, flows: {{count: 64, order: {order}}}}}\n",
        Path("hosted.yaml"),
    )
    [one] = expand(doc)
    check_covered(one, doc, described, described)
    bare = arrange(one, doc, described.cpus, lambda cpu: Cpu(cpu, (0, cpu), 0))
    bare = spread(bare) if one.hosting.placement == "random" else bare
    vnfs = [vnf for several in bare.chains for vnf in several]
    placement = placement_of(vnfs, bare.traffic, (), one.study.deployment.network)
    count = counted(described, one, doc)
    return priced_hosted(described, described, one, bare, placement, count)


def test_the_hosts_lcore_has_the_switch_twice_and_once_more_for_each_vnf(tmp_path: Path) -> None:
    one = hosted(tmp_path, "chains: 1")
    polls = 64 / 32  # of one link or ring, in full bursts
    cycles = SOURCE_AND_SINK + IN + polls + OUT + polls
    assert one.busiest() == pytest.approx({0: cycles, 1: VNF})
    rate, what = one.capacity()
    assert rate == pytest.approx(1e9 / cycles) and what == "lcore 0"
    two = hosted(tmp_path, "chains: 1", "[1, 2]", "  execution: pipeline\n")
    assert two.busiest() == pytest.approx({0: cycles + ON + polls, 1: VNF, 2: VNF})
    by_wire = hosted(tmp_path, "chains: 1", "[1]", "  network: vepa\n")
    bridge = 20 + 30 + 10 + polls
    assert by_wire.busiest()[0] == pytest.approx(cycles + 2 * bridge)


def test_a_machines_links_are_those_that_the_description_says(tmp_path: Path) -> None:
    process = hosted(tmp_path, "chains: 1", text=SERVER + MACHINES).busiest()
    machine = hosted(tmp_path, "chains: 1", text=SERVER + MACHINES, kind="vm").busiest()
    assert process == pytest.approx(hosted(tmp_path, "chains: 1").busiest())
    assert machine[1] - process[1] == pytest.approx(30 + 5)
    assert machine[0] - process[0] == pytest.approx(7 + 11)
    for text, more, words in (
        (SERVER, "chains: 1", "server round has no `machines`: what links to virtual machines"),
        (SERVER + MACHINES, "chains: 1, vm: {vcpus: 2}", "vm.vcpus: cannot predict: 2; covered: 1"),
    ):
        with pytest.raises(BadInput, match=words):
            hosted(tmp_path, more, text=text, kind="vm")


def test_each_end_copies_longer_frames(tmp_path: Path) -> None:
    """576 B are half a KiB more: 32 cycles a copy, 64 where another core wrote, 128 where it read,
    and a VNF 256."""
    longer, short = hosted(tmp_path, "chains: 1", frame=576), hosted(tmp_path, "chains: 1")
    more = {cpu: longer.busiest()[cpu] - short.busiest()[cpu] for cpu in (0, 1)}
    assert more == pytest.approx({0: 32 + 32 + 64 + 128, 1: 32 + 32 + 64 + 256})


def test_a_burst_for_many_vnfs_is_divided_and_sleepers_are_roused(tmp_path: Path) -> None:
    """Four VNFs have three further links of 32 cycles for 32 packets; in mode `interrupt` who sends
    rouses each of the four, in 1 us."""
    text = SERVER.replace("reach: [0, x]", "reach: [32, x]")
    busy = {
        (reach, wait): hosted(tmp_path, f"chains: 4, wait: {wait}", "[1, 2, 3, 4]", text=text)
        .busiest()[0] if reach else
        hosted(tmp_path, f"chains: 4, wait: {wait}", "[1, 2, 3, 4]").busiest()[0]
        for reach in (False, True) for wait in ("poll", "interrupt")
    }  # fmt: skip
    assert busy[True, "poll"] - busy[False, "poll"] == pytest.approx(3 * 32 / 32)
    assert busy[False, "interrupt"] - busy[False, "poll"] == pytest.approx(4 * 1000 / 32)


def test_a_source_sends_what_its_lcore_has_beside_what_comes_back(tmp_path: Path) -> None:
    """Where all comes back, it sends what that lcore carries, however much of it is for the way
    back; where a VNF loses packets, those are not copied, and nothing is spent on them later. The
    link of the VNF that stands by is polled in vain once for each burst that is sent."""
    many = hosted(
        tmp_path, "chains: 1", "[1, 2, 3]",
        "  execution: {segments: [[a], [b], [c]]}\n",
    )  # fmt: skip
    assert many.source_pps() == pytest.approx(many.capacity()[0])
    losing = hosted(tmp_path, "chains: 2, active: 1, slots: 64, wait: poll")
    sent = losing.source_pps()
    front, give = 30 + 20 + 30 + 25 + 20 + (64 + 20) / 32, 25 + 20
    back = losing.busiest()[0] - front
    carried = losing.received_pps(sent)
    assert carried < 0.5 * sent
    assert sent * (front - give) + carried * (back + give) == pytest.approx(1e9)


def test_lines_of_another_socket_take_longer(tmp_path: Path) -> None:
    """Twice as long: a VNF there waits 60 and 20 cycles more; the switch's ends, those of half of
    the VNFs."""
    text = SERVER.replace("cores_per_socket: 8", "cores_per_socket: 4\nsockets: 2")
    text += "transfer_cycles: [50, x]\nremote_cycles: [100, x]\n"
    near = hosted(tmp_path, "chains: 2", "[1, 2]", text=text).busiest()
    far = hosted(tmp_path, "chains: 2", "[1, 5]", text=text).busiest()
    assert far[5] == pytest.approx(near[2] + (60 + 20) / 2) and far[1] == pytest.approx(near[1])
    assert far[0] == pytest.approx(near[0] + (60 + 20) / 2)


@pytest.mark.parametrize(
    ("network", "limit", "times"),
    [("veb", "switch_gbps", 2), ("vepa", "switch_gbps", 2), ("veb", "uplink_gbps", 1),
     ("vepa", "uplink_gbps", 2), ("veb", "rate_cap_gbps", 1)],
)  # fmt: skip
def test_limits_are_charged_as_the_table_of_hops_says(
    tmp_path: Path, network: str, limit: str, times: int
) -> None:
    """0.2 Gbit/s of frames of 512 B and 20 of layer 1; two VNFs in a row (docs/design/nic.md)."""
    more = f"  execution: pipeline\n  network: {network}\n"
    one = hosted(tmp_path, f"chains: 1, {limit}: 0.2", "[1, 2]", more, frame=512)
    rate, what = one.capacity()
    assert rate == pytest.approx(0.2e9 / (532 * 8) / times)
    assert what.split()[0] == limit.split("_")[0]
    if network == "vepa":
        # Both times a frame finds room in one queue: of 1 sent for each that has room, q + q^2 = 1.
        q = (5**0.5 - 1) / 2
        assert one.received_pps(2 * rate) == pytest.approx(2 * rate * q**2)
        assert one.received_pps(0.99 * rate) == pytest.approx(0.99 * rate)
        return  # followed packets have a queue for each time
    assert one.received_pps(2 * rate) == pytest.approx(rate)
    queues, lcores = one.queues(1.5 * rate)
    followed = follow(Traversal(queues, 1.5 * rate / 1e9, lcores, lanes=True), 20_000)
    held = 512  # frames that the first of its queues still has; at the others as many come as go
    assert followed.lost == pytest.approx(20_000 / 3 - held, abs=300)


def test_a_source_leaves_no_room_for_what_comes_back_to_its_lcore(tmp_path: Path) -> None:
    """By the bridge to two VNFs in a row: making a packet and dropping it at the first link takes
    the front's cycles without a copy; what is left of the lcore carries others to their end."""
    more = "  execution: pipeline\n  network: vepa\n"
    one = hosted(tmp_path, "chains: 1", "[1, 2]", more)
    own, bridge, polls = one.busiest()[0], 20 + 30 + 10, 64 / 32
    front = 30 + bridge + polls + 20 + 30 + polls
    most = one.source_pps()
    assert most == pytest.approx(1e9 / front)
    assert one.received_pps(most) == pytest.approx(0, abs=1)
    between = 1e9 / own * 1.5
    assert between < most
    left = (1e9 - between * front) / (own - front)
    assert one.received_pps(between) == pytest.approx(left)
    assert one.received_pps(1e9 / own) == pytest.approx(1e9 / own)
    by_veb = hosted(tmp_path, "chains: 1", "[1, 2]", "  execution: pipeline\n")
    assert by_veb.received_pps(by_veb.source_pps()) == pytest.approx(by_veb.capacity()[0])


def test_slices_are_shorter_the_more_processes_want_the_lcore(tmp_path: Path) -> None:
    """600 us for all of them, and 150 us at the least, at 1 GHz."""
    text = SERVER + "scheduler: {latency_us: [600, x], least_us: [150, x]}\n"
    slices = [
        hosted(tmp_path, f"chains: {n}, wait: poll", "[1]", text=text).slice for n in (2, 3, 8)
    ]
    assert slices == pytest.approx([300e3, 200e3, 150e3])
    assert hosted(tmp_path, "chains: 8, wait: poll", "[1]").slice == pytest.approx(100e3)


def test_nothing_comes_to_a_vnf_while_it_has_the_lcore_of_who_sends(tmp_path: Path) -> None:
    """Two by turns of 100 us each: the first one holds 64 packets and takes 100 more as they come;
    the second has 64 in every 200 us."""
    one = hosted(tmp_path, "chains: 1, slots: 64, wait: poll")
    assert one.received_pps(1e6) == pytest.approx(1e6)
    both = hosted(
        tmp_path, "chains: 1, slots: 64, wait: poll", "[1]", "  execution: pipeline\n"
    )  # fmt: skip
    assert both.received_pps(1e6) == pytest.approx(64 / 200e-6)
    apart = hosted(
        tmp_path, "chains: 1, slots: 64, wait: poll", "[1, 2]", "  execution: pipeline\n"
    )  # fmt: skip
    assert apart.received_pps(1e6) == pytest.approx(1e6)


def test_who_is_roused_has_the_lcore_before_a_slice_ends(tmp_path: Path) -> None:
    """Two that wait, of 900 cycles more a packet, by turns of 400 us: the first one always has
    packets, the second has none while it runs, and looks for 2,000 cycles before it sleeps. Roused
    by the first packet it gets the lcore when the first one has had it for 80 us: it has 64 packets
    in each round. Where packets are followed the first one ends the burst that it is at, which
    comes when the second one has made room for it."""
    way = ("chains: 1, slots: 64, wait: adaptive", "[1]", "  execution: pipeline\n")
    slow = SERVER.replace("base: [50, x]", "base: [500, x]").replace("[100, x]", "[400, x]")
    text = slow.replace("change_us", "kept_us: [80, x], change_us")
    slices, roused = hosted(tmp_path, *way, text=slow), hosted(tmp_path, *way, text=text)
    each = VNF + 900
    turn = 64 * each + 2000
    assert slices.received_pps(2e6) == pytest.approx(64 / (400e3 + turn) * 1e9)
    assert roused.received_pps(2e6) == pytest.approx(64 / (80e3 + turn) * 1e9)
    for one, own in ((slices, 400e3), (roused, 80e3)):
        queues, lcores = one.queues(2e6)
        followed = follow(Traversal(queues, 2e6 / 1e9, lcores, lanes=True), 40_000)
        carried = (followed.sent - followed.lost) / (followed.came[-1] / 1e9)
        whole = 96 / (own + 32 * each + turn + 32 * each) * 1e9
        assert carried == pytest.approx(whole, rel=0.03)


def test_who_comes_round_again_finds_bursts(tmp_path: Path) -> None:
    """Four that poll: three quarters of a VNF's packets are in bursts of 32, and a quarter alone;
    the poll's 640 cycles are for 1 / (3/4 / 32 + 1/4) packets. One by itself finds them alone."""
    text = SERVER.replace("vnf_poll: [0, x]", "vnf_poll: [640, x]")
    many = hosted(tmp_path, "chains: 4, wait: poll", "[1]", text=text).each_at(4e3)[2]
    assert many == pytest.approx([VNF + 640 * (3 / 4 / 32 + 1 / 4)] * 4)
    assert hosted(tmp_path, "chains: 1, wait: poll", "[1]", text=text).each_at(1e3)[2] == [
        pytest.approx(VNF + 640)
    ]


def test_processes_that_poll_share_an_lcore_by_slices(tmp_path: Path) -> None:
    """Two have half of it each; what stands by and polls has its slices, too, asleep it has none.
    A link of 64 is full before its process has the lcore again: (64 + 100 us x rate) / 200 us."""
    both = hosted(tmp_path, "chains: 2, wait: poll, slots: 64")
    assert both.busiest()[1] == pytest.approx(VNF)
    beside = "chains: 2, active: 1, slots: 64"
    assert hosted(tmp_path, f"{beside}, wait: poll").received_pps(3e6) == pytest.approx(
        (64 + 100e-6 * 3e6) / 200e-6
    )
    assert hosted(tmp_path, f"{beside}, wait: adaptive").received_pps(3e6) == 3e6
    assert both.received_pps(1.2e6) == pytest.approx(1.2e6)
    carried = both.received_pps(2e6)
    assert carried == pytest.approx(2 * (64 + 100e-6 * 1e6) / 200e-6)
    queues, lcores = both.queues(2e6)
    followed = follow(Traversal(queues, 2e6 / 1e9, lcores, lanes=True), 20_000)
    assert 1 - followed.lost / followed.sent == pytest.approx(carried / 2e6, rel=0.03)


def test_processes_that_sleep_lose_less_than_those_that_poll(tmp_path: Path) -> None:
    """Both engines say so, of eight on one lcore: each looks for 2,000 cycles before it sleeps."""
    lost = {}
    for wait in ("poll", "adaptive"):
        one = hosted(tmp_path, f"chains: 8, slots: 64, wait: {wait}")
        queues, lcores = one.queues(2e6)
        followed = follow(Traversal(queues, 2e6 / 1e9, lcores, lanes=True), 20_000)
        lost[wait] = followed.lost / followed.sent
        assert 1 - one.received_pps(2e6) / 2e6 == pytest.approx(lost[wait], abs=0.04)
    assert lost["poll"] > 0.3 and lost["adaptive"] == 0


@pytest.mark.parametrize(
    ("hosting", "more", "words"),
    [
        ("chains: 1, cpus: 0.5", "", "hosting.cpus: cannot predict"),
        ("chains: 1", "  network: bridge\n", "network: cannot predict: bridge; covered: veb, vepa"),
    ],
)
def test_what_is_not_covered_is_named(tmp_path: Path, hosting: str, more: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        hosted(tmp_path, hosting, more=more)


BY_NIC = SERVER.replace(
    "wake_us: [5, x]", "vf_take: [30, x], vf_give: [12, x], wake_us: [5, x]"
).replace("functions:\n", "ports: [{gbps: [1, x]}, {gbps: [1, x]}]\nfunctions:\n")


def test_a_real_nic_switches_without_an_lcore_and_at_the_rate_of_its_ports(tmp_path: Path) -> None:
    """Frames of 64 B gather one line from the last-level cache, here L1, in 1 cycle; on the wire
    they are 672 bits. A chain of two VNFs passes the NIC's switch twice."""
    one = hosted(tmp_path, "chains: 1", more="  network: sriov\n", text=BY_NIC)
    vnf = 30 + 1 + 5 + 50 + 50 + 12
    both_ports = 672 / 2
    assert one.busiest() == pytest.approx(
        {0: 30 + 12 + 20 + 30 + 1, 1: vnf, -3: both_ports, -4: both_ports}
    )
    rate, what = one.capacity()
    assert rate == pytest.approx(1e9 / 336) and what == "switch to host"
    way = "  network: sriov\n  execution: pipeline\n"
    two = hosted(tmp_path, "chains: 1", "[1, 2]", way, text=BY_NIC)
    assert two.capacity()[0] == pytest.approx(rate / 2)


def test_without_ports_or_costs_of_functions_sriov_is_refused(tmp_path: Path) -> None:
    for text, problem in (
        (SERVER, "sriov: server round has no `ports`"),
        (BY_NIC.replace("vf_take: [30, x], vf_give: [12, x], ", ""),
         "sriov: server round has no `hosting.vf_take`"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=problem):
            hosted(tmp_path, "chains: 1", more="  network: sriov\n", text=text)


def test_vnfs_that_may_run_anywhere_have_lcores_of_their_own_while_there_are_enough(
    tmp_path: Path,
) -> None:
    three = hosted(tmp_path, "chains: 3, placement: random", "[1, 2, 3]")
    assert sorted(three.awake.items()) == [(1, 1), (2, 1), (3, 1)]
    five = hosted(tmp_path, "chains: 5, placement: random", "[1, 2, 3]")
    assert sorted(five.awake.values()) == [1, 2, 2]


def test_a_process_keeps_its_lcore_until_packets_at_random_leave_a_gap(tmp_path: Path) -> None:
    """A packet each 1000 cycles leaves a gap of 2000 once in (e^2 - 1) 1000 = 6389 cycles: two
    processes have the lcore in turn each 12.8 kcycles by themselves, and their 64 slots do. Polling
    ones have it for 100 kcycles each, in which 64 slots and what comes meanwhile are carried; so
    have those that sleep, where packets come evenly and leave no such gap."""
    slots = "chains: 2, slots: 64"
    by_slices = 2 * (64 + 100) / 200e3 * 1e9
    sleeping = hosted(tmp_path, f"{slots}, wait: adaptive", "[1]")
    polling = hosted(tmp_path, f"{slots}, wait: poll", "[1]")
    assert replace(sleeping, at_random=True).received_pps(2e6) == pytest.approx(2e6)
    assert polling.received_pps(2e6) == pytest.approx(by_slices)
    assert sleeping.received_pps(2e6) == pytest.approx(by_slices)
    assert sleeping.received_pps(0.9e6) == pytest.approx(0.9e6)  # gaps of 2222 cycles
    queues, lcores = sleeping.queues(2e6)
    followed = follow(Traversal(queues, 2e6 / 1e9, lcores, lanes=True), 20_000)
    assert 1 - followed.lost / followed.sent == pytest.approx(by_slices / 2e6, rel=0.05)


@pytest.mark.parametrize(("order", "at_random"), [("round-robin", False), ("random", True)])
def test_gaps_of_each_chain_are_as_flows_are_sent(
    tmp_path: Path, order: str, at_random: bool
) -> None:
    assert hosted(tmp_path, "chains: 2", order=order).at_random is at_random


def test_a_licence_is_named_for_the_vnf_that_it_is_behind(tmp_path: Path) -> None:
    """Two chains of two: each way through has two licences, and each of them is two VNFs'."""
    one = hosted(tmp_path, "chains: 2, rate_cap_gbps: 1", "[1, 2, 3, 4]", "  execution: pipeline\n")
    behind = [
        ([one.names[cpu] for cpu in cap.cpus], [f"rate cap of {name}" for name in vnf.owners])
        for vnf, cap in zip(one.way, one.way[1:], strict=False)
        if cap.nfs == ("rate cap",)
    ]
    assert len(behind) == 2 and all(names == vnfs for names, vnfs in behind)
