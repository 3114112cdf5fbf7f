# SPDX-License-Identifier: Apache-2.0
"""The stack tracer on the real kernel: what it follows, what it does not, and that it says so."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from traced import Traced, begun, end_to_end, ends, stage

from support.netns import Lan

pytestmark = pytest.mark.needs_root

UDP = ["--proto", "udp", "--port", "7000"]
TCP = ["--proto", "tcp", "--port", "7000"]
# Linux 6.18 frees a UDP packet that was read without a tracepoint, or much later: the way of
# one that is followed to its reader is TCP's.
WAY = ["net_dev_queue", "net_dev_start_xmit", "netif_rx", "netif_receive_skb"]
TCP_WAY = [*WAY, "tcp_probe", "skb_copy_datagram_iovec"]


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--sample", "2"], ['--sample: "2"', "over 0 to 1"]),
        (["--sample", "nan"], ["--sample", "over 0 to 1"]),
        (["--packets", "1000"], ['--packets: "1000"', "power of two"]),
        (["--port", "70000"], ['--port: "70000"', "1 to 65535"]),
        (["--addr", "10.0.0"], ['--addr: "10.0.0"', "IPv4"]),
        (["--backend", "kprobe"], ["--backend", "tp_btf, fentry"]),
        (["--nonsense"], ["--nonsense"]),
        (["--duration"], ["--duration"]),
        (["more"], ['"more"']),
    ],
)
def test_bad_input(tracer_binary: Path, options: list[str], named: list[str]) -> None:
    done = subprocess.run([tracer_binary, *options], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert all(n in done.stderr for n in named), done.stderr


@pytest.mark.parallel
def test_check_says_why(tracer_binary: Path) -> None:
    done = subprocess.run([tracer_binary, "--check"], capture_output=True, text=True, timeout=60)
    for backend in json.loads(done.stdout).values():
        assert backend["available"] or backend["why"]


@pytest.mark.parametrize("how", [[], ["--copy-reads"]])
def test_every_packet_at_every_stage(traced: Traced, pair: tuple[str, str], how: list[str]) -> None:
    a, b = pair
    p = traced.begin("--sample", "1", *UDP, *how)
    exchange = traced.exchange((b, "10.77.0.2"), a, [], ["--count", "2000", "--gap-ms", "0.1"])
    result = traced.end(p)
    assert exchange["received"] == 2000
    assert result["packets"]["sampled"] == 2000
    for begin, end in pairwise(WAY):
        assert stage(result, begin, end)["count"] == 2000
    assert begun(result) == ends(result)
    assert stage(result, *WAY[:2])["netns"] == a
    assert stage(result, *WAY[:2])["device"] == "va"
    assert stage(result, *WAY[2:4])["device"] == "vb"
    assert result["lost_total"] == 0


def test_stages_sum_to_what_the_sockets_timed(traced: Traced, pair: tuple[str, str]) -> None:
    """Each message waits before it is read: long enough that two system calls are no 2 %."""
    a, b = pair
    p = traced.begin("--sample", "1", *TCP)
    talk = traced.talk((b, "10.77.0.2"), a, 100, 6)
    result = traced.end(p)
    whole = end_to_end(result, "net_dev_queue", "skb_copy_datagram_iovec", "va")
    assert talk["received"] == whole["count"] == 100
    assert whole["mean_ns"] == pytest.approx(talk["mean_ns"], rel=0.02)
    # The stages add up to the whole ways, but for a last segment whose end is not seen.
    assert sum(h["sum_ns"] for h in result["stages"]) == pytest.approx(
        sum(h["sum_ns"] for h in result["end_to_end"]), rel=1e-3
    )


def test_sampled_packets_are_seen_everywhere(traced: Traced, pair: tuple[str, str]) -> None:
    a, b = pair
    p = traced.begin("--sample", "0.1", *UDP)
    traced.exchange((b, "10.77.0.2"), a, [], ["--count", "20000", "--gap-ms", "0.05"])
    result = traced.end(p)
    sampled = result["packets"]["sampled"]
    assert 1000 < sampled < 4000
    for begin, end in pairwise(WAY):
        assert stage(result, begin, end)["count"] == sampled


def _mixed(traced: Traced, pair: tuple[str, str], *options: str) -> dict[str, Any]:
    """UDP that is dropped, read late and read at once, beside TCP: buffers change hands."""
    a, b = pair
    p = traced.begin("--sample", "1", "--audit", *options)
    for _ in range(2):
        traced.tcp((b, "10.77.0.2"), a, "--seconds", "0.2")
        traced.exchange((b, "10.77.0.2"), a, ["--buffer", "65536"], ["--count", "20000"])
        traced.exchange((b, "10.77.0.2"), a, [], ["--count", "5000", "--bytes", "1200"])
    return traced.end(p)


def test_a_reused_address_is_no_match(traced: Traced, pair: tuple[str, str]) -> None:
    """Payload that takes no part in the identity is compared at every stage of every packet."""
    result = _mixed(traced, pair)
    assert result["packets"]["audited"] > 10000
    assert result["packets"]["audit_false"] == 0
    assert begun(result) == ends(result)


def test_the_bare_address_would_match_falsely(traced: Traced, pair: tuple[str, str]) -> None:
    """The audit above is not blind: without the identity it finds false matches."""
    # Whether the allocator hands a head out again while its packet is followed is up to the kernel.
    if not any(_mixed(traced, pair, "--bare-head")["packets"]["audit_false"] for _ in range(2)):
        pytest.skip("in two runs the kernel reused no address while its packet was followed")


def test_a_full_table_is_counted(traced: Traced, pair: tuple[str, str]) -> None:
    a, b = pair
    p = traced.begin("--sample", "1", "--packets", "64", *UDP)
    traced.exchange((b, "10.77.0.2"), a, ["--delay-ms", "1"], ["--count", "1000"])
    result = traced.end(p)
    assert result["lost"]["table"] > 0
    assert result["packets"]["sampled"] + result["lost"]["table"] == 1000
    assert result["lost_total"] >= result["lost"]["table"]


def test_too_many_slow_paths_are_counted(traced: Traced, pair: tuple[str, str]) -> None:
    a, b = pair
    p = traced.begin("--sample", "1", "--slow-us", "0", "--paths-max", "10", *TCP)
    traced.talk((b, "10.77.0.2"), a, 100, 0)
    result = traced.end(p)
    assert len(result["paths"]) == 10
    assert result["lost"]["paths_beyond_max"] > 0


def test_slow_packets_give_their_path(traced: Traced, pair: tuple[str, str]) -> None:
    a, b = pair
    p = traced.begin("--sample", "1", "--slow-us", "3000", *TCP)
    traced.talk((b, "10.77.0.2"), a, 50, 6)
    paths = [
        x
        for x in traced.end(p)["paths"]
        # On a busy machine an answer may be as slow as the messages.
        if x["end"] == "skb_copy_datagram_iovec" and x["destination_port"] == 7000
    ]
    assert len(paths) == 50
    for path in paths:
        assert path["latency_ns"] >= 3_000_000
        assert [h["stage"] for h in path["hops"]] == TCP_WAY
        assert [h["netns"] for h in path["hops"]] == [a, a, b, b, b, b]
        times = [h["at_ns"] for h in path["hops"]]
        assert times == sorted(times) and times[-1] == path["latency_ns"]


def test_drops_have_a_reason(traced: Traced, pair: tuple[str, str]) -> None:
    a, b = pair
    p = traced.begin("--sample", "1", *UDP)
    exchange = traced.exchange(
        (b, "10.77.0.2"), a, ["--buffer", "4096", "--delay-ms", "2"], ["--count", "500"]
    )
    result = traced.end(p)
    dropped = exchange["sent"] - exchange["received"]
    assert dropped > 0
    full = [d for d in result["drops"] if d["reason"] == "SOCKET_RCVBUFF"]
    assert sum(d["packets"] for d in full) == dropped == result["packets"]["dropped"]
    assert {(d["netns"], d["device"]) for d in full} == {(b, "vb")}


def test_fragments_and_reassembly(traced: Traced, pair: tuple[str, str]) -> None:
    """NfvInsight figure 19: large datagrams spend their time waiting for the last fragment."""
    a, b = pair
    p = traced.begin("--sample", "1", "--addr", "10.77.0.2", "--proto", "udp")
    send = ["--count", "50", "--bytes", "30000", "--may-fragment", "--gap-ms", "1"]
    exchange = traced.exchange((b, "10.77.0.2"), a, [], send)
    result = traced.end(p)
    assert exchange["received"] == 50
    each = -(-30008 // 1480)
    assert result["packets"]["fragments"] == 50 * each
    assert result["packets"]["datagrams_reassembled"] == 50
    # The others are freed with the datagram, which the kernel may put off beyond the test.
    assert result["packets"]["reassembled"] <= 50 * (each - 1)
    assert stage(result, "netif_receive_skb", "reassembled")["count"] >= 50
    assert begun(result) == ends(result)


def test_fragmented_on_the_way(traced: Traced, lan: Lan, routed: tuple[str, str, str]) -> None:
    a, r, c = routed
    lan.inside(r, "ip", "link", "set", "rc", "mtu", "600")
    p = traced.begin("--sample", "1", "--addr", "10.78.2.1", "--proto", "udp")
    send = ["--count", "100", "--bytes", "1400", "--may-fragment", "--gap-ms", "1"]
    exchange = traced.exchange((c, "10.78.2.1"), a, [], send)
    result = traced.end(p)
    assert exchange["received"] == 100
    assert result["packets"]["sampled"] == 100
    assert result["packets"]["fragmented"] == 100 * -(-1408 // 576)
    assert result["packets"]["datagrams_reassembled"] == 100


def test_segments_copies_and_merging(
    traced: Traced, lan: Lan, routed: tuple[str, str, str]
) -> None:
    """TSO before the router, none behind it, GRO at the end: one becomes many become one.

    The router gives forwarded TCP packets a buffer of their own, as it finds them cloned.
    """
    a, r, c = routed
    for namespace, interface in ((a, "va"), (r, "ra")):
        lan.inside(namespace, "ethtool", "-K", interface, "tx", "on", "sg", "on", "tso", "on")
    lan.inside(c, "ethtool", "-K", "vc", "gro", "on")
    p = traced.begin("--sample", "1", "--proto", "tcp")
    traced.tcp((c, "10.78.2.1"), a)
    result = traced.end(p)
    packets = result["packets"]
    assert packets["gso_parents"] > 10
    assert packets["gso_segments"] > 5 * packets["gso_parents"]
    assert packets["gro_merged"] > packets["gso_segments"] / 2
    assert packets["head_replaced"] > 0
    assert stage(result, "net_dev_queue", "net_dev_start_xmit", "rc")["count"] > 100


def tcp_counters(lan: Lan, namespace: str) -> dict[str, int]:
    """The kernel's own, of one namespace: TcpExt of /proc/net/netstat."""
    lines = lan.inside(namespace, "cat", "/proc/net/netstat").splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("TcpExt:"))
    return dict(zip(names, map(int, values), strict=True))


