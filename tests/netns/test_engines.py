# SPDX-License-Identifier: Apache-2.0
"""One chain on several engines between the same ports: proved to do the same, measured in turn."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.ground.engines.translation import BALANCED, CHOSEN
from headrace.host.programs import BUILT
from headrace.record.bundle import Bundle
from headrace.record.equivalence import equivalences
from support.engines import ROUTER, TRANSLATED, run, spec_of, whole
from support.lab import runtime_dir
from support.netns import Lan

pytestmark = [
    pytest.mark.beside,
    pytest.mark.needs_root,
    pytest.mark.skipif(shutil.which("nft") is None, reason="nftables is not installed"),
]

needs_xdp = pytest.mark.skipif(
    not (BUILT / "trace" / "headrace-xdp").exists(), reason="no headrace-xdp: `make setup`"
)

L2FWD = """
  - l2fwd: {dst_mac: "02:00:00:00:00:0a", src_mac: "02:00:00:00:00:0b",
            reverse_dst_mac: "02:00:00:00:00:0c", reverse_src_mac: "02:00:00:00:00:0d"}
"""


@pytest.mark.skipif(shutil.which("dpdk-testpmd") is None, reason="no dpdk-testpmd: `make setup`")
def test_testpmd(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """Over memif and virtio-user, other addresses each way: the same packets out, and its console
    counted as many as the tester sent."""
    folder = runtime_dir(tmp_path)
    devices = {
        "left": f"memif:{folder}/l", "in": f"memif:{folder}/l",
        "right": f"vhost:{folder}/r", "out": f"virtio_user:{folder}/r",
    }  # fmt: skip
    spec = spec_of(L2FWD, "af_packet", "both", "testpmd")
    for name, device in devices.items():
        spec = spec.replace(f"af_packet:hr{name}", device)
    run(lan, tmp_path, engine_binary, spec)
    [verdict] = equivalences(tmp_path / "b")
    assert (verdict.verdict, verdict.engine) == ("the same", "testpmd")
    assert verdict.came == verdict.came_engine == verdict.own + verdict.probes
    trials = Bundle(tmp_path / "b").trials()
    [trial] = [one for one in trials
               if (one.execution, one.direction) == ("testpmd", "both")]  # fmt: skip
    assert trial.counters is not None
    counted = {name: n for name, n in trial.counters.dut.items() if name != "cycles"}
    assert whole(trial, 1200)
    there, back = (one.sent for way in ("forward", "reverse") for one in trials
                   if (one.execution, one.direction) == ("testpmd", way))  # fmt: skip
    assert counted == {
        "in/rx": there, "in/tx": back, "in/tx-dropped": 0,
        "out/rx": back, "out/tx": there, "out/tx-dropped": 0,
    }  # fmt: skip
    assert trial.counters.dut["cycles"] > 0


DENIED = """
  - acl: {rules: [{action: deny, sport: [1536, 2047]}], default: permit, reverse: swap}
  - l2fwd
"""


@needs_xdp
@pytest.mark.parametrize(
    ("kind", "chain", "direction", "engines"),
    [
        ("af_packet", DENIED, "both", ["nftables"]),
        ("af_xdp", ROUTER, "forward", ["nftables", "xdp"]),
    ],
)
def test_the_kernel(
    lan: Lan,
    engine_binary: Path,
    tmp_path: Path,
    kind: str,
    chain: str,
    direction: str,
    engines: list[str],
) -> None:
    """Its rules, and XDP programs in its drivers: the same packets out; as many counted in as the
    tester sent, and as many dropped by policy as headrace dropped."""
    run(lan, tmp_path, engine_binary, spec_of(chain, kind, direction, ", ".join(engines)))
    verdicts = equivalences(tmp_path / "b")
    assert [(one.verdict, one.engine) for one in verdicts] == [
        ("the same", engine) for engine in engines
    ]
    assert {one.came_engine for one in verdicts} == {verdicts[0].came}
    assert 0 < verdicts[0].came <= verdicts[0].own + verdicts[0].probes
    trials = [one for one in Bundle(tmp_path / "b").trials() if one.direction == "forward"]
    assert [one.execution for one in trials] == ["rtc", *engines]
    assert all(whole(one, 600) for one in trials)
    for one in trials[1:]:
        assert one.counters is not None
        assert one.counters.dut["forward/in"] == one.sent
        differ = abs(one.policy_dropped - trials[0].policy_dropped)
        assert differ <= abs(one.sent - trials[0].sent)
    assert (0 < trials[0].policy_dropped < 600) == (chain == DENIED)


@needs_xdp
def test_translation(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """Chosen ports and backends may differ, and nothing else; answers to each engine's own come
    back the same."""
    run(lan, tmp_path, engine_binary, spec_of(TRANSLATED, "af_packet", "both", "xdp"))
    [verdict] = equivalences(tmp_path / "b")
    assert verdict.verdict == "the same", verdict
    assert verdict.came == verdict.came_engine > verdict.own
    assert verdict.answers > 20
    assert all(text in verdict.declared[0] for text in (CHOSEN, BALANCED))
    trials = [one for one in Bundle(tmp_path / "b").trials() if one.direction == "both"]
    assert len(trials) == 2 and all(whole(one, 1200) for one in trials)
    counters = trials[1].counters
    assert counters is not None
    assert counters.dut["forward/in"] + counters.dut["reverse/in"] == trials[1].sent
    assert counters.dut["forward/nat/new-sessions"] > 0


FAULT = """
from headrace.ground.engines import xdp
whole = xdp.acl_rules
xdp.acl_rules = lambda params, doc: whole(params, doc)[:-1]
"""


@needs_xdp
def test_a_rule_that_is_missing_is_found(lan: Lan, engine_binary: Path, tmp_path: Path) -> None:
    """The engine that has it not has no figures, but a diff."""
    run(lan, tmp_path, engine_binary, spec_of(ROUTER, "af_packet", "forward", "xdp"), FAULT)
    [verdict] = equivalences(tmp_path / "b")
    assert (verdict.engine, verdict.surplus, verdict.missing > 0) == ("xdp", 0, True)
    assert " > 10." in verdict.first_missing[0].words
    assert {one.execution for one in Bundle(tmp_path / "b").trials()} == {"rtc"}
    assert verdict.first_missing[0].words in (tmp_path / "b/report.html").read_text().replace(
        "&gt;", ">"
    )
