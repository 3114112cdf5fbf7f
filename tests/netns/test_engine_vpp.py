# SPDX-License-Identifier: Apache-2.0
"""A chain on VPP: proved to do the same as headrace's, measured, undone. It runs where HEADRACE_VPP
names a program, or one is on PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.ground.engines.translation import BALANCED, CHOSEN
from headrace.ground.engines.vpp import no_vpp
from headrace.record.bundle import Bundle
from headrace.record.equivalence import equivalences
from support.engines import ROUTER, run, spec_of, whole
from support.lab import headrace, runtime_dir
from support.netns import Lan

pytestmark = [
    pytest.mark.beside,
    pytest.mark.needs_root,
    pytest.mark.skipif(no_vpp({}) is not None, reason=str(no_vpp({}))),
]

DENIED = """
  - acl: {rules: [{action: deny, sport: [1536, 2046]}], default: permit, reverse: swap}
  - l2fwd: {reverse_dst_mac: "02:00:00:00:00:07"}
"""
SWAPPED = ROUTER.replace("  - l3fwd:", "      reverse: swap\n  - l3fwd:")
SWITCHED = """
  - acl: {rules: [{action: permit, proto: udp, dport: [53]}], default: permit, reverse: permit}
  - l2fwd
"""
TRANSLATED = """
  - acl: {rules: [{action: deny, proto: udp, dport: [7]}], default: permit, reverse: permit}
  - nat:
      pool: [203.0.113.1, 203.0.113.2]
      inside: [198.18.0.0/16, 10.0.0.0/8]
      udp_timeout_s: 60
      static: [{protocol: udp, inside: 198.18.0.7, inside_port: 53,
                outside: 203.0.113.1, outside_port: 53}]
  - l3fwd: {routes: [{prefix: 0.0.0.0/0}]}
"""
BALANCED_CHAIN = """
  - acl: {rules: [{action: deny, proto: udp, sport: [7]}], default: permit}
  - lb:
      vips:
        - {address: 198.18.0.1, port: 53, protocol: udp, backends: [
             {address: 10.1.0.1, count: 5}, {address: 10.1.1.1, weight: 2}]}
  - l3fwd: {routes: [{prefix: 0.0.0.0/0}, {prefix: 10.0.0.0/8, next_hop: 1}],
            next_hops: [{}, {dst_mac: "02:00:00:00:00:0a"}]}
