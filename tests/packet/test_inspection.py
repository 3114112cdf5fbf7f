# SPDX-License-Identifier: Apache-2.0
"""What `ids` finds in captures, beside Suricata with the same rules and nDPI's ndpiReader."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.engine import Engine
from support.inspection import flow_of, found_in, inspect, ndpi_labels, suricata

RULES = Path(__file__).with_name("inspection.rules")


@pytest.fixture
def captures(shared_data: Path) -> list[Path]:
    found = sorted((shared_data / "traffic").glob("*.pcap"))
    assert found
    return found


@pytest.mark.skipif(shutil.which("suricata") is None, reason="suricata is not installed")
def test_alerts_as_suricata(
    start_engine: Callable[..., Engine], cpus: list[int], captures: list[Path], tmp_path: Path
) -> None:
    ours, theirs = set(), set()
    for capture in captures:
        events = inspect(start_engine, capture, tmp_path, cpus[-1], rules_file=str(RULES))
        ours |= found_in(capture, events)
        theirs |= found_in(capture, suricata(capture, RULES, tmp_path / f"suricata-{capture.stem}"))

    print(f"{len(ours)} pairs of flow and rule, {len({found.sid for found in ours})} rules")
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
