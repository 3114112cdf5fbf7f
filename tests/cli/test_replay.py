# SPDX-License-Identifier: Apache-2.0
"""`headrace run` of a capture in its own timing: when packets came to the chain, by the start times
that its flow monitor exports (RFC 7011), against the capture's own; and first specs of `init`."""

from __future__ import annotations

import gzip
import json
import socket
import struct
from pathlib import Path

import pytest
import yaml
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import PcapNgWriter, wrpcap

from support.lab import headrace

# Of each packet, which is a flow of its own: a pair, pauses, the last 400 ms behind the first.
TIMES_MS = (0, 20, 120, 150, 400)
PERIOD_MS = 500  # the last packet's distance to the next round's first is the mean one
ROUNDS = 4
SOURCE_PORT, START_MS = 7, 152  # IANA's information elements

SPEC = """\
name: own-timing
chain:
  - monitor: {{export: socket, collector: 127.0.0.1, port: {port}, idle_timeout_s: 0.1}}
deployment: {{execution: rtc, hugepages: false}}
workload: {{kind: pcap, file: {file}, timing: {timing}}}
measure: {{trial: {seconds}}}
warmup: 0
"""


def packets() -> list[Packet]:
    frames = [Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1000 + i) for i in range(5)]
    for packet, ms in zip(frames, TIMES_MS, strict=True):
        packet.time = 1_000_000_000 + ms / 1000
    return frames


def write(file: Path, kind: str) -> None:
    plain = file.with_suffix(".plain")
    if "pcapng" in kind:
        with PcapNgWriter(str(plain)) as writer:
            writer.write(packets())
    else:
        wrpcap(str(plain), packets())
    data = plain.read_bytes()
    file.write_bytes(gzip.compress(data) if kind.endswith(".gz") else data)


def starts(messages: list[bytes]) -> list[tuple[int, int]]:
    """The start of each record in IPFIX messages, in ms, and its source port."""
    templates: dict[int, list[tuple[int, int]]] = {}
    times = []
    for message in messages:
        at = 16
        while at < len(message):
            kind, length = struct.unpack_from("!HH", message, at)
            body, at = message[at + 4 : at + length], at + length
            if kind == 2:
                while len(body) >= 4:
                    name, n = struct.unpack_from("!HH", body)
                    templates[name] = [struct.unpack_from("!HH", body, 4 + 4 * i) for i in range(n)]
                    body = body[4 + 4 * n :]
            elif fields := templates.get(kind):
                size = sum(length for _, length in fields)
                for begin in range(0, len(body) - size + 1, size):
                    values, offset = {}, begin
                    for element, length in fields:
                        values[element] = int.from_bytes(body[offset : offset + length])
                        offset += length
                    times.append((values[START_MS], values[SOURCE_PORT]))
    return sorted(times)


def received(collector: socket.socket) -> list[bytes]:
    collector.setblocking(False)
    messages = []
    while True:
        try:
            messages.append(collector.recv(65536))
        except BlockingIOError:
            return messages


def phases(records: list[tuple[int, int]]) -> list[int]:
    """Where in its period each packet of the capture came but the first, in ms behind the second
    one, by the last record of each: a flow that is not expired by the next round has no new one.
    The first is also sent before the first round, to verify the path."""
    last = {port: start for start, port in records}
    behind = [last[1000 + i] - last[1001] + TIMES_MS[1] for i in range(1, 5)]
    return [ms % PERIOD_MS for ms in behind]


@pytest.mark.parametrize(
    ("kind", "timing"), [("pcap", "capture"), ("pcapng.gz", "capture"), ("pcap.gz", "load")]
)
def test_packets_come_to_the_chain_as_the_capture_says(
    kind: str, timing: str, engine_binary: Path, tmp_path: Path
) -> None:
    write(tmp_path / f"c.{kind}", kind)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        collector.bind(("127.0.0.1", 0))
        port = collector.getsockname()[1]
        seconds = ROUNDS * PERIOD_MS / 1000
        spec = SPEC.format(port=port, file=f"c.{kind}", timing=timing, seconds=seconds)
        if timing == "load":
            spec = spec.replace("measure: {", "measure: {loads: [10], ")
        (tmp_path / "s.yaml").write_text(spec)
        done = headrace("run", "s.yaml", "--json", folder=tmp_path, engine=engine_binary)
        assert done.returncode == 0, done.stderr
        records = starts(received(collector))
    [result] = json.loads(done.stdout)["results"]
    assert result["sent"] == result["received"] == ROUNDS * len(TIMES_MS)
    assert result["load_pps"] == pytest.approx(10, rel=1e-3)  # five in half a second
    each = PERIOD_MS / len(TIMES_MS)
    evenly = [TIMES_MS[1] + i * each for i in range(4)]
    wanted = TIMES_MS[1:] if timing == "capture" else evenly
    # The source is stopped for some milliseconds now and then, where others share the machine.
    assert phases(records) == pytest.approx(wanted, abs=10)


@pytest.mark.parametrize("from_capture", [False, True])
def test_a_first_spec_measures(from_capture: bool, engine_binary: Path, tmp_path: Path) -> None:
    """As `init` writes it but for how long; a capture's mix is in the accounts of what was sent."""
    arguments = ["init", "mine.yaml"]
    sizes = [60] * 6 + [200] * 3 + [1000]
    if from_capture:
        frames = [Ether() / IP(dst="10.0.0.9") / UDP(sport=i) / Raw(b"x" * (size - 42))
                for i, size in enumerate(sizes)]  # fmt: skip
        wrpcap(str(tmp_path / "c.pcap"), frames)
        arguments += ["--pcap", "c.pcap"]
    done = headrace(*arguments, folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    spec = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    assert spec["deployment"]["execution"] == ["rtc", "pipeline"] and spec["measure"]["search"]
    spec |= {"measure": {"loads": [5000], "trial": 0.4}, "warmup": 0.1}
    spec["deployment"]["hugepages"] = False
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(spec))
    done = headrace("run", "mine.yaml", "--json", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [one["execution"] for one in results] == ["rtc", "pipeline"]
    for one in results:
        assert one["audit"]["verdict"] != "invalid"
        # Where the machine stands still for a fifth of a second some are not sent, and none lost.
        assert one["sent"] == one["received"] == pytest.approx(2000, rel=0.1)
        if from_capture:
            sent = {a["size"]: a["sent"] for a in one["accounts"] if a["size"] != "all"}
            shares = {"64": 0.6, "128-255": 0.3, "512-1023": 0.1}  # with FCS, RFC 2819's classes
            of_sizes = {size: n / one["sent"] for size, n in sent.items() if n}
            assert of_sizes == pytest.approx(shares, abs=0.02)
