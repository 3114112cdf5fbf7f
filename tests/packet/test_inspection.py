# SPDX-License-Identifier: Apache-2.0
"""What `ids` finds in captures, beside Suricata with the same rules and nDPI's ndpiReader."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.engine import Engine, nf_imbalance
from support.inspection import flow_of, found_in, inspect, ndpi_labels, packet_count, suricata
from support.lab import headrace
from support.plans import Model, Nf, chain_plan, models, pcap_port
from support.traffic import read_pcap

RULES = Path(__file__).with_name("inspection.rules")
DOCUMENT = Path(__file__).parents[2] / "docs" / "inspection.md"


@pytest.fixture
def captures(shared_data: Path) -> list[Path]:
    files = sorted((shared_data / "traffic").glob("*.pcap"))
    assert files
    return files


@pytest.mark.skipif(shutil.which("suricata") is None, reason="suricata is not installed")
def test_alerts_as_suricata(
    start_engine: Callable[..., Engine], cpus: list[int], captures: list[Path], tmp_path: Path
) -> None:
    ours, theirs = set(), set()
    for capture in captures:
        events = inspect(start_engine, capture, tmp_path, cpus[-1], rules_file=str(RULES))
        ours |= found_in(capture, events)
        theirs |= found_in(capture, suricata(capture, RULES, tmp_path / f"suricata-{capture.stem}"))

    print(f"{len(ours)} pairs of flow and rule, {len({alert.sid for alert in ours})} rules")
    assert ours == theirs
    assert len(ours) >= 20


@pytest.mark.skipif(shutil.which("ndpiReader") is None, reason="ndpiReader is not installed")
def test_labels_as_ndpi_reader(
    start_engine: Callable[..., Engine], cpus: list[int], captures: list[Path], tmp_path: Path
) -> None:
    same, different = 0, []
    for capture in captures:
        events = inspect(start_engine, capture, tmp_path, cpus[-1], labels=True, eve_flows=True)
        labels = {
            flow_of(
                event["proto"],
                (event["src_ip"], event.get("src_port", 0)),
                (event["dest_ip"], event.get("dest_port", 0)),
            ): event.get("app_proto", "Unknown")
            for event in events
        }
        for flow, label in ndpi_labels(capture, tmp_path).items():
            if labels.get(flow) == label:
                same += 1
            else:
                different.append((capture.name, flow, label, labels.get(flow)))

    print(f"{same} flows have the same label, {len(different)} another")
    assert same / (same + len(different)) >= 0.95, different


WATCHED = (
    Nf("mirror", "tee"),
    Nf("dpi", "dpi", params={
        "rules": [
            'drop tcp any any -> any any (content:"</html>"; sid:1;)',
            'mark tcp any any -> any any (flow:to_client; content:"text/html"; sid:2;)',
        ],
        "dscp": 46,
    }),
)  # fmt: skip


TOS, CHECKSUM = 15, slice(24, 26)  # of IPv4 behind Ethernet


def without_dscp(packet: bytes) -> bytes:
    """What a mark may change is 0."""
    header = bytearray(packet)
    header[TOS] = 0
    header[CHECKSUM] = bytes(2)
    return bytes(header)


@pytest.mark.parametrize(
    "model",
    [m for m in models([nf.name for nf in WATCHED]) if "hybrid" not in m.name],
    ids=lambda model: model.name,
)
def test_dpi_under_every_execution_model(
    model: Model,
    start_engine: Callable[..., Engine],
    cpus: list[int],
    shared_data: Path,
    tmp_path: Path,
) -> None:
    """What the flows' rules say happens to the packets, whoever carries them."""
    capture = shared_data / "traffic" / "http_browsing.pcap"
    outgoing = tmp_path / "out.pcap"
    plan = chain_plan(
        WATCHED, model, cpus, pcap_port(capture, None, "in"), pcap_port(None, outgoing, "out")
    )
    for segment in plan["segments"]:
        if "mirror" in segment.get("nodes", {}):
            segment["nodes"]["mirror"]["forward"]["copy"] = "drop"
    with start_engine(plan) as engine:
        reading = engine.settle(packet_count(capture))
        hits = engine.call("update", nf="dpi", op={"show": "rules"})["reply"]["rules"]
    came, went = read_pcap(capture), read_pcap(outgoing)

    assert not any(nf_imbalance(reading).values())
    assert [hit["hits"] for hit in hits] == [1, 1]
    # One connection: from the packet on in which each text ends, as the capture shows.
    marked = next(i for i, packet in enumerate(came) if b"text/html" in packet)
    dropped = next(i for i, packet in enumerate(came) if b"</html>" in packet)
    assert len(went) == dropped
    assert [packet[TOS] >> 2 for packet in went] == [0] * marked + [46] * (dropped - marked)
    assert [without_dscp(packet) for packet in went] == [
        without_dscp(packet) for packet in came[:dropped]
    ]


def test_documented_experiment(engine_binary: Path, tmp_path: Path) -> None:
    """What docs/inspection.md prints runs as it stands there, but for where the alerts go."""
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))
    alerts = tmp_path / "eve.json"
    (tmp_path / "ids.yaml").write_text(blocks["yaml"].replace("/tmp/eve.json", str(alerts)))
    (tmp_path / "my.rules").write_text(blocks["text"])
    done = headrace("run", "ids.yaml", "--json", folder=tmp_path, engine=engine_binary, timeout=600)
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["results"]
    assert row["received_pps"] > 0
    assert set(row["nf_cycles"]) >= {"mirror", "forward"}
    events = [json.loads(line) for line in alerts.read_text().splitlines()]
    assert len(events) >= row["received_pps"] * 0.5  # of a trial of a second; and of its warm-up
    assert {event["alert"]["signature_id"] for event in events} == {1}
    assert {event["dest_port"] for event in events} == {80}
