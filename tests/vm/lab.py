# SPDX-License-Identifier: Apache-2.0
"""Studies with `servers` on the three servers of tests/vm/lab.sh: a generator and a device under
test over physical ports, and a chain on two servers. What each hop carried is held against who
knows nothing of headrace: nftables and the interfaces' counters, in the guests' kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks import Checks, headrace, until

from headrace.record.bundle import Bundle
from headrace.record.rows import Trial

SERVERS = ("gen", "dut1", "dut2")
HEADRACE = Path(sys.executable).parent / "headrace"
PPS, SECONDS, PROVED = 50, 4, 1  # packets/s each way, and those that prove the path before
TO_VFIO = "echo vfio-pci >$d/driver_override"
TO_KERNEL = "echo >$d/driver_override"
REBIND = """\
set -e
d=/sys/bus/pci/devices/{address}
{override}
[ ! -e $d/driver ] || echo {address} >$d/driver/unbind
echo {address} >/sys/bus/pci/drivers_probe
"""
NAMED = """\
n=
for i in $(seq 100); do [ -e $d/net ] && n=$(ls $d/net) && [ -n "$n" ] && break; sleep 0.2; done
ip link set dev $n down
[ $n = {name} ] || ip link set dev $n name {name}
"""
COUNTED = """\
nft 'table netdev {name} {{ chain c {{ type filter hook ingress device {name} priority 0;
ether type ip counter; }}; }}'
"""


@dataclass(frozen=True)
class Nic:
    """The end of a wire. `by`: who has it: DPDK's driver (vfio), or the kernel's and `af_packet` or
    `af_xdp`."""

    server: str
    number: int
    by: str

    @property
    def name(self) -> str:
        return f"nic{self.number}"

    @property
    def address(self) -> str:
        return f"0000:0{self.number + 1}:00.0"

    @property
    def kernels(self) -> bool:
        return self.by != "vfio"

    @property
    def port(self) -> dict[str, str]:
        device = f"{self.by}:{self.name}" if self.kernels else self.address
        return {"device": device, "server": self.server}


def there(server: str, script: str) -> str:
    config = Path(os.environ["HOME"]) / ".ssh"
    known = f"UserKnownHostsFile={config}/known_hosts"
    command = ["ssh", "-F", str(config / "config"), "-o", known, server, script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        sys.exit(f"{server}: {script.splitlines()[0]}...: {done.returncode}: {done.stderr}")
    return done.stdout


def given(nics: Sequence[Nic]) -> None:
    """Each NIC to the driver that it is to have; nftables counts where that is the kernel's."""
    for server in dict.fromkeys(one.server for one in nics):
        script = "nft flush ruleset\n"
        for one in (nic for nic in nics if nic.server == server):
            override = TO_KERNEL if one.kernels else TO_VFIO
            script += REBIND.format(address=one.address, override=override)
            if one.kernels:
                script += NAMED.format(name=one.name) + COUNTED.format(name=one.name)
        there(server, script)


