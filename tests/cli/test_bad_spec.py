# SPDX-License-Identifier: Apache-2.0
"""Bad specs: one message naming place, value and what is allowed; status 2; nothing left."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from headrace.record.bundle import BundleWriter
from support.lab import headrace, state_left

pytestmark = pytest.mark.parallel

GOOD = """\
name: bad
chain:
  - acl: {default: permit}
measure: {loads: [1000], trial: 0.1}
warmup: 0
"""

# what is wrong: (old text, new text, words that the message must have)
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "unknown key": ("name: bad", "name: bad\ncolour: blue", (":2:", "colour", "allowed")),
    "unknown nested key": ("warmup: 0", "deployment: {lcore: 1}", ("deployment.lcore", "lcores")),
    "wrong type": ("warmup: 0", "repetitions: many", ("repetitions", "many")),
    "out of range": ("warmup: 0", "repetitions: 0", ("repetitions", "0", "1")),
    "frame size": ("warmup: 0", "workload: {frame: 63}", ("workload.frame", "63", "64")),
    "unknown function": ("acl:", "acll:", ("acll", "acl")),
    "unknown parameter": ("default:", "defaults:", ("defaults", "default")),
    "choice": ("permit", "perhaps", ("default", "perhaps", "deny")),
    "duplicate key": ("warmup: 0", "warmup: 0\nwarmup: 1", ("warmup", ":6")),
    "not YAML": ("warmup: 0", "warmup: [0", (":",)),
    "missing file": (
        "{default: permit}",
        "{rules_file: none.rules}",
        ("rules_file", "none.rules"),
    ),
    "missing pcap": ("warmup: 0", "workload: {kind: pcap, file: none.pcap}", ("pcap", "none.pcap")),
    "stamp does not fit": (
        "warmup: 0",
        "workload: {frame: 64, headers: {l4: tcp}}",
        ("64", "stamp"),
    ),
    "more lcores than there are": (
        "warmup: 0",
        "deployment: {lcores: {traffic: [0], chain: [4000]}}",
        ("lcores", "4000"),
    ),
    "segments are not the chain": (
        "warmup: 0",
        "deployment: {execution: {segments: [[acl, lb]]}}",
        ("segments", "lb"),
    ),
    "nested too deeply": ("warmup: 0", "chains: " + "[" * 3000 + "]" * 3000, ("nested too",)),
    "a word for a list": ("  - acl: {default: permit}", "  acl", ("chain", "acl", "a list")),
    "no such goal": ("{loads: [1000], trial: 0.1}", "{search: [ndrr]}", ("ndrr", "ndr, pdr")),
    "sweep of nothing": ("warmup: 0", "sweep: {chain.nat.x: [1]}", ("sweep", "nat")),
    "endless number": (
        "warmup: 0",
        f"repetitions: 0x{'f' * 6000}",
        ("repetitions", "a number of thousands of digits"),
    ),
    "orders for a terminal": ("warmup: 0", '"\\e[2J": 1', ("?[2J: unknown key",)),
}


def run_bad(spec: str, words: tuple[str, ...], folder: Path, engine: Path) -> None:
    """All of it is found by `--check`, so before a run has lcores, memory or a bundle."""
    (folder / "bad.yaml").write_text(spec)
    done = headrace("run", "--check", "bad.yaml", folder=folder, engine=engine)
    text = done.stderr.strip()
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(text.splitlines()) == 1
    assert not (folder / "runs").exists()
    assert "Traceback" not in done.stdout + done.stderr
    for word in words:
        assert word in text
    assert len(text) < 1000
    assert state_left(folder) == []
    assert not list(folder.rglob("*.parquet"))


@pytest.mark.parametrize("case", CASES)
def test_bad_spec(case: str, engine_binary: Path, tmp_path: Path) -> None:
    old, new, words = CASES[case]
    assert old in GOOD
    run_bad(GOOD.replace(old, new), words, tmp_path, engine_binary)


NAT = "203.0.113.1"
MAPPINGS = ", ".join(
    f"{{protocol: tcp, inside: 10.0.0.{n}, inside_port: 80, outside: {NAT}, outside_port: 80}}"
    for n in (1, 2)
)

# A function's parameters that are right one by one, and wrong together: place, value, allowed.
FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no pool": ("nat: {pool: []}", ("nat.pool", "empty", "at least one address")),
    "ports": (f"nat: {{pool: [{NAT}], port_min: 9, port_max: 8}}", ("nat.port_min", "9", "8")),
    "pool of a network": ("nat: {pool: [10.0.0.0/8]}", ("nat.pool[0]", "prefix", "host address")),
    "filtering": (
        f"nat: {{pool: [{NAT}], filtering: endpoint-independent}}",
        ("nat.filtering", "mapping"),
    ),
    "mapped twice": (
        f"nat: {{pool: [{NAT}], static: [{MAPPINGS}]}}",
        ("nat.static[1].outside", "static[0]", "one for each endpoint"),
    ),
    "no VIP": ("lb: {vips: []}", ("lb.vips", "empty", "at least one VIP")),
    "no prime": (
        "lb: {table_size: 1000, vips: [{address: 10.0.0.1, backends: []}]}",
        ("lb.table_size", "1000", "prime"),
    ),
    "nothing to look for": ("dpi: {}", ("dpi", "rules, rules_file or labels")),
    "no place for alerts": (
        "ids: {rules: ['alert tcp any any -> any any (content:\"x\"; sid:1;)']}",
        ("ids.eve_file", "eve_file or eve_socket"),
    ),
    "alerts to nowhere": (
        "ids: {labels: true, eve_file: none/eve.json}",
        ("ids.eve_file", "none/eve.json", "No such file or directory"),
    ),
    "next hop": (
        "l3fwd: {routes: [{prefix: 10.0.0.0/8, next_hop: 1}]}",
        ("l3fwd.routes[0]", "next hop 1", "next_hops has 1, counted from 0"),
    ),
    "bits beyond the prefix": (
        "l3fwd: {routes: [{prefix: 10.1.0.0/8}]}",
        ("l3fwd.routes[0]", "prefix length 8"),
    ),
    "route twice": (
        "l3fwd: {routes: [{prefix: 10.0.0.0/8}, {prefix: 10.0.0.0/8}]}",
        ("l3fwd.routes[1]", "twice"),
    ),
    "ranges that meet": (
        "l3fwd: {fib: exact, ranges: [{first: 10.0.0.0, count: 2000000000}, "
        "{first: 20.0.0.0, count: 9}]}",
        ("l3fwd.ranges[1]", "ranges[0]", "each address once"),
    ),
    "range past the end": (
        "l3fwd: {fib: exact, ranges: [{first: 192.0.0.0, count: 2000000000}]}",
        ("l3fwd.ranges[0]", "address 1073741824", "past the last one"),
    ),
    "prefixes without end": (
        "l3fwd: {ipv4_capacity: 2147483648, routes: [{prefix: 10.0.0.0/8}]}",
        ("l3fwd", "2147483648", "16777216"),
    ),
    "more flows than there is memory for": (
        "firewall: {flows: 268435456}",
        ("firewall: tables of flows, this one of 268435456 among them, take ", "the machine has"),
    ),
    "class of nothing": ("qos: {classes: [{}]}", ("qos.classes[0]", "dscp", "rules")),
    "class without rates": (
        "qos: {classes: [{dscp: [0], meter: srtcm}]}",
        ("qos.classes[0]", "srtcm", "cir_bps 0", "must not be 0"),
    ),
    "no collector": ("monitor: {export: socket}", ("monitor.collector", "address")),
    "reads of no table": ("delay: {table_reads: 4}", ("delay.table_reads", "4", "at least 64")),
    "ports from high to low": (
        "firewall: {rules: [{action: permit, dport: 90-80}]}",
        ("firewall.rules[0]", "90"),
    ),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_what_a_function_refuses(case: str, engine_binary: Path, tmp_path: Path) -> None:
    function, words = FUNCTIONS[case]
    spec = GOOD.replace("acl: {default: permit}", function)
    run_bad(spec, ("bad.yaml:3: chain[0].", *words), tmp_path, engine_binary)


def test_a_check_leaves_tables_empty_and_writes_nothing(
    engine_binary: Path, tmp_path: Path
) -> None:
    """2 x 10^9 routes would take minutes and 20 GB, and events belong to runs."""
    chain = """\
