# SPDX-License-Identifier: Apache-2.0
"""A first spec runs as it is; one of a capture has the mix and flows that scapy counts in it."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.ppp import PPPoE
from scapy.packet import Packet, Raw
from scapy.utils import PcapNgWriter, rdpcap, wrpcap
from typer.testing import CliRunner

from headrace.cli import build
from headrace.cli._testdata import valid
from headrace.errors import BadInput
from headrace.spec import document
from headrace.spec.imix import Frame
from headrace.spec.study import expand

pytestmark = pytest.mark.parallel

REPO = Path(__file__).resolve().parents[2]


def headrace(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """In this process, which a start of Python for each of them would take minutes for."""
    texts = [str(one) for one in arguments]
    done = CliRunner().invoke(
        build(texts[:1] if texts[0] != "schema" else ["schema", "init"]), texts
    )
    bad = done.exception if isinstance(done.exception, BadInput) else None
    if bad is None and done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    status = 2 if bad else done.exit_code
    return subprocess.CompletedProcess(texts, status, done.stdout, str(bad or ""))


def example() -> list[Packet]:
    """Five flows of IPv4 with 90 packets, ten of ARP."""
    ends = [
        IP(src="10.0.0.1", dst="10.0.1.1") / TCP(sport=1000, dport=80) / Raw(b"x" * 1446),
        IP(src="10.0.1.1", dst="10.0.0.1") / TCP(sport=80, dport=1000),
        IP(src="10.0.0.2", dst="10.0.1.1") / UDP(sport=53, dport=53) / Raw(b"x" * 200),
        IP(src="10.0.0.2", dst="10.0.1.1") / ICMP(),
    ]
    packets = [Ether() / end for end in ends for _ in range(20)]
    tagged = Ether() / Dot1Q(vlan=7) / IP(src="10.0.0.3", dst="10.0.1.1") / UDP(sport=9, dport=9)
    return packets + [tagged] * 10 + [Ether() / ARP()] * 10


def flows_of(packets: list[Packet]) -> set[tuple[str, str, int, int, int]]:
    flows = set()
    for packet in packets:
        if IP in packet and not packet[IP].frag:
            ip = packet[IP]
            l4 = ip[TCP] if ip.proto == 6 else ip[UDP] if ip.proto == 17 else None
            ports = (l4.sport, l4.dport) if l4 is not None else (0, 0)
            flows.add((ip.src, ip.dst, *ports, ip.proto))
    return flows


def address(number: str) -> str:
    return ".".join(map(str, int(number).to_bytes(4)))


def check(spec: Path) -> list[str]:
    """The notes of one that is right, schema and all."""
    schema = json.loads((spec.parent / "headrace.schema.json").read_text())
    Draft202012Validator(schema).validate(yaml.safe_load(spec.read_text()))
    assert spec.read_text().startswith("# yaml-language-server: $schema=headrace.schema.json\n")
    done = headrace("run", "--check", "--json", spec)
    assert done.returncode == 0, done.stderr
    return [note for one in json.loads(done.stdout)["experiments"] for note in one["notes"]]


def holds_the_traffic(spec: Path, packets: list[Packet]) -> None:
    """Mix and flows as scapy has them."""
    one = next(expand(document.load(spec)))
    lengths = [max(len(packet) + 4, 64) for packet in packets]
    assert one.frame.mean_bytes == pytest.approx(sum(lengths) / len(lengths), rel=0.01)
    shares = {size: one.frame.sizes.count(size) / len(one.frame.sizes) for size in one.frame.sizes}
    for size in {s for s in lengths if lengths.count(s) > len(lengths) / 10}:
        assert shares.get(size, 0) == pytest.approx(lengths.count(size) / len(lengths), abs=0.04)
    lines = [line.split() for line in spec.with_suffix(".tuples").read_text().splitlines()]
    filters = [(address(a), address(b), int(c), int(d), int(e)) for a, b, c, d, e in lines]
    assert len(filters) == len(set(filters))
    assert set(filters) == flows_of(packets)


def test_a_first_spec_runs(tmp_path: Path, engine_binary: Path) -> None:
    done = headrace("init", tmp_path / "mine.yaml")
    assert done.returncode == 0, done.stderr
    assert not any("packets of the workload" in note for note in check(tmp_path / "mine.yaml"))
    told = valid("init", headrace("init", tmp_path / "told.yaml", "--json").stdout)
    assert told["files"] == [str(tmp_path / n) for n in ("told.yaml", "headrace.schema.json")]
    again = headrace("init", tmp_path / "mine.yaml")
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_names_with_spaces_quotes_and_accents(tmp_path: Path, engine_binary: Path) -> None:
    """What is printed goes into a shell as it is, and the spec is YAML."""
    capture = tmp_path / 'été: "one" #1.pcap'
    wrpcap(str(capture), example())
    spec = tmp_path / "mesuré d'hier $HOME.yaml"
    done = headrace("init", spec, "--pcap", capture)
    assert done.returncode == 0, done.stderr
    data = yaml.safe_load(spec.read_text())
    assert (data["name"], data["workload"]["tuples_file"]) == (
        "mesur--d-hier--HOME", "mesuré d'hier $HOME.tuples",
    )  # fmt: skip
    assert capture.name in data["description"]
    replay = spec.read_text().split("{kind: pcap, file: ")[1].split("}\n")[0]
    assert yaml.safe_load(replay) == capture.name
    last = done.stdout.splitlines()[-1]
    first, then = last.removeprefix("Next: ").split(", then ")
    assert [shlex.split(one)[-1] for one in (first, then)] == [str(spec)] * 2
    refused = headrace("init", tmp_path / "über.yaml")
    assert (refused.returncode, "a letter, A to Z" in refused.stderr) == (2, True)


@pytest.mark.parametrize("kind", ["pcap", "pcapng", "pcap.gz"])
def test_a_captures_mix_and_flows(kind: str, tmp_path: Path, engine_binary: Path) -> None:
    file, packets = tmp_path / f"c.{kind}", example()
    if kind == "pcapng":
        with PcapNgWriter(str(file)) as writer:
            writer.write(packets)
    else:
        wrpcap(str(tmp_path / "c.pcap"), packets)
        if kind == "pcap.gz":
            file.write_bytes(gzip.compress((tmp_path / "c.pcap").read_bytes()))
    done = headrace("init", tmp_path / "c.yaml", "--pcap", file)
    assert done.returncode == 0, done.stderr
    holds_the_traffic(tmp_path / "c.yaml", packets)
    assert not any("packets of the workload" in note for note in check(tmp_path / "c.yaml"))


def test_real_captures(shared_data: Path, tmp_path: Path, engine_binary: Path) -> None:
    captures = sorted((shared_data / "traffic").glob("*.pcap"))
    assert captures
    for number, file in enumerate(captures):
        spec = tmp_path / f"c{number}.yaml"
        done = headrace("init", spec, "--pcap", file)
        assert done.returncode == 0, (file.name, done.stderr)
        packets = list(rdpcap(str(file)))
        if any(IP in packet and PPPoE not in packet for packet in packets):
            holds_the_traffic(spec, packets)
        else:
            assert any(IPv6 in packet or PPPoE in packet for packet in packets)
        if number < 3:  # each is a start of the engine
            assert not any("packets of the workload" in note for note in check(spec))


@pytest.mark.parametrize(
    ("text", "problem"), [(b"no capture", "not a capture"), (b"", "not a capture")]
)
def test_what_is_no_capture(text: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "c.pcap").write_bytes(text)
    done = headrace("init", tmp_path / "c.yaml", "--pcap", tmp_path / "c.pcap")
    assert done.returncode == 2
    assert problem in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "c.yaml").exists()


def test_every_study_holds_to_the_schema(engine_binary: Path) -> None:
    """A study that the lab takes is never underlined in an editor; a typing error is."""
    schema = Draft202012Validator(json.loads(headrace("schema").stdout))
    files = [one for one in (REPO / "studies").rglob("*.yaml") if one.parent.name != "data"]
    studies = [yaml.safe_load(file.read_text()) for file in files]
    studies = [one for one in studies if isinstance(one, dict) and "name" in one]
    assert len(studies) > 10
    for one in studies:
        schema.validate(one)
    base = {"name": "x", "chain": [{"acl": {"default": "deny"}}]}
    for wrong in (
        {"chain": [{"acl": {"defaults": "deny"}}]},
        {"chain": [{"acl": {"default": "perhaps"}}]},
        {"chain": ["acll"]},
        {"measure": {"searches": "ndr"}},
        {"warmup": "1 week"},
        {"warmup": -1},
        {"measure": {"loads": [10_000_000_000]}},
        {"workload": {"frame": "huge"}},
        {"deployment": {"execution": "rtp"}},
    ):
        assert not schema.is_valid(base | wrong), wrong
    assert schema.is_valid(base)


def test_the_schema_says_what_keys_mean(engine_binary: Path) -> None:
    schema = json.loads(headrace("schema").stdout)
    models = schema["$defs"]
    for name in ("Deployment", "Packets", "Flows", "Measure", "GoalParameters"):
        keys = models[name].get("properties") or models[name]["anyOf"][-1]["properties"]
        lacking = [k for k, v in keys.items() if "description" not in v and k != "kind"]
        assert lacking == [], name
    rules = models["Node"]["anyOf"][1]["properties"]["acl"]["properties"]["default"]
    assert rules["description"]  # the engine's own words


def test_a_mix_is_spread_evenly() -> None:
    frame = Frame.model_validate({"mix": {64: 2, 1518: 1}})
    assert (sorted(frame.sizes), frame.name) == ([64, 64, 1518], "imix-64x2-1518x1")
    for wrong in ({}, {64: 0}, {"a": 1}, {64: 65, 65: 64}):
        with pytest.raises((ValueError, BadInput), match="mix"):
            Frame.model_validate({"mix": wrong})
