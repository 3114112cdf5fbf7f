# SPDX-License-Identifier: Apache-2.0
"""Source and sink as instruments: what is sent, and what is measured of known traffic."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import rdpcap, wrpcap

from support.engine import Engine, memory_engine

Start = Callable[[dict[str, Any]], Engine]


@pytest.fixture
def run(start_engine: Start) -> Iterator[Start]:
    """Starts engines that end with the test."""
    with ExitStack() as stack:
        yield lambda plan: stack.enter_context(start_engine(plan))


def direct(cpu: int, source: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    """Sources straight into one sink, all on one lcore."""
    sources = {"gen": source} | more
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {"meas": {"type": "sink"}}
        | {name: {"type": "source", "params": params} for name, params in sources.items()},
        "segments": [
            {"name": name, "cpus": [cpu], "inputs": [{"link": name, "to": "link:meas"}]}
            for name in sources
        ],
    }


def trial(engine: Engine, **runs: dict[str, Any]) -> dict[str, Any]:
    """One trial of the named sources, to its end; the links' counters."""
    engine.call("start", sources=runs)
    engine.wait_for(
        lambda: all(engine.read()["links"][name]["state"] == "done" for name in runs),
        "the end of the trial",
        seconds=60,
    )
    time.sleep(0.1)
    links: dict[str, Any] = engine.read()["links"]
    return links


@pytest.mark.parametrize(
    ("source", "frame_sum"),
    [
        ({"flows": 100}, 64),
        ({"flows": 100, "order": "random"}, 64),
        ({"flows": 100, "order": "zipf"}, 64),
        ({"flows": 5, "frame_bytes": [70] * 7 + [570] * 4 + [1518], "vlan": 7}, None),
        ({"flows": 9, "protocol": "tcp", "frame_bytes": [74]}, 74),
        ({"flows": 9, "src_ip": "2001:db8::1", "dst_ip": "2001:db8:1::1", "frame_bytes": [82]}, 82),
    ],
)
def test_all_arrive_in_order(
    source: dict[str, Any], frame_sum: int | None, run: Start, cpus: list[int]
) -> None:
    engine = run(direct(cpus[0], source))
    links = trial(engine, gen={"rate_pps": 100_000, "packets": 24_000, "duration_s": 60})
    sink = links["meas"]
    assert links["gen"]["sent"] == links["gen"]["intended"] == 24_000
    assert links["gen"]["unsent"] == 0
    assert sink["received"] == sink["stamped"] == 24_000
    assert sink["lost"] == sink["reordered"] == sink["duplicated"] == sink["unknown"] == 0
    assert sink["flows"] == source["flows"]
    sizes = source.get("frame_bytes", [64])
    expected = 24_000 * frame_sum if frame_sum else 24_000 // len(sizes) * sum(sizes)
    assert sink["bytes"] == links["gen"]["sent_bytes"] == expected


def test_rate_and_duration(run: Start, cpus: list[int]) -> None:
    """200 kpps for half a second are 100 000 packets, the last one due just before the end."""
    engine = run(direct(cpus[0], {"flows": 10}))
    gen = trial(engine, gen={"rate_pps": 200_000, "duration_s": 0.5})["gen"]
    assert gen["intended"] == gen["sent"] + gen["unsent"] == 100_000
    assert gen["intended_duration_ns"] == pytest.approx(5e8, rel=1e-6)
    if not gen["unsent"]:
        assert gen["duration_ns"] >= 5e8 - 2 * 5000


def test_rate_changes_while_running(run: Start, cpus: list[int]) -> None:
    engine = run(direct(cpus[0], {"flows": 10}))
    engine.call("start", sources={"gen": {"rate_pps": 1, "packets": 3000}})
    engine.call("set", link="gen", rate_pps=100_000)
    engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the end", seconds=60)
    assert engine.read()["links"]["meas"]["received"] == 3000


def test_stop(run: Start, cpus: list[int]) -> None:
    engine = run(direct(cpus[0], {"flows": 10}))
    engine.call("start", sources={"gen": {"rate_pps": 1000, "duration_s": 1000}})
    engine.call("stop")
    engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the stop")
    assert engine.read()["links"]["gen"]["unsent"] == 0
    # And the next trial begins anew.
    links = trial(engine, gen={"rate_pps": 0, "packets": 77})
    assert links["meas"]["received"] == 77
    assert links["meas"]["lost"] == 0


