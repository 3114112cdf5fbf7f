# SPDX-License-Identifier: Apache-2.0
"""What `ids` finds in a capture, and what its peers find: Suricata, and nDPI's ndpiReader."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from scapy.utils import RawPcapReader

from support.engine import Engine, memory_engine
from support.plans import pcap_port

# Suricata with nothing but detection: what is not named has its default.
SURICATA = """%YAML 1.1
---
vars: {address-groups: {}, port-groups: {}}
outputs:
  - eve-log: {enabled: yes, filetype: regular, filename: eve.json, types: [alert]}
stream: {midstream: true, checksum-validation: no}
app-layer: {protocols: {}}
"""

Flow = tuple[str, frozenset[tuple[str, int]]]


@dataclass(frozen=True)
class Found:
    """One rule in one flow of one capture."""

    capture: str
    flow: Flow
    sid: int


def flow_of(proto: str, a: tuple[str, int], b: tuple[str, int]) -> Flow:
    """Addresses in one notation: Suricata writes IPv6 without its `::`."""
    return proto, frozenset((str(ip_address(address)), port) for address, port in (a, b))


def packet_count(capture: Path) -> int:
    with RawPcapReader(str(capture)) as reader:
        return sum(1 for _ in reader)


def inspect(
    start_engine: Callable[..., Engine], capture: Path, folder: Path, cpu: int, **params: Any
) -> list[dict[str, Any]]:
    """The events of `ids` on a capture, all flows ended."""
    output = folder / f"{capture.stem}.json"
    plan = {
        "version": 1,
        "engine": memory_engine(),
        "links": {"in": pcap_port(capture, None, "in")},
        "nfs": {"ids": {"type": "ids", "params": {"eve_file": str(output), **params}}},
        "segments": [
            {
                "name": "watch",
                "cpus": [cpu],
                "inputs": [{"link": "in", "to": "ids"}],
                "nodes": {"ids": {"forward": {"out": "drop"}}},
            }
        ],
    }
    with start_engine(plan) as engine:
        reading = engine.settle(packet_count(capture))
    counters = reading["segments"]["watch"][0]["nfs"]["ids"]
    assert counters["in"] == counters["consumed"] + counters["aborted"]
    assert counters["counters"]["alerts-lost"] == 0
    return [json.loads(line) for line in output.read_text().splitlines()]


def found_in(capture: Path, events: Iterable[dict[str, Any]]) -> set[Found]:
    """Alerts of EVE, ours or Suricata's, whichever way their packet went."""
    return {
        Found(
            capture.name,
            flow_of(
                event["proto"],
                (event["src_ip"], event.get("src_port", 0)),
                (event["dest_ip"], event.get("dest_port", 0)),
            ),
            event["alert"]["signature_id"],
        )
        for event in events
        if event["event_type"] == "alert"
    }


def suricata(capture: Path, rules: Path, folder: Path) -> list[dict[str, Any]]:
    folder.mkdir()
    (folder / "suricata.yaml").write_text(SURICATA)
    done = subprocess.run(
        ["suricata", "-c", str(folder / "suricata.yaml"), "-r", str(capture), "-S", str(rules),
         "-l", str(folder), "-k", "none", "--runmode", "single"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    output = folder / "eve.json"
    return [json.loads(line) for line in output.read_text().splitlines()]


def ndpi_labels(capture: Path, folder: Path) -> dict[Flow, str]:
    """ndpiReader's label of each flow."""
    output = folder / f"{capture.stem}.csv"
    subprocess.run(
        ["ndpiReader", "-q", "-i", str(capture), "-C", str(output)],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    protos = {"1": "ICMP", "6": "TCP", "17": "UDP", "58": "IPv6-ICMP"}
    with output.open() as file:
        return {
            flow_of(
                protos.get(row["protocol"], f"{int(row['protocol']):03}"),
                (row["src_ip"], int(row["src_port"])),
                (row["dst_ip"], int(row["dst_port"])),
            ): row["ndpi_proto"]
            for row in csv.DictReader(line.lstrip("#") for line in file)
        }
