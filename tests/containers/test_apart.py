# SPDX-License-Identifier: Apache-2.0
"""A chain of appliances on two servers, each with an SSH server and a cable to the other, as a user
runs it from a third one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.record.bundle import Bundle
from support.containers import lacking, ours
from support.lab import COMMAND, wait_for
from support.netns import Lan
from support.servers import SSHD, Servers
from support.wires import counted, wire

VNFS = ("nat", "ids", "ip-firewall", "traffic")
_LACKING = lacking(*VNFS)
pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.slow,
    pytest.mark.skipif(not Path(SSHD).exists(), reason=f"no {SSHD}: `make setup`"),
    pytest.mark.skipif(_LACKING is not None, reason=str(_LACKING)),
]
CABLE = {"edge": "hreast", "core": "hrwest"}
# Packets of the proof before the trial, and of the clients' first answer.
_PROOF_MOST = 3000


@pytest.fixture
def two(lan: Lan, engine_binary: Path) -> Iterator[Servers]:
    with Servers(lan, engine_binary, tuple(CABLE), containers=True) as servers:
        yield servers


def cabled(lan: Lan, two: Servers) -> str:
    """The namespace with the wire between the two; IPv6 is on at its ends, as it mostly is."""
    wires = lan.namespace("w")
    ends = {name: two.servers[server].namespace for server, name in CABLE.items()}
    wire(lan, wires, ends)
    for name, namespace in ends.items():
        lan.sysctl(namespace, f"net.ipv6.conf.{name}.disable_ipv6", "0")
    return wires


def study(two: Servers, **more: Any) -> dict[str, Any]:
    on = {"nat": "edge", "ids": "edge", "ip-firewall": "core"}
    return {
        "name": "apart",
        "chain": [{"nf": nf, "server": server} for nf, server in on.items()],
        "servers": {name: one.spec for name, one in two.servers.items()},
        "deployment": {"hosting": {"kind": "appliances", "cables": [CABLE], "servers": 1}},
        "workload": {"kind": "http", "connections": 4},
        "collect": {"layers": ["os"]},
        "warmup": 0,
        "measure": {"trial": 2},
    } | more


def started(two: Servers, folder: Path, spec: dict[str, Any]) -> subprocess.Popen[str]:
    (folder / "spec.yaml").write_text(json.dumps(spec))
    command = [str(COMMAND), "run", "spec.yaml", "--out", "b", "--json"]
    return subprocess.Popen(
        ["ip", "netns", "exec", two.lab, *command], cwd=folder, env=two.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def as_before(lan: Lan, two: Servers) -> bool:
    """Interfaces of the cable are nobody's again."""
    for server, name in CABLE.items():
        inside = two.servers[server].namespace
        link = json.loads(lan.inside(inside, "ip", "-j", "-d", "link", "show", "dev", name))[0]
        filters = lan.inside(inside, "tc", "qdisc", "show", "dev", name)
        ipv6 = lan.inside(inside, "cat", f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
        if "clsact" in filters or link["promiscuity"] or ipv6.strip() != "0":
            return False
    return not any(one.left() for one in two.servers.values())


def test_a_chain_on_two_servers(lan: Lan, two: Servers, tmp_path: Path) -> None:
    """What is served arrives as it was, through all three; nftables counts on the cable what
    arrived at clients and servers, and the proof's packets; nothing is left on either."""
    before, wires = ours(), cabled(lan, two)
    lab = started(two, tmp_path, study(two))
    out, errors = lab.communicate(timeout=300)
    assert lab.returncode == 0, errors
    [result] = json.loads(out)["results"]
    checks = {one["check"]: one for one in result["audit"]["findings"]}
    wanted = {"path", "content", "nat: translated", "ids: alerts", "server1: addresses"}
    assert wanted <= set(checks) and all(checks[name]["ok"] for name in wanted), checks
    assert result["application"]["requests"] > 100 and not result["application"]["errors"]
    bundle = Bundle(tmp_path / "b")
    [trial] = [one for one in bundle.trials() if one.phase != "warmup"]
    crossed = sum(counted(lan, wires, name) for name in CABLE.values())
    assert trial.received > 1000
    assert 0 < crossed - trial.received < _PROOF_MOST, (crossed, trial.received)
    print(f"crossed {crossed}, in the trial {trial.received}")
    resolved = bundle.spec_resolved
    assert resolved is not None
    [graph] = resolved["experiments"]
    assert {name: one["server"] for name, one in graph["nodes"].items()} == {
        "client": "edge", "nat": "edge", "ids": "edge", "ip-firewall": "core", "server1": "core",
    }  # fmt: skip
    assert wait_for(lambda: as_before(lan, two), 30)
    assert ours() <= before


@pytest.mark.parametrize("kind", ["agent", "lab"])
def test_a_kill_leaves_nothing(lan: Lan, two: Servers, tmp_path: Path, kind: str) -> None:
    """In the middle of a load, whose end nobody waits for: the agent of one server or the lab."""
    before, wires = ours(), cabled(lan, two)
    lab = started(two, tmp_path, study(two, measure={"trial": 600}))
    assert wait_for(lambda: counted(lan, wires, "hreast") > _PROOF_MOST or lab.poll(), 200)
    agents = [pid for pid, text in two.servers["core"].processes() if text.endswith("agent ")]
    os.kill(lab.pid if kind == "lab" else max(agents), signal.SIGKILL)
    _, words = lab.communicate(timeout=150)
    assert lab.returncode != 0
    if kind == "agent":
        assert "servers.core" in words.strip().splitlines()[-1], words
    assert wait_for(lambda: as_before(lan, two), 90)
    assert wait_for(lambda: ours() <= before, 60), ours() - before