def test_throughput_ends_with_the_trial(run: Start, cpus: list[int]) -> None:
    """A full ring in front of a slow function: what it holds at the end takes 0.3 s more."""
    plan = direct(cpus[0], {"flows": 10})
    ring = {"type": "ring", "params": {"size": 16384, "on_full": "drop"}}
    plan["links"]["wire"] = ring
    plan["nfs"] = {"slow": {"type": "delay", "params": {"cycles": 45_000}}}
    plan["segments"] = [
        {"name": "gen", "cpus": cpus[:1], "inputs": [{"link": "gen", "to": "link:wire"}]},
        {
            "name": "chain",
            "cpus": cpus[:1],
            "burst": 1,
            "inputs": [{"link": "wire", "to": "slow"}],
            "nodes": {"slow": {"forward": {"out": "link:meas"}}},
        },
    ]
    engine = run(plan)
    trial(engine, gen={"rate_pps": 0, "duration_s": 0.5})
    engine.wait_for(lambda: engine.read()["links"]["wire"]["used"] == 0, "the drain", seconds=60)
    sink = engine.read()["links"]["meas"]
    within = sink["within"]
    assert within["received"] == within["stamped"] > 0
    assert sink["received"] - within["received"] > 4096


def test_histogram_reads_elsewhere(run: Start, cpus: list[int]) -> None:
    engine = run(direct(cpus[0], {"flows": 10}))
    latency = trial(engine, gen={"rate_pps": 50_000, "packets": 20_000, "duration_s": 60})["meas"][
        "latency"
    ]
    decoded = HdrHistogram.decode(latency["hdr"])
    assert decoded.get_total_count() == latency["count"] == 20_000
    assert decoded.get_mean_value() == pytest.approx(latency["mean_ns"], rel=0.002)
    assert decoded.get_max_value() >= latency["max_ns"]
    assert decoded.get_min_value() <= latency["min_ns"]


def stamped(epoch: int, flow: int, sequence: int) -> bytes:
    """The stamp of engine/link/stamp.h, with no plausible time."""
    return struct.pack("<QII", (ord("H") << 8 | epoch) << 48, sequence, flow)


