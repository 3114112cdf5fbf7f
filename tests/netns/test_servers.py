# SPDX-License-Identifier: Apache-2.0
"""A study over two servers, each with an SSH server, as a user runs it from a third one."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.collect.samples import Samples
from headrace.host.programs import BUILT
from headrace.record.bundle import Bundle
from headrace.record.rows import Trial
from support.engines import whole
from support.lab import COMMAND, headrace, wait_for
from support.netns import Lan, ip
from support.servers import SSHD, Servers
from support.wires import counted, wire

pytestmark = [
    pytest.mark.beside,
    pytest.mark.needs_root,
    pytest.mark.skipif(not Path(SSHD).exists(), reason=f"no {SSHD}: `make setup`"),
]

ENDS = {"left": "gen", "right": "gen", "in": "dut", "out": "dut"}


@pytest.fixture
def two(lan: Lan, engine_binary: Path) -> Iterator[Servers]:
    with Servers(lan, engine_binary, ("gen", "dut")) as servers:
        yield servers


def cabled(lan: Lan, two: Servers) -> str:
    """The namespace with the wires between the two."""
    wires = lan.namespace("w")
    at = {name: two.servers[server].namespace for name, server in ENDS.items()}
    wire(lan, wires, {"hrleft": at["left"], "hrin": at["in"]})
    wire(lan, wires, {"hrright": at["right"], "hrout": at["out"]})
    return wires


def study(two: Servers, cpus: list[int], **more: Any) -> dict[str, Any]:
    ports = {n: {"device": f"af_xdp:hr{n}", "server": s} for n, s in ENDS.items()}
    return {
        "name": "two-servers",
        "chain": [{"acl": {"rules_file": "my.rules", "default": "deny"}}, "l2fwd"],
        "servers": {name: one.spec for name, one in two.servers.items()},
        "testbed": {"ports": ports, "tester": ["left", "right"], "chain": ["in", "out"]},
        "deployment": {
            "hugepages": False,
            "memory_mb": 256,
            "execution": "rtc",
            "lcores": {"traffic": cpus[:1], "chain": cpus[-1:]},
        },
        "workload": {"direction": "both"},
        "warmup": 0,
        "measure": {"loads": [2000], "trial": 0.5},
    } | more


def started(two: Servers, folder: Path, spec: dict[str, Any]) -> subprocess.Popen[str]:
    (folder / "spec.yaml").write_text(json.dumps(spec))
    rule = "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x11/0xFF\t0x0000/0x0000\n"
    (folder / "my.rules").write_text(rule)
    command = [str(COMMAND), "run", "spec.yaml", "--out", "b", "--json"]
    return subprocess.Popen(
        ["ip", "netns", "exec", two.lab, *command], cwd=folder, env=two.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ways_of(folder: Path, intended: int) -> tuple[Trial, dict[str, int]]:
    """The trial of both ways, and how many packets were sent each way, all of which came back."""
    by_way = {one.direction: one for one in Bundle(folder / "b").trials()}
    ways = {way: by_way[way] for way in ("forward", "reverse")}
    for one in ways.values():
        assert whole(one, intended) and one.received == one.sent and not one.drops
    return by_way["both"], {way: one.sent for way, one in ways.items()}


def test_generator_and_chain_on_servers(
    lan: Lan, two: Servers, tmp_path: Path, cpus: list[int]
) -> None:
    """Both ways: nftables counts as many packets on all ways as were sent and received; the rules
    were taken to the chain's server; nothing is left on either."""
    wires = cabled(lan, two)
    lab = started(two, tmp_path, study(two, cpus))
    _, errors = lab.communicate(timeout=120)
    assert lab.returncode == 0, errors
    both, sent = ways_of(tmp_path, 1000)
    # One more proved each way before the trial.
    leave = {n: sent["forward" if n in ("left", "out") else "reverse"] for n in ENDS}
    assert {n: counted(lan, wires, f"hr{n}") for n in ENDS} == {
        n: packets + 1 for n, packets in leave.items()
    }
    assert both.counters is not None
    for name, port in both.counters.ports.items():
        assert {port.tx_packets, port.device_tx} == {leave[name]}
        assert {port.rx_packets, port.device_rx} == {both.sent - leave[name]}
    lcores = {one.cpu for one in both.counters.workers}
    assert lcores == {cpus[0], 1000 + cpus[-1]}
    environment = Bundle(tmp_path / "b").environment
    assert environment is not None
    assert set(environment.servers) == {"gen", "dut"}
    assert wait_for(lambda: not any(one.left() for one in two.servers.values()), 10)