"""


def spec(folder: Path, chain: str, direction: str, options: str = "") -> str:
    """The tester listens at sockets of this folder."""
    text = spec_of(chain, "memif", direction, "vpp")
    for name, wire in (("left", "l"), ("in", "l"), ("right", "r"), ("out", "r")):
        text = text.replace(f"memif:hr{name}", f"memif:{folder}/{wire}")
    return text.replace("engine:", f"{options}engine:")


@pytest.mark.parametrize(
    ("chain", "direction", "options"),
    [
        (ROUTER, "forward", ""),
        (SWAPPED, "both", ""),
        (DENIED, "both", ""),
        (SWITCHED, "both", "vpp: {reflect: true}, "),
    ],
)
def test_rules_and_routes(
    lan: Lan, engine_binary: Path, tmp_path: Path, chain: str, direction: str,
    options: str,
) -> None:  # fmt: skip
    """The same packets out; as many counted in as the tester sent, as many dropped by policy as
    headrace dropped."""
    run(lan, tmp_path, engine_binary, spec(runtime_dir(tmp_path), chain, direction, options))
    [verdict] = equivalences(tmp_path / "b")
    assert (verdict.verdict, verdict.engine) == ("the same", "vpp"), verdict
    assert verdict.own <= verdict.came <= verdict.own + verdict.probes
    trials = [one for one in Bundle(tmp_path / "b").trials() if one.direction == "forward"]
    assert [(one.execution, one.sent, one.lost) for one in trials] == [
        ("rtc", 600, 0), ("vpp", 600, 0),
    ]  # fmt: skip
    assert trials[1].policy_dropped == trials[0].policy_dropped
    assert trials[1].counters is not None
    dut = trials[1].counters.dut
    assert dut["in/rx"] == 600
    ways = 2 if direction == "both" else 1
    assert dut["in/rx"] + dut["out/rx"] == 600 * ways
    assert dut["ethernet-input/vectors"] == 600 * ways
    assert dut["cycles"] > 0
    if options:
        assert dut["acl-plugin-in-ip4-l2/existing session packets"] > 0


@pytest.mark.parametrize(("chain", "text"), [(TRANSLATED, CHOSEN), (BALANCED_CHAIN, BALANCED)])
def test_translation(
    lan: Lan, engine_binary: Path, tmp_path: Path, chain: str, text: str
) -> None:  # fmt: skip
    """Chosen ports and backends may differ, and nothing else."""
    run(lan, tmp_path, engine_binary, spec(runtime_dir(tmp_path), chain, "forward"))
    [verdict] = equivalences(tmp_path / "b")
    assert verdict.verdict == "the same", verdict
    assert verdict.came > verdict.own
    assert any(text in one for one in verdict.declared)
    trials = Bundle(tmp_path / "b").trials()
    assert [(one.sent, one.lost) for one in trials] == [(600, 0), (600, 0)]


def test_packet_sockets(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """VPP and the kernel at interfaces of the kernel's: whole frames, as headrace's."""
    run(lan, tmp_path, engine_binary, spec_of(ROUTER, "af_packet", "forward", "vpp, nftables"))
    verdicts = {one.engine: one.verdict for one in equivalences(tmp_path / "b")}
    assert verdicts == dict.fromkeys(("vpp", "nftables"), "the same")
    trials = {one.execution: one for one in Bundle(tmp_path / "b").trials()}
    assert all(whole(one, 600) for one in trials.values())
    counters = trials["vpp"].counters
    assert counters is not None
    assert counters.dut["in/rx"] == trials["vpp"].sent
    assert counters.dut["af-packet-input/vectors"] == counters.dut["ethernet-input/vectors"] > 500


FAULT = """
from headrace.ground.engines import vpp_lines
whole = vpp_lines.acl_rules
vpp_lines.acl_rules = lambda params, doc: whole(params, doc)[:-1]
"""


def test_a_rule_that_is_missing_is_found(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """The engine that has it not has no figures, but a diff."""
    text = spec(runtime_dir(tmp_path), ROUTER, "forward")
    run(lan, tmp_path, engine_binary, text, FAULT)
    [verdict] = equivalences(tmp_path / "b")
    assert (verdict.engine, verdict.surplus, verdict.missing > 0) == ("vpp", 0, True)
    assert {one.execution for one in Bundle(tmp_path / "b").trials()} == {"rtc"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("plugin default", "its plugin acl_plugin.so is not there"),
        ("cpu {", "vpp"),
    ],
)
def test_what_it_lacks_is_one_line(
    lan: Lan, engine_binary: Path, tmp_path: Path, text: str, why: str
) -> None:
    """A VPP of another build, or one that does not start."""
    wrapper = tmp_path / "vpp"
    given = Path(os.environ["HEADRACE_VPP"])
    change = (
        "s/plugin acl_plugin.so { enable }//" if text == "plugin default" else "s/cpu {/cpus {/"
    )
    wrapper.write_text(f'#!/bin/sh\nsed -i \'{change}\' "$2"\nexec {given} "$@"\n')
    wrapper.chmod(0o755)
    (tmp_path / "vppctl").symlink_to(given.parent / "vppctl")
    folder = runtime_dir(tmp_path)
    (tmp_path / "spec.yaml").write_text(
        spec(folder, ROUTER, "forward", f"vpp: {{path: {wrapper}}}, ")
    )
    done = headrace(
        "run", "spec.yaml", "--out", "b", folder=tmp_path, engine=engine_binary, timeout=300
    )
    assert done.returncode == 1, done.stdout
    assert why in done.stderr
    assert "Traceback" not in done.stderr