def counts(nics: Sequence[Nic]) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Packets of each NIC that the kernel has: in by nftables, in and out by the interface."""
    packets = {}
    for server in dict.fromkeys(one.server for one in nics if one.kernels):
        rules, links = there(server, "nft -j list ruleset; ip -j -s link").splitlines()
        seen = {
            rule["rule"]["table"]: entry["counter"]["packets"]
            for rule in json.loads(rules)["nftables"]
            if "rule" in rule
            for entry in rule["rule"]["expr"]
            if "counter" in entry
        }
        for link in json.loads(links):
            if (name := link["ifname"]) in seen:
                stats = link["stats64"]
                into, out = stats["rx"]["packets"], stats["tx"]["packets"]
                packets[server, name] = (seen[name], into, out)
    return packets


def study(name: str, ports: dict[str, Nic], chain: Sequence[Any]) -> dict[str, Any]:
    return {
        "name": name,
        "chain": list(chain),
        "servers": {
            one: {"ssh": one, "headrace": [str(HEADRACE)]}
            for one in dict.fromkeys(nic.server for nic in ports.values())
        },
        "testbed": {
            "ports": {port: nic.port for port, nic in ports.items()},
            "tester": ["left", "right"],
            "chain": [port for port in ports if port not in ("left", "right")],
        },
        "deployment": {"hugepages": False, "memory_mb": 128, "lcores": {"traffic": [1]}},
        "workload": {"direction": "both", "frame": 128, "flows": 16},
        "warmup": 0,
        "measure": {"loads": [PPS], "trial": SECONDS, "drain": 3.0},
    }


def ways(bundle: Path) -> dict[str, Trial]:
    return {one.direction: one for one in Bundle(bundle).trials() if one.phase == "fixed"}


def carried(checks: Checks, name: str, ports: dict[str, Nic], chain: Sequence[Any]) -> None:
    """Both ways: what was sent came back, and each hop saw as much of it."""
    nics = list(ports.values())
    given(nics)
    before = counts(nics)
    file = Path(f"{name}.yaml")
    file.write_text(json.dumps(study(name, ports, chain)))
    done = headrace("run", str(file), "--out", f"{name}-bundle")
    checks.equal(f"{name}: the run's exit status", done.returncode, 0)
    if done.returncode:
        return
    after, trials = counts(nics), ways(Path(f"{name}-bundle"))
    sent = {way: trials[way].sent for way in ("forward", "reverse")}
    for way, one in sent.items():
        checks.that(f"{name}, {way}: packets were sent", one >= PPS * SECONDS // 2, one)
        trial = trials[way]
        checks.equal(
            f"{name}, {way}: received, lost, doubled, dropped",
            (trial.received, trial.lost, trial.duplicated, trial.drops), (one, 0, 0, {}),
        )  # fmt: skip
    hops(checks, name, ports, sent, before, after)
    ports_say(checks, name, ports, trials["both"], sent)
    nobody_left(checks, name, nics)


def comes_in(port: str, order: Sequence[str]) -> str:
    """The direction whose packets a port receives: of the tester's, those that come back; of the
    chain's, forward ones by each server's first."""
    if port in ("left", "right"):
        return "forward" if port == "right" else "reverse"
    return "forward" if order.index(port) % 2 == 0 else "reverse"


def hops(
    checks: Checks,
    name: str,
    ports: dict[str, Nic],
    sent: dict[str, int],
    before: dict[tuple[str, str], tuple[int, int, int]],
    after: dict[tuple[str, str], tuple[int, int, int]],
) -> None:
    """By the kernel of each server that has a port: nftables, what the interface took and gave."""
    order = [port for port in ports if port not in ("left", "right")]
    for port, nic in ports.items():
        if not nic.kernels:
            continue
        key = nic.server, nic.name
        grown = tuple(b - a for a, b in zip(before[key], after[key], strict=True))
        into = comes_in(port, order)
        out = "reverse" if into == "forward" else "forward"
        expected = (sent[into] + PROVED, sent[into] + PROVED, sent[out] + PROVED)
        checks.equal(f"{name}, {port}: nftables, in, out by the kernel of {key}", grown, expected)


def ports_say(
    checks: Checks, name: str, ports: dict[str, Nic], both: Trial, sent: dict[str, int]
) -> None:
    """The engines' own counts of the same."""
    assert both.counters is not None
    order = [port for port in ports if port not in ("left", "right")]
    for port in ports:
        seen, into = both.counters.ports[port], comes_in(port, order)
        out = "reverse" if into == "forward" else "forward"
        checks.equal(
            f"{name}, {port}: in and out by its engine",
            (seen.rx_packets, seen.tx_packets), (sent[into], sent[out]),
        )  # fmt: skip


def nobody_left(checks: Checks, name: str, nics: Sequence[Nic]) -> None:
    """On no server a process of headrace's, nor anything written down."""
    script = "pgrep -c 'headrace' ; find /run/headrace -name 'run-*' | wc -l"

    def left() -> list[str]:
        return [
            f"{server}: {text}"
            for server in dict.fromkeys(one.server for one in nics)
            if (text := there(server, script).split()) != ["0", "0"]
        ]

    until("servers without headrace", lambda: not left())
    checks.equal(f"{name}: left behind", left(), [])


def pvp(checks: Checks, name: str, generator: str, dut: str) -> None:
    """gen makes and measures, dut1 forwards."""
    ports = {
        "left": Nic("gen", 0, generator),
        "right": Nic("gen", 2, generator),
        "in": Nic("dut1", 0, dut),
        "out": Nic("dut1", 2, dut),
    }
    carried(checks, name, ports, ["l2fwd"])


def chained(checks: Checks, name: str) -> None:
    """gen, dut1, dut2, and back to gen."""
    ports = {
        "left": Nic("gen", 0, "vfio"),
        "right": Nic("gen", 1, "vfio"),
        "in": Nic("dut1", 0, "af_packet"),
        "east": Nic("dut1", 1, "af_packet"),
        "west": Nic("dut2", 0, "af_packet"),
        "out": Nic("dut2", 1, "af_packet"),
    }
    chain = [
        {"nf": "l2fwd", "server": "dut1"},
        {"name": "again", "nf": "l2fwd", "server": "dut2"},
    ]
    carried(checks, name, ports, chain)


PARTS: dict[str, Callable[[Checks, str], None]] = {
    "pvp-generator-by-pci": lambda checks, name: pvp(checks, name, "vfio", "af_packet"),
    "pvp-chain-by-pci": lambda checks, name: pvp(checks, name, "af_packet", "vfio"),
    "chain": chained,
}


def main(*parts: str) -> int:
    checks = Checks()
    for unknown in set(parts) - PARTS.keys():
        sys.exit(f"no part '{unknown}'; allowed: {', '.join(PARTS)}")
    for name in parts or PARTS:
        PARTS[name](checks, name)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