def test_who_is_left_out_of_the_whole_way_is_what_tcp_merged(
    traced: Traced, lan: Lan, pair: tuple[str, str]
) -> None:
    """TCP merges segments in its socket's queue without a tracepoint, and counts how many."""
    a, b = pair
    p = traced.begin("--sample", "1", "--packets", "65536")
    traced.tcp((b, "10.77.0.2"), a)
    result = traced.end(p)
    way, counted = result["whole_way"], [tcp_counters(lan, n) for n in pair]
    assert sum(way["seen"].values()) + sum(way["left_out"].values()) == way["begun"]
    merged = sum(c["TCPRcvCoalesce"] for c in counted)
    # The buffer of one that was merged need not have come again when tracing ends.
    queued = way["left_out"]["queue_merged"] + result["unfinished"].get("tcp_probe", 0)
    assert merged > 0
    assert queued == pytest.approx(merged, rel=0.02, abs=5)
    waited = sum(c["TCPBacklogCoalesce"] for c in counted)
    assert way["left_out"]["backlog_merged"] == pytest.approx(waited, rel=0.05, abs=8)
    assert way["left_out"]["reuse_detected"] <= 0.01 * way["begun"]


def test_softirq_time_by_cpu(traced: Traced, pair: tuple[str, str]) -> None:
    a, b = pair
    p = traced.begin("--softirq", *UDP)
    traced.exchange((b, "10.77.0.2"), a, [], ["--count", "2000"])
    result = traced.end(p)
    received = [c["vectors"]["NET_RX"] for c in result["softirq"] if "NET_RX" in c["vectors"]]
    assert sum(v["count"] for v in received) > 0
    assert all(0 < v["share"] < 1 for v in received)


def test_the_kernel_counts_the_cost(traced: Traced, pair: tuple[str, str]) -> None:
    a, b = pair
    p = traced.begin("--sample", "1", "--stats", *UDP)
    traced.exchange((b, "10.77.0.2"), a, [], ["--count", "2000"])
    programs = {x["program"]: x for x in traced.end(p)["programs"]}
    queue = programs["tp_btf/net_dev_queue"]
    assert queue["runs"] >= 2000 and queue["run_time_ns"] > 0


LAB = """
import sys
from headrace.collect.stack.tracer import Tracer
with Tracer(["--sample", "0.01"]) as tracer:
    print(tracer._process.pid, flush=True)
    sys.stdin.read()
"""


def test_it_ends_with_a_lab_that_was_killed(
    tracer: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADRACE_TRACE", str(tracer))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert lab.stdout is not None
    child = Path(f"/proc/{int(lab.stdout.readline())}")
    assert child.joinpath("comm").read_text() == "headrace-trace\n"
    lab.kill()
    lab.wait()
    end = time.monotonic() + 20
    while child.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not child.exists()
    assert not list(tmp_path.iterdir())
