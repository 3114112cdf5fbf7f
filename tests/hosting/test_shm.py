# SPDX-License-Identifier: Apache-2.0
"""The link between a host's switch and a VNF in a process: what goes through, and who may die."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, EngineError, memory_engine, nf_imbalance

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]
MBUFS = 16384


def host_plan(cpu: int, socket: Path, frames: list[int], slots: int = 8192) -> dict[str, Any]:
    """A source through the link, and what comes back into a sink."""
    return {
        "version": 1,
        "engine": memory_engine(mbufs=MBUFS),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": frames, "flows": 16}},
            "vf": {"type": "shm", "params": {"socket": str(socket), "slots": slots}},
            "meas": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": "out", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:vf"}]},
            {"name": "in", "cpus": [cpu], "inputs": [{"link": "vf", "to": "link:meas"}]},
        ],
    }


def vnf_plan(cpu: int, socket: Path, wait: str = "adaptive") -> dict[str, Any]:
    return {
        "version": 1,
        "engine": memory_engine(mbufs=MBUFS, memory_mb=128, wait={"mode": wait}),
        "links": {
            "vf": {
                "type": "shm",
                "params": {
                    "socket": str(socket), "role": "client", "wait_link_ms": 10000, "times": True,
                },
            }
        },
        "nfs": {"echo": {"type": "l2fwd", "params": {}}},
        "segments": [
            {
                "name": "vnf",
                "cpus": [cpu],
                "inputs": [{"link": "vf", "to": "echo"}],
                "nodes": {"echo": {"forward": {"out": "link:vf"}}},
            }
        ],
    }  # fmt: skip


def send(host: Engine, packets: int, rate_pps: int = 20000) -> dict[str, Any]:
    """A busy machine may stand still for long: the ring holds them all, and time is no failure.

    A VNF is ready before its host has heard so, and until then what is sent to it is lost. A source
    whose lcore had no CPU while it was to send has sent nothing: it is started again."""
    links: dict[str, Any] = {}
    host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)

    def start() -> None:
        host.call("start", sources={"gen": {"rate_pps": rate_pps, "packets": packets}})

    def arrived() -> bool:
        links.update(host.read()["links"])
        sent, received = links["gen"]["sent"], links["meas"]["received"]
        if links["gen"]["state"] != "done":
            return False
        if not sent:
            start()
        return bool(0 < sent <= received)

    start()
    host.wait_for(arrived, f"{packets} packets", 60)
    return links


@pytest.mark.parametrize("wait", ["poll", "adaptive", "interrupt"])
def test_every_packet_comes_back(
    start_engine: Start, cpus: list[int], tmp_path: Path, wait: str
) -> None:
    """Packets have all lengths and keep their order, whatever the VNF does when it has none."""
    socket = tmp_path / "vf.sock"
    with (
        start_engine(host_plan(cpus[0], socket, [64, 65, 777, 1518])) as host,
        start_engine(vnf_plan(cpus[-1], socket, wait)) as vnf,
    ):
        links = send(host, 4000)
        sent = links["gen"]["sent"]
        assert links["meas"]["received"] == links["meas"]["stamped"] == sent
        assert links["meas"]["reordered"] == links["meas"]["duplicated"] == 0
        reading = vnf.read()
        assert not any(nf_imbalance(reading).values())
        vf = reading["links"]["vf"]
        assert vf["wait"]["count"] == vf["stay"]["count"] == vf["rx_packets"] == sent
        assert vf["off_cpu"]["sum_ns"] <= vf["wait"]["sum_ns"]
        [worker] = reading["workers"].values()
        assert (worker["sleeps"] > 0) == (wait != "poll")
    assert not socket.exists()


def test_peer_dies_at_any_time(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """A VNF killed in full flow, again and again: the host goes on, no packet buffer is lost."""
    socket = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], socket, [64])) as host:
        before = host.read()["mbufs_in_use"]
        descriptors = []
        host.call("start", sources={"gen": {"rate_pps": 0, "duration_s": 300}})
        for round_ in range(12):
            vnf = start_engine(vnf_plan(cpus[-1], socket))
            vnf.__enter__()
            host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
            came = host.read()["links"]["meas"]["received"]
            host.wait_for(
                lambda came=came: host.read()["links"]["meas"]["received"] > came, "packets", 60
            )
            time.sleep(0.01 * (round_ % 5))
            os.kill(vnf.process.pid, signal.SIGKILL)
            vnf.process.wait()
            vnf.socket.close()
            host.wait_for(lambda: not host.read()["links"]["vf"]["up"], "the end to be seen")
            descriptors.append(len(list(Path(f"/proc/{host.process.pid}/fd").iterdir())))
        assert descriptors[-1] <= descriptors[2]  # some are kept until the next client has come
        host.call("stop")
        time.sleep(0.3)
        reading = host.read()
        assert reading["links"]["vf"]["connects"] == 12
        assert reading["links"]["vf"]["corrupt"] == 0
        assert reading["mbufs_in_use"] <= before + 64  # a queue for one burst is not a leak


def test_host_comes_again(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """A VNF outlives its host and finds the next one."""
    socket = tmp_path / "vf.sock"
    first = start_engine(host_plan(cpus[0], socket, [64]))
    first.__enter__()
    with start_engine(vnf_plan(cpus[-1], socket, "interrupt")) as vnf:
        send(first, 100)
        first.process.kill()
        first.process.wait()
        first.socket.close()
        vnf.wait_for(lambda: not vnf.read()["links"]["vf"]["up"], "the host's end")
        with start_engine(host_plan(cpus[0], socket, [64], slots=256)) as second:
            send(second, 100)
            assert vnf.read()["links"]["vf"]["connects"] == 2


def test_second_client_is_refused(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    socket = tmp_path / "vf.sock"
    with (
        start_engine(host_plan(cpus[0], socket, [64])) as host,
        start_engine(vnf_plan(cpus[-1], socket)),
    ):
        plan = vnf_plan(cpus[-1], socket)
        plan["links"]["vf"]["params"]["wait_link_ms"] = 300
        with pytest.raises(EngineError, match=r"links.vf.params.wait_link_ms: no peer at"):
            start_engine(plan).__enter__()
        send(host, 100)
        assert host.read()["links"]["vf"]["refused"] > 0


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"socket": "/" + "x" * 120}, "links.vf.params.socket: 121 characters; allowed: 1 to 107"),
        ({"slots": 100}, "links.vf.params.slots: 100; allowed: a power of two"),
        ({"socket": "/nowhere/at/all"}, "No such file or directory"),
    ],
)
def test_bad_parameters(
    engine_binary: Path, cpus: list[int], tmp_path: Path, params: dict[str, Any], message: str
) -> None:
    plan = host_plan(cpus[0], tmp_path / "vf.sock", [64])
    plan["links"]["vf"]["params"].update(params)
    _refused(engine_binary, plan, tmp_path, message)


@pytest.mark.parallel
def test_interrupt_needs_links_that_can_wake(
    engine_binary: Path, cpus: list[int], tmp_path: Path
) -> None:
    plan = host_plan(cpus[0], tmp_path / "vf.sock", [64])
    plan["engine"]["wait"] = {"mode": "interrupt"}
    _refused(engine_binary, plan, tmp_path, 'reads "gen", and a source link can only be polled')


def _refused(binary: Path, plan: dict[str, Any], folder: Path, message: str) -> None:
    import json

    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    done = subprocess.run(
        [binary, "--plan", file, "--control", folder / "c.sock"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