chain:
  - l3fwd: {fib: exact, ranges: [{first: 10.0.0.0, count: 2000000000}], ipv6_capacity: 2147483648}
  - dpi: {rules: ['alert tcp any any -> any any (content:"x"; sid:1;)'], eve_file: eve.json}
  - monitor: {export: socket, collector: 127.0.0.1}
"""
    spec = GOOD.replace("chain:\n  - acl: {default: permit}\n", chain)
    (tmp_path / "good.yaml").write_text(spec)
    done = headrace("run", "--check", "good.yaml", folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  writes: {tmp_path}/eve.json\n" in done.stdout
    assert not (tmp_path / "eve.json").exists()


@pytest.mark.parametrize("kind", ["file", "socket"])
def test_a_strangers_bundle_writes_nothing_unasked(
    kind: str, engine_binary: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    function = f"""dpi: {{rules: ['alert tcp any any -> any any (msg:"$(id)"; \
content:"x"; sid:1;)'], eve_{kind}: {victim}}}"""
    with BundleWriter(tmp_path / "bundle") as writer:
        writer.spec(GOOD.replace("acl: {default: permit}", function), {"inputs": {}})
    check = "run", "--check", "--json", "bundle"
    refused = headrace(*check, folder=tmp_path, engine=engine_binary)
    assert refused.returncode == 2
    assert f"chain[0].dpi.eve_{kind}: got '{victim}'; would be written to" in refused.stderr
    shown = headrace(*check, "--trust", folder=tmp_path, engine=engine_binary)
    assert json.loads(shown.stdout)["writes"] == [str(victim)]
    assert not victim.exists()


def test_a_good_spec_is_shown_and_not_run(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    done = headrace("run", "--check", "good.yaml", folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 measurement, about" in done.stdout and "64B 1024 flows" in done.stdout
    again = headrace("run", "--check", "--json", "good.yaml", folder=tmp_path, engine=engine_binary)
    shown = json.loads(again.stdout)
    [point] = shown["experiments"]
    assert set(point["lcores"]) == {"generator", "chain", "sink"}
    assert shown["seconds"] > 0
    assert not (tmp_path / "runs").exists()


def test_no_such_spec(engine_binary: Path, tmp_path: Path) -> None:
    done = headrace("run", "none.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert "none.yaml" in done.stderr and "Traceback" not in done.stderr


def test_malformed_rule_names_its_line(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "r.rules").write_text(
        "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000\n@10.0.0.0/33\n"
    )
    spec = GOOD.replace("{default: permit}", "{rules_file: r.rules}")
    run_bad(spec, ("r.rules:2",), tmp_path, engine_binary)


def test_malformed_route_names_its_line(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("10.0.0.0/8 0\n\n10.0.0.0/77 0\n")
    spec = GOOD.replace("acl: {default: permit}", "l3fwd: {routes_file: r.txt}")
    run_bad(spec, ("r.txt:3",), tmp_path, engine_binary)


@pytest.mark.parametrize("content", [b"", b"no capture", b"\xd4\xc3\xb2\xa1\x02\0\x04\0"])
def test_malformed_pcap(content: bytes, engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "t.pcap").write_bytes(content)
    spec = GOOD.replace("warmup: 0", "workload: {kind: pcap, file: t.pcap}")
    words = ("bad.yaml:5: workload.file", "t.pcap", "allowed: pcap or pcapng, also gzipped")
    run_bad(spec, words, tmp_path, engine_binary)


@pytest.mark.parametrize("size", [9000, 65000])
def test_buffers_are_as_large_as_the_capture(
    size: int, engine_binary: Path, tmp_path: Path
) -> None:
    """65,000 bytes: what a capture on a host with segmentation offload has."""
    packet = Ether() / IP(dst="192.0.2.1") / UDP() / Raw(bytes(size))
    wrpcap(str(tmp_path / "t.pcap"), [packet])
    (tmp_path / "good.yaml").write_text(
        GOOD.replace("warmup: 0", "workload: {kind: pcap, file: t.pcap}")
    )
    done = headrace("run", "--check", "good.yaml", folder=tmp_path, engine=engine_binary)
    assert (done.returncode, done.stderr) == (0, "")


# Where a spec names a file that the engine reads.
READERS = {
    "acl": ("acl: {default: permit}", "acl: {rules_file: data}"),
    "l3fwd": ("acl: {default: permit}", "l3fwd: {routes_file: data}"),
    "dst_ips_file": ("warmup: 0", "workload: {dst_ips_file: data}"),
    "tuples_file": ("warmup: 0", "workload: {tuples_file: data}"),
    "pcap": ("warmup: 0", "workload: {kind: pcap, file: data}"),
}
BINARY = bytes(range(255, 0, -1)) * 4


@pytest.mark.parametrize("reader", READERS)
def test_data_that_is_no_text(reader: str, engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(BINARY)
    old, new = READERS[reader]
    run_bad(GOOD.replace(old, new), ("bad.yaml:", "data"), tmp_path, engine_binary)


@pytest.mark.parametrize("kind", ["device", "pipe", "directory"])
@pytest.mark.parametrize("reader", READERS)
def test_data_without_an_end(reader: str, kind: str, engine_binary: Path, tmp_path: Path) -> None:
    make_endless(tmp_path / "data", kind)
    old, new = READERS[reader]
    words = ("bad.yaml:", "data", "allowed: a file")
    run_bad(GOOD.replace(old, new), words, tmp_path, engine_binary)


def make_endless(at: Path, kind: str) -> None:
    if kind == "device":
        at.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(at)
    else:
        at.mkdir()


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_spec_without_an_end(kind: str, engine_binary: Path, tmp_path: Path) -> None:
    make_endless(tmp_path / "spec.yaml", kind)
    done = headrace("run", "--check", "spec.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "spec.yaml" in done.stderr and "allowed: a YAML file" in done.stderr


def test_spec_of_many_bytes(engine_binary: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(GOOD + "#" * (5 << 20))
    done = headrace("run", "--check", "spec.yaml", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "spec.yaml" in done.stderr and "allowed" in done.stderr


@pytest.mark.skipif(os.cpu_count() is None, reason="the number of CPUs is not known")
def test_more_replicas_than_lcores(engine_binary: Path, tmp_path: Path) -> None:
    count = (os.cpu_count() or 1) + 1
    replicas = f"deployment: {{execution: {{model: rtc, replicas: [{count}]}}}}"
    run_bad(GOOD.replace("warmup: 0", replicas), (str(count),), tmp_path, engine_binary)


def test_what_is_quoted_is_shown_escaped(engine_binary: Path, tmp_path: Path) -> None:
    """A data file has no say in what a terminal does."""
    (tmp_path / "data").write_bytes(b"\xff\x01\x1b[2J no\n")
    spec = GOOD.replace("{default: permit}", "{rules_file: data}")
    run_bad(spec, (r"\xff\x01\x1b[2J",), tmp_path, engine_binary)