def test_layers_are_read_on_each_server(
    lan: Lan, two: Servers, tmp_path: Path, cpus: list[int]
) -> None:
    """By its agent: what belongs to the experiment under its own name, whatever is the server's
    with its server's; an engine's counters there grow by what the trial says of its ports."""
    cabled(lan, two)
    asked = {"layers": ["application", "os"], "period": 0.1}
    lab = started(two, tmp_path, study(two, cpus, collect=asked))
    _, errors = lab.communicate(timeout=120)
    assert lab.returncode == 0, errors
    both, _ = ways_of(tmp_path, 1000)
    samples = Samples(tmp_path / "b" / "samples")
    system, engines = samples.window("os"), samples.window("application")
    assert set(system.change("process_user_s")) == {"engine", "dut"}
    for server in ("gen", "dut"):
        assert system.change("context_switches")[server] > 0
        assert f"cpu{cpus[0]}@{server}" in system.change("softnet_packets")
    received = engines.change("rx_packets")
    grown = {place.rpartition("/")[2]: packets for place, packets in received.items()}
    assert both.counters is not None
    told = {f"{n}@{ENDS[n]}": one.rx_packets for n, one in both.counters.ports.items()}
    assert told == {place: grown.get(place) for place in told}
    assert wait_for(lambda: not any(one.left() for one in two.servers.values()), 10)


SOURCES, BURST = 16, 10


