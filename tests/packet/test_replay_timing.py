# SPDX-License-Identifier: Apache-2.0
"""A capture replayed in its own timing, held against the time stamps that DPDK's net_pcap writes
when it sends; and captures of all forms."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import PcapNgWriter, RawPcapReader, wrpcap

from headrace.engine.describe import captured
from support.engine import Engine, memory_engine
from support.plans import pcap_port

# ms: a burst, a pause, a pair, a long pause, a single one; the last is 40 ms behind the first.
TIMES_MS = (0, 0.2, 0.4, 0.6, 10, 10.2, 40)
PERIOD_S = 0.040 + 0.040 / 6


def example() -> list[Packet]:
    packets = [Ether() / IP(src="10.0.0.1", dst="10.0.0.2", id=i) / UDP() for i in range(7)]
    for packet, ms in zip(packets, TIMES_MS, strict=True):
        packet.time = 1_000_000_000 + ms / 1000
    return packets


def plan(capture: Path, out: Path, timing: str, cpu: int) -> dict[str, Any]:
    source = {"pcap_file": str(capture), "pcap_timing": timing, "stamp": False}
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {"gen": {"type": "source", "params": source}, "out": pcap_port(None, out, "t")},
        "nfs": {},
        "segments": [{"name": "s", "cpus": [cpu], "inputs": [
            {"link": "gen", "to": "link:out", "direction": "forward"}]}],
    }  # fmt: skip


def sent_at(
    start_engine: Callable[..., Engine],
    plan: dict[str, Any],
    out: Path,
    rate: float,
    seconds: float,
) -> tuple[list[float], dict[str, Any]]:
    """Seconds since the first packet, by the stamps of who sent them."""
    with start_engine(plan) as engine:
        engine.call("start", sources={"gen": {"rate_pps": rate, "duration_s": seconds}})
        time.sleep(0.1)
        engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the end")
        about = engine.read()["links"]["gen"]
        engine.call("quit")
        engine.process.wait(timeout=10)
    reader = RawPcapReader(str(out))
    per_s = 1e9 if reader.nano else 1e6
    stamps = [meta.sec + meta.usec / per_s for _, meta in reader]
    return [stamp - stamps[0] for stamp in stamps], about


def late(times: list[float], expected: list[float]) -> list[float]:
    """Seconds behind its due time, for each of the capture's packets in the round in which it was
    least: a machine that others share stops for milliseconds now and then, and delays some."""
    assert len(times) > 5 * len(TIMES_MS)
    behind = [a - b for a, b in zip(times, expected, strict=False)]
    return [min(behind[i :: len(TIMES_MS)]) - min(behind) for i in range(len(TIMES_MS))]


@pytest.mark.parametrize("speed", [1, 2])
def test_packets_leave_when_the_capture_says(
    speed: int, start_engine: Callable[..., Engine], cpus: list[int], tmp_path: Path
) -> None:
    """Twice the mean rate: half of every distance. Twenty rounds and a burst of four."""
    capture, out = tmp_path / "c.pcap", tmp_path / "out.pcap"
    wrpcap(str(capture), example())
    seconds, rate = (20 * PERIOD_S + 0.001 * speed) / speed, speed * 7 / PERIOD_S
    rounds = [(n * PERIOD_S + ms / 1000) / speed for n in range(21) for ms in TIMES_MS]
    of_capture = plan(capture, out, "capture", cpus[0])
    times, about = sent_at(start_engine, of_capture, out, rate, seconds)
    assert about["intended"] == 20 * 7 + 4
    assert max(late(times, rounds)) < 100e-6


@pytest.mark.parallel
@pytest.mark.parametrize("kind", ["pcap", "pcapng", "pcap.gz", "pcapng.gz"])
def test_all_forms_of_captures(kind: str, engine_binary: Path, tmp_path: Path) -> None:
    plain, file = tmp_path / kind.removesuffix(".gz"), tmp_path / f"c.{kind}"
    if "pcapng" in kind:
        with PcapNgWriter(str(plain)) as writer:
            writer.write(example())
    else:
        wrpcap(str(plain), example())
    data = plain.read_bytes()
    file.write_bytes(gzip.compress(data) if kind.endswith(".gz") else data)
    times = captured(engine_binary, file)
    assert (times.packets, times.largest_bytes) == (7, 42)
    assert times.period_ns == pytest.approx(PERIOD_S * 1e9, abs=3000)  # scapy's stamps are in us


@pytest.mark.parallel
def test_a_gzip_that_is_cut_off(engine_binary: Path, tmp_path: Path) -> None:
    wrpcap(str(tmp_path / "c.pcap"), example() * 100)
    whole = gzip.compress((tmp_path / "c.pcap").read_bytes())
    (tmp_path / "c.pcap.gz").write_bytes(whole[: len(whole) // 2])
    assert captured(engine_binary, tmp_path / "c.pcap.gz").packets == 0
