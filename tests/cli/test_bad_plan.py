# SPDX-License-Identifier: Apache-2.0
"""Bad plans: the engine says in one line where, what and what is allowed, and ends with 2."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.engine import memory_engine

pytestmark = pytest.mark.parallel

GOOD: dict[str, Any] = {
    "version": 1,
    "engine": memory_engine(),
    "links": {
        "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 4}},
        "wire": {"type": "ring", "params": {"size": 1024}},
        "meas": {"type": "sink", "params": {}},
    },
    "nfs": {"acl": {"type": "acl", "params": {"default": "permit"}}},
    "segments": [
        {"name": "generator", "cpus": [0], "inputs": [{"link": "gen", "to": "link:wire"}]},
        {
            "name": "chain",
            "cpus": [0],
            "inputs": [{"link": "wire", "to": "acl"}],
            "nodes": {"acl": {"forward": {"pass": "link:meas"}}},
        },
    ],
}
ABSENT = object()

# what is wrong: (path, value, words that the message must have)
CASES: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "missing engine": ("links.wire.type", ABSENT, ("links.wire", "type")),
    "unknown key": ("colour", "blue", ("colour",)),
    "unknown engine key": ("engine.hugepage", True, ("engine:", "\"hugepage\"", "hugepages")),
    "wrong version": ("version", 2, ("version", "1")),
    "wrong type": ("engine.memory_mb", "much", ("engine.memory_mb", "string")),
    "out of range": ("engine.mbufs", 1, ("engine.mbufs", "1")),
    "unknown link type": ("links.wire.type", "rope", ("links.wire", "rope", "ring")),
    "unknown link key": ("links.wire.params.length", 9, ("links.wire.params:", "length", "size")),
    "ring size": ("links.wire.params.size", 3, ("links.wire.params.size", "3")),
    "unknown NF type": ("nfs.acl.type", "acl5", ("nfs.acl", "acl5")),
    "unknown NF key": ("nfs.acl.params.rulez", [], ("nfs.acl.params:", "\"rulez\"", "rules_file")),
    "choice": ("nfs.acl.params.default", "perhaps", ("nfs.acl.params.default", "perhaps", "deny")),
    "missing file": ("nfs.acl.params.rules_file", "/no/such", ("rules_file", "/no/such")),
    "burst": ("segments.1.burst", 65, ("burst", "65", "64")),
    "no such link": ("segments.1.inputs.0.link", "wyre", ("segments", "wyre")),
    "no such node": ("segments.1.inputs.0.to", "acl2", ("segments", "acl2")),
    "no such edge": (
        "segments.1.nodes.acl.forward",
        {"pass": "link:meas", "fail": "drop"},
        ("fail", "pass"),
    ),
    "no CPU": ("segments.1.cpus", [], ("cpus",)),
    "CPU that is not there": ("segments.1.cpus", [4000], ("cpus", "4000")),
    "input that only takes": ("segments.1.inputs.0.link", "meas", ("meas",)),
    "node in a loop": ("segments.1.nodes.acl.forward.pass", "acl", ("segments[1]", "cycle")),
}  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    plan = copy.deepcopy(GOOD)
    where: Any = plan
    *parents, last = path.split(".")
    for key in parents:
        where = where[int(key)] if isinstance(where, list) else where[key]
    if value is ABSENT:
        del where[last]
    else:
        where[last] = value
    return plan


def check(engine: Path, text: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    plan = folder / "plan.json"
    plan.write_text(text)
    command = [str(engine), "--check", str(plan), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def assert_one_message(done: subprocess.CompletedProcess[str], words: tuple[str, ...]) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("headrace-engine: ")
    for word in words:
        assert word in line


def test_the_good_plan_is_good(engine_binary: Path, tmp_path: Path) -> None:
    done = check(engine_binary, json.dumps(GOOD), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("case", CASES)
def test_bad_plan(case: str, engine_binary: Path, tmp_path: Path) -> None:
    path, value, words = CASES[case]
    assert_one_message(check(engine_binary, json.dumps(changed(path, value)), tmp_path), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("plan.json",)),
        ('{"version": 1,\n "links": [}', ("plan.json", "2")),
        ("[1, 2]", ("object",)),
        ('{"version": 1, "version": 1}', ("version",)),
        ("\0\1\2", ("plan.json",)),
    ],
)
def test_not_a_plan(text: str, words: tuple[str, ...], engine_binary: Path, tmp_path: Path) -> None:
    assert_one_message(check(engine_binary, text, tmp_path), words)


def test_no_such_plan(engine_binary: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(engine_binary), "--check", str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert_one_message(done, ("none.json", "No such file"))


@pytest.mark.parametrize(
    "device", ["net_nothing0", "net_pcap0,rx_pcap=/no/such.pcap", "0000:99:00.0", ""]
)
def test_port_that_does_not_exist(device: str, engine_binary: Path, tmp_path: Path) -> None:
    plan = changed("links.wire", {"type": "port", "params": {"devargs": device}})
    plan["segments"] = [plan["segments"][1]]
    del plan["links"]["gen"]
    file, control = tmp_path / "plan.json", tmp_path / "control.sock"
    file.write_text(json.dumps(plan))
    done = subprocess.run(
        [str(engine_binary), "--plan", str(file), "--control", str(control)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    *of_dpdk, message = done.stderr.splitlines()
    assert message.startswith("headrace-engine: links.wire.params.devargs: ")
    assert device in message
    assert all("headrace" not in line for line in of_dpdk)
    assert not control.exists()


RULE_FILE = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000\n"


@pytest.mark.parametrize(
    "line",
    [
        "@10.0.0.0/33\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000",
        "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 79\t0x06/0xFF\t0x0000/0x0000",
        "@10.0.0.0/8\t0.0.0.0/0\t0 : 70000\t80 : 80\t0x06/0xFF\t0x0000/0x0000",
        "10.0.0.0/8 any",
    ],
)
def test_malformed_rule_names_its_line(line: str, engine_binary: Path, tmp_path: Path) -> None:
    rules = tmp_path / "bad.rules"
    rules.write_text(RULE_FILE * 2 + line + "\n" + RULE_FILE)
    assert_load_fails(changed("nfs.acl.params.rules_file", str(rules)), f"{rules}:3",
                      engine_binary, tmp_path)  # fmt: skip


def test_files_are_checked_without_devices(engine_binary: Path, tmp_path: Path) -> None:
    rules = tmp_path / "good.rules"
    rules.write_text(RULE_FILE)
    plan = changed("nfs.acl.params.rules_file", str(rules))
    plan["links"]["wire"] = {"type": "port", "params": {"devargs": "net_nothing0"}}
    plan["segments"] = plan["segments"][1:]
    del plan["links"]["gen"]
    done = check(engine_binary, json.dumps(plan), tmp_path, "--files")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("line", ["10.0.0.0/40 0", "10.0.0.0/8 99", "tenslash8 0", "10.0.0.0/8 x"])
def test_malformed_route_names_its_line(line: str, engine_binary: Path, tmp_path: Path) -> None:
    routes = tmp_path / "bad.routes"
    routes.write_text(f"192.0.2.0/24 0\n{line}\n")
    plan = changed("nfs.acl", {"type": "l3fwd", "params": {"routes_file": str(routes)}})
    plan["segments"][1]["nodes"]["acl"] = {"forward": {"out0": "link:meas"}}
    assert_load_fails(plan, f"{routes}:2", engine_binary, tmp_path)


def assert_load_fails(plan: dict[str, Any], place: str, engine: Path, folder: Path) -> None:
    """Files are read when the engine starts, before anything runs; or when that is asked for."""
    file, control = folder / "plan.json", folder / "control.sock"
    done = check(engine, json.dumps(plan), folder, "--files")
    assert_one_message(done, (place,))
    file.write_text(json.dumps(plan))
    done = subprocess.run(
        [str(engine), "--plan", str(file), "--control", str(control)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert_one_message(done, (place,))
    assert not control.exists()
