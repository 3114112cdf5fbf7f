# SPDX-License-Identifier: Apache-2.0
"""All that may be done to a running engine, done at once: two clients of the control socket read
and update tables, two read telemetry, segments change their CPUs; and no packet is lost."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, nf_imbalance
from support.plans import beside_its_ends, on_cpus

PACKETS, RATE_PPS = 15_000, 5000
ROUNDS = 5  # at least, of each


def _plan(cpus: list[int]) -> dict[str, Any]:
    nfs = {
        "acl": {"type": "acl", "params": {"default": "permit"}},
        "fw": {"type": "firewall", "params": {"default": "permit"}},
        "nat": {"type": "nat", "params": {"pool": ["198.51.100.1"], "inside": ["0.0.0.0/0"]}},
        "l3": {
            "type": "l3fwd",
            "params": {
                "next_hops": [{}],
                "routes": [{"prefix": "0.0.0.0/0", "next_hop": 0}],
                "ipv4_capacity": 1000,
            },
        },
    }
    chain = {"acl": "pass", "fw": "pass", "nat": "out", "l3": "out0"}
    to = dict(zip(chain, [*list(chain)[1:], "link:back"], strict=True))
    nodes = {nf: {"forward": {edge: to[nf]}} for nf, edge in chain.items()}
    inputs = [{"link": "wire", "to": "acl"}]
    return beside_its_ends(cpus, nfs, {"fastpath": 64, "inputs": inputs, "nodes": nodes})


class Client:
    """A client of the control socket beside the test's own."""

    def __init__(self, engine: Engine) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(engine.socket_path))
        self._lines = self._socket.makefile("rw")

    def __call__(self, cmd: str, **arguments: Any) -> None:
        self._lines.write(json.dumps({"cmd": cmd, **arguments}) + "\n")
        self._lines.flush()
        reply = json.loads(self._lines.readline())
        assert reply["ok"], reply


def _reads(engine: Engine) -> Iterator[None]:
    ask = Client(engine)
    while True:
        ask("read")
        ask("prometheus")
        ask("slices", most=16)
        ask("flows", link="meas", top=5)
        yield


def _updates(engine: Engine) -> Iterator[None]:
    """Each leaves what happens to the packets as it was."""
    ask = Client(engine)
    for turn in itertools.count():
        rules = [{"action": "deny", "dport": [turn % 50 + 1]}, {"action": "permit"}]
        ask("update", nf="acl", op={"rules": rules})
        ask("update", nf="fw", op={"rules": rules[::-1]})
        for op in ("replace", "del"):
            route = {"op": op, "prefix": f"203.0.{turn % 256}.0/24", "next_hop": 0}
            ask("update", nf="l3", op={"routes": [route]})
        yield


def _telemetry(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(10)
        client.connect(str(path))
        client.recv(1 << 16)
        while True:
            for what in ("segment,chain", "link,meas", "workers", "info"):
                client.send(f"/headrace/{what}".encode())
                assert len(client.recv(1 << 16)) > 20
            yield


@contextmanager
def _at_once(acts: list[Callable[[], Iterator[None]]]) -> Iterator[list[int]]:
    """Each in a thread, again and again until the block ends; how often each was done."""
    done, ended, failed = [0] * len(acts), threading.Event(), list[BaseException]()

    def run(i: int) -> None:
        try:
            for _ in acts[i]():
                done[i] += 1
                if ended.is_set():
                    return
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(acts))]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failed


def test_everything_at_once(start_engine: Callable[..., Engine], cpus: list[int]) -> None:
    a, b = cpus[:2]
    plan = _plan([a, b])
    telemetry = Path("/run/dpdk") / plan["engine"]["file_prefix"] / "dpdk_telemetry.v2"
    with start_engine(plan) as engine:
        if not telemetry.exists():
            pytest.skip(f"{telemetry}: not there; DPDK's runtime directory is another's")
        acts = [lambda: _reads(engine), lambda: _updates(engine)]
        acts += [lambda: _telemetry(telemetry)] * 2
        replans = 0
        with _at_once(acts) as done:
            engine.call("start", sources={"gen": {"rate_pps": RATE_PPS, "packets": PACKETS}})
            for way in itertools.cycle([(b, a), (a, a), (a, b), (b, b)]):
                assert engine.call("plan", plan=on_cpus(plan, *way))["paused_ns"] > 0
                replans += 1
                if engine.read()["links"]["gen"]["state"] == "done" and min(done) >= ROUNDS:
                    break
        sent = engine.read()["links"]["gen"]["sent"]
        reading = engine.settle(sent)
    sink = reading["links"]["meas"]
    assert replans >= ROUNDS
    # On a busy machine it cannot make all in time; what it made must all have come through.
    assert sink["received"] == sent > PACKETS // 2
    assert (sink["lost"], sink["reordered"], sink["duplicated"]) == (0, 0, 0)
    assert set(nf_imbalance(reading).values()) == {0}


def _at_a_stroke(engine: Engine, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests in one piece, so that the engine serves each at once behind the one before."""
    engine.lines.write("".join(json.dumps(request) + "\n" for request in requests))
    engine.lines.flush()
    return [json.loads(engine.lines.readline()) for _ in requests]


def test_commands_to_a_source_follow_at_once(
    start_engine: Callable[..., Engine], cpus: list[int]
) -> None:
    """An lcore looks at what a source is to do while the next command is written, and takes each
    whole: a trial has its own packets and rate, whatever came just before and after it."""
    plan = _plan([cpus[0], cpus[0]])
    with start_engine(plan) as engine:
        for turn in range(30):
            packets, rate = 10 + turn, 100_000 + turn
            start = {"cmd": "start", "sources": {"gen": {"rate_pps": 1e6, "packets": packets}}}
            other = {"cmd": "set", "link": "gen", "rate_pps": rate / 2}
            last = {"cmd": "set", "link": "gen", "rate_pps": rate}
            # An idle source is told a rate, which is not that of the trial right behind it.
            replies = _at_a_stroke(engine, [other, start, other, last])
            assert all(reply["ok"] for reply in replies), replies
            engine.wait_for(
                lambda: engine.read()["links"]["gen"]["state"] == "done", "the trial", pause=0.001
            )
            gen = engine.read()["links"]["gen"]
            assert (gen["intended"], gen["rate_pps"]) == (packets, rate)
            assert gen["sent"] + gen["unsent"] == packets
        # A trial that is stopped as it starts sends nothing more, and keeps no other from starting.
        replies = _at_a_stroke(engine, [last, start, {"cmd": "stop"}])
        assert all(reply["ok"] for reply in replies), replies
        engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the stop")
        engine.call("start", sources={"gen": {"rate_pps": 10_000, "packets": 100}})
        engine.wait_for(lambda: engine.read()["links"]["gen"]["state"] == "done", "the last")
        assert engine.settle(100)["links"]["meas"]["lost"] == 0