def test_known_disorder(run: Start, cpus: list[int], tmp_path: Path) -> None:
    """0 1 3 2 3 7: 4, 5 and 6 are lost, 2 is reordered (RFC 4737), 3 comes twice."""
    capture = tmp_path / "disorder.pcap"
    head = Ether(dst="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP()
    wrpcap(str(capture), [head / Raw(stamped(1, 5, n)) for n in (0, 1, 3, 2, 3, 7)])
    # Beside it a source of flows 8 to 15, which has the sink keep state for flow 5, sends one.
    plan = direct(cpus[0], {"flows": 8, "flow_base": 8}, tape={"pcap_file": str(capture)})
    engine = run(plan)
    once = {"rate_pps": 0, "packets": 1}
    sink = trial(engine, gen=once, tape={"rate_pps": 0, "packets": 6})["meas"]
    assert sink["received"] == sink["stamped"] == 7
    assert (sink["lost"], sink["reordered"], sink["duplicated"]) == (3, 1, 1)
    [flow] = engine.call("flows", link="meas", top=5)["flows"]
    assert (flow["flow"], flow["received"], flow["lost"]) == (5, 6, 3)
    assert (flow["reordered"], flow["duplicated"]) == (1, 1)


def test_stragglers_of_another_trial(run: Start, cpus: list[int], tmp_path: Path) -> None:
    capture = tmp_path / "old.pcap"
    head = Ether(dst="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP()
    wrpcap(str(capture), [head / Raw(stamped(200, 0, 0))])
    engine = run(direct(cpus[0], {"pcap_file": str(capture)}))
    sink = trial(engine, gen={"rate_pps": 0, "packets": 1})["meas"]
    assert (sink["late"], sink["stamped"], sink["unknown"]) == (1, 0, 0)


def test_replay_is_matched_by_digest(run: Start, cpus: list[int], tmp_path: Path) -> None:
    capture = tmp_path / "plain.pcap"
    packets = [
        Ether(dst="02:00:00:00:00:01")
        / IP(src="10.0.0.1", dst="10.0.0.2", id=n)
        / UDP(sport=1000 + n)
        / Raw(bytes([n]) * (20 + n))
        for n in range(50)
    ]
    wrpcap(str(capture), packets)
    engine = run(direct(cpus[0], {"pcap_file": str(capture)}))
    links = trial(engine, gen={"rate_pps": 20_000, "packets": 500, "duration_s": 60})
    sink = links["meas"]
    assert links["gen"]["sent"] == sink["received"] == sink["matched"] == 500
    assert sink["unknown"] == sink["duplicated"] == 0
    # Each is back before the capture comes round again, but for a stall of the machine.
    assert sink["latency"]["count"] + sink["ambiguous"] == 500
    assert sink["latency"]["count"] > 250
    assert sink["bytes"] == sum(10 * (len(p) + 4) for p in packets)


def test_a_capture_that_another_source_replays_too(
    run: Start, cpus: list[int], tmp_path: Path
) -> None:
    """What a source sent in the trial before is none of this one's, in which it does not begin."""
    capture = tmp_path / "alike.pcap"
    packet = Ether(dst="02:00:00:00:00:01") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP()
    wrpcap(str(capture), [packet] * 20)
    params = {"pcap_file": str(capture)}
    engine = run(direct(cpus[0], params, other=params))
    order = {"rate_pps": 20_000, "packets": 500, "duration_s": 60}
    for name in ("gen", "other"):
        links = trial(engine, **{name: order})
        sink = links["meas"]
        assert links[name]["sent"] == sink["received"] == sink["matched"] == 500
        assert sink["duplicated"] == 0
        assert sink["latency"]["count"] + sink["ambiguous"] == 500


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"frame_bytes": [64], "protocol": "tcp"}, ("frame_bytes", "at least 74 B", "stamp")),
        ({"src_ip": "::1", "dst_ip": "::2"}, ("frame_bytes", "at least 82 B")),
        ({"src_ip": "::1"}, ("dst_ip", "one family")),
        ({"frame_bytes": [9000]}, ("frame_bytes", "mbuf_data_bytes")),
        ({"flows": 5_000_000, "order": "zipf"}, ("order", "4194304")),
    ],
)
def test_refused(
    params: dict[str, Any], words: tuple[str, ...], run: Start, cpus: list[int]
) -> None:
    with pytest.raises(Exception, match="ended with 2") as error:
        run(direct(cpus[0], params))
    text = str(error.value)
    assert text.count("\n") <= 1
    for word in ("links.gen.params", *words):
        assert word in text


def test_headers_file(run: Start, cpus: list[int], tmp_path: Path) -> None:
    """Flows of a ClassBench trace leave as they are written there, checksums right."""
    headers, capture = tmp_path / "h.trace", tmp_path / "out.pcap"
    headers.write_text(
        "167772161 167772162 1000 53 17 0 3\n167772163 167772164 5 6 6\n"
        "167772165 167772166 0 0 47\n"
    )
    plan = direct(cpus[0], {"headers_file": str(headers), "stamp": False})
    plan["links"]["meas"] = {
        "type": "port",
        "params": {"devargs": f"net_pcap_h,tx_pcap={capture}"},
    }
    engine = run(plan)
    trial_links = trial(engine, gen={"rate_pps": 0, "packets": 6})
    assert trial_links["gen"]["flows"] == 3
    engine.call("quit")
    engine.process.wait(timeout=10)
    packets = rdpcap(str(capture))
    assert len(packets) == 6
    seen = [(p[IP].src, p[IP].dst, p[IP].proto) for p in packets[:3]]
    assert seen == [
        ("10.0.0.1", "10.0.0.2", 17),
        ("10.0.0.3", "10.0.0.4", 6),
        ("10.0.0.5", "10.0.0.6", 47),
    ]
    for packet in packets:
        again = Ether(bytes(packet))
        for layer in ("IP", "UDP", "TCP"):
            if layer in again:
                del again[layer].chksum
        assert bytes(again.__class__(bytes(again))) == bytes(packet)