def built(engine: Path, folder: Path) -> str:
    """A function from outside of the engine's tree that drops what exceeds a rate per source."""
    done = headrace("nf", "new", "limit", folder=folder, engine=engine)
    assert done.returncode == 0, done.stderr
    search = {**os.environ, "PKG_CONFIG_PATH": str(BUILT / "engine" / "outside")}
    for command in (["meson", "setup", "build"], ["ninja", "-C", "build", "limit.so"]):
        done = subprocess.run(
            command, cwd=folder / "limit", env=search, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return "limit/build/limit.so"


def test_a_function_of_ones_own_runs_on_a_server(
    lan: Lan, two: Servers, tmp_path: Path, cpus: list[int], engine_binary: Path
) -> None:
    """It is taken there: of 16 sources it lets through a burst each, and hardly
    more, as its rate is one packet a second."""
    cabled(lan, two)
    spec = study(two, cpus, chain=[{"limit": {"rate": 1, "burst": BURST}}])
    spec["deployment"]["functions"] = [built(engine_binary, tmp_path)]
    spec["workload"] = {"flows": SOURCES}
    spec["measure"] = {"loads": [2000], "trial": 0.5, "losses": "unintended"}
    lab = started(two, tmp_path, spec)
    _, errors = lab.communicate(timeout=120)
    assert lab.returncode == 0, errors
    [one] = Bundle(tmp_path / "b").trials()
    # A packet had proved the path, and each bucket gets one a second.
    assert one.sent == 1000 and SOURCES * BURST - 1 <= one.received <= SOURCES * (BURST + 1)
    assert one.drops == {"limit/rate": one.sent - one.received}
    assert wait_for(lambda: not any(one.left() for one in two.servers.values()), 10)


COUNT = '$1 == "hrin:" {printf "{\\"in\\": %d, \\"out\\": %d}", $3, $11}'
BRIDGE = {
    "server": "dut",
    "start": ["sleep", "4321"],
    "configure": [
        ["ip", "link", "add", "hrbr", "type", "bridge", "mcast_snooping", "0"],
        *(["ip", "link", "set", "dev", f"hr{n}", "master", "hrbr", "up"] for n in ("in", "out")),
        ["ip", "link", "set", "dev", "hrbr", "up"],
    ],
    "read": ["awk", COUNT, "/proc/net/dev"],
}  # fmt: skip


def bridged(two: Servers, cpus: list[int], **more: Any) -> dict[str, Any]:
    """The device under test is the kernel's bridge of the server dut."""
    spec = study(two, cpus, chain=[], **more)
    ports = {name: spec["testbed"]["ports"][name] for name in ("left", "right")}
    spec["testbed"] = {"ports": ports, "tester": ["left", "right"], "dut": BRIDGE}
    spec["deployment"]["lcores"] = {"traffic": cpus[:1]}
    return spec


def sleepers(two: Servers) -> list[int]:
    """Processes that the device's `start` began on its server."""
    pids = map(int, ip("netns", "pids", two.servers["dut"].namespace).split())
    files = {pid: Path(f"/proc/{pid}/cmdline") for pid in pids}
    return [pid for pid, one in files.items() if one.exists() and _words(one) == BRIDGE["start"]]


def _words(file: Path) -> list[str]:
    return file.read_bytes().decode().split("\0")[:-1]


def test_an_external_device_of_a_server(
    lan: Lan, two: Servers, tmp_path: Path, cpus: list[int]
) -> None:
    """Its commands are run there: what `read` prints grows by what went through, and `start` has
    ended with the point."""
    cabled(lan, two)
    for kind in ("all", "default"):
        lan.sysctl(two.servers["dut"].namespace, f"net.ipv6.conf.{kind}.disable_ipv6", "1")
    lab = started(two, tmp_path, bridged(two, cpus))
    _, errors = lab.communicate(timeout=120)
    assert lab.returncode == 0, errors
    both, sent = ways_of(tmp_path, 1000)
    assert both.counters is not None
    assert both.counters.dut == {"in": sent["forward"], "out": sent["reverse"]}
    assert not sleepers(two)
    assert wait_for(lambda: not any(one.left() for one in two.servers.values()), 10)


@pytest.mark.parametrize("kind", ["connection", "lab"])
def test_a_device_ends_with_who_started_it(
    lan: Lan, two: Servers, tmp_path: Path, cpus: list[int], kind: str
) -> None:
    cabled(lan, two)
    lab = started(two, tmp_path, bridged(two, cpus, measure={"loads": [1000], "trial": 60}))
    assert wait_for(lambda: bool(sleepers(two)), 60)
    pid = victim(two, lab, kind, "dut")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    lab.communicate(timeout=150)
    assert lab.returncode != 0
    assert wait_for(lambda: not sleepers(two), 60)
    assert wait_for(lambda: not any(one.left() for one in two.servers.values()), 60)


def test_a_command_that_fails_on_a_server_is_one_line(
    lan: Lan, two: Servers, tmp_path: Path, cpus: list[int]
) -> None:
    cabled(lan, two)
    spec = bridged(two, cpus)
    spec["testbed"]["dut"] = {"server": "dut", "configure": [["ls", "/nowhere"]]}
    lab = started(two, tmp_path, spec)
    _, errors = lab.communicate(timeout=120)
    assert lab.returncode == 1, errors
    last = errors.strip().splitlines()[-1]
    assert "servers.dut: testbed.dut.configure: `ls /nowhere` ended with status 2" in last


@pytest.fixture
def three(lan: Lan, engine_binary: Path) -> Iterator[Servers]:
    with Servers(lan, engine_binary, ("gen", "dut", "next")) as servers:
        yield servers


def test_a_chain_over_two_servers(
    lan: Lan, three: Servers, tmp_path: Path, cpus: list[int]
) -> None:
    """gen -> dut -> next -> gen: as many packets on each wire, both ways."""
    wires, at = lan.namespace("w"), {n: one.namespace for n, one in three.servers.items()}
    ends = {**ENDS, "out": "next", "east": "dut", "west": "next"}
    for one, other in (("left", "in"), ("east", "west"), ("right", "out")):
        wire(lan, wires, {f"hr{name}": at[ends[name]] for name in (one, other)})
    spec = study(three, cpus)
    spec["chain"] = [
        {"nf": "l2fwd", "server": "dut"},
        {"name": "again", "nf": "l2fwd", "server": "next"},
    ]
    spec["testbed"] = {
        "ports": {n: {"device": f"af_xdp:hr{n}", "server": s} for n, s in ends.items()},
        "tester": ["left", "right"],
        "chain": ["in", "east", "west", "out"],
    }
    spec["deployment"]["lcores"] = {"traffic": cpus[:1]}
    spec["measure"] = {"loads": [1000], "trial": 0.5}
    lab = started(three, tmp_path, spec)
    _, words = lab.communicate(timeout=150)
    assert lab.returncode == 0, words
    both, sent = ways_of(tmp_path, 500)
    # One more proved each way before the trial.
    there = {"left", "east", "out"}  # by which packets leave that go forward
    leave = {n: sent["forward" if n in there else "reverse"] for n in ends}
    assert {n: counted(lan, wires, f"hr{n}") for n in ends} == {
        n: packets + 1 for n, packets in leave.items()
    }
    assert both.counters is not None
    came = {name: port.rx_packets for name, port in both.counters.ports.items()}
    assert came == {n: both.sent - packets for n, packets in leave.items()}
    assert {one.cpu // 1000 for one in both.counters.workers} == {0, 1, 2}
    assert wait_for(lambda: not any(one.left() for one in three.servers.values()), 10)


KILLED = ("connection", "stalled", "agent", "guard", "lab")


def victim(two: Servers, lab: subprocess.Popen[str], kind: str, server: str) -> int | None:
    """None: it is not there (yet)."""
    if kind == "lab":
        return lab.pid
    one = two.servers[server]
    if kind in ("connection", "stalled"):
        return max(one.sessions(), default=None)
    agents = [pid for pid, text in one.processes() if text.rstrip().endswith(" agent")]
    if not agents:
        return None
    return min(agents) if kind == "guard" else max(agents)


def kill_at_random(
    two: Servers, folder: Path, cpus: list[int], kind: str, draw: random.Random
) -> None:
    """A run of a minute, in which one process is killed at some moment: all ends by itself."""
    spec = study(two, cpus, measure={"loads": [1000], "trial": 60})
    lab, server = started(two, folder, spec), draw.choice(["gen", "dut"])
    time.sleep(draw.uniform(0.5, 8))
    number = signal.SIGSTOP if kind == "stalled" else signal.SIGKILL
    hit: list[int] = []

    def killed() -> bool:
        """A connection's first process ends by itself when its user is known."""
        if (pid := victim(two, lab, kind, server)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                hit.append(pid)
        return bool(hit)

    assert wait_for(killed, 100), (kind, server)
    _, words = lab.communicate(timeout=150)
    try:
        assert wait_for(lambda: not any(one.left() for one in two.servers.values()), 60), [
            one.left() for one in two.servers.values()
        ]
        assert lab.returncode != 0
        if kind != "lab":
            # Lost, or not reached yet: one line that says whose it was.
            assert f"servers.{server}" in words.strip().splitlines()[-1], words
    finally:
        if kind == "stalled":
            with contextlib.suppress(ProcessLookupError):
                os.kill(hit[0], signal.SIGKILL)
    shutil.rmtree(folder / "b", ignore_errors=True)


@pytest.mark.slow
def test_kills_leave_nothing(lan: Lan, two: Servers, tmp_path: Path, cpus: list[int]) -> None:
    """HEADRACE_KILLS times: the connection, the agent, the process that watches over it, the lab,
    and a connection by which nothing comes any more."""
    cabled(lan, two)
    for name, server in ENDS.items():
        lan.sysctl(two.servers[server].namespace, f"net.ipv6.conf.hr{name}.disable_ipv6", "0")
    draw = random.Random(int(os.environ.get("HEADRACE_SEED", "21")))
    for i in range(int(os.environ.get("HEADRACE_KILLS", str(len(KILLED))))):
        kill_at_random(two, tmp_path, cpus, KILLED[(i * 2) % len(KILLED)], draw)
        for name, server in ENDS.items():
            path = f"/proc/sys/net/ipv6/conf/hr{name}/disable_ipv6"
            value = lan.inside(two.servers[server].namespace, "cat", path)
            assert value.strip() == "0", (i, name)
