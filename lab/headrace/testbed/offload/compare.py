# SPDX-License-Identifier: Apache-2.0
"""What offloaded forwarding costs: beside a plain router's, still and with its routes changing.

Every mode gets the same packets, whose destination MACs name the VNFs in turn, each with routes
of its own: bare-metal looks all up in one table of them all, offload each in its VNF's. Routes come
over FPM in both offload modes; in offload-updates they go on changing, from one next hop to the
other, while packets run. In the conventional modes each VNF is a process that forwards its
own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace.errors import HeadraceError
from headrace.measure.latency import latency
from headrace.spec.deployment import Deployment
from headrace.spec.offload import CompareSpec, Comparison, Mode
from headrace.testbed.engine import Engine
from headrace.testbed.memory import provide
from headrace.testbed.offload.conventional import Conventional
from headrace.testbed.offload.fpm import prefixes
from headrace.testbed.place import usable_cpus
from headrace.testbed.programs import find_engine
from headrace.testbed.state import RunState, dpdk_prefix

Json = dict[str, Any]
Say = Callable[[str], None]
_FPM_PORT = 26200
_GEN, _MEAS = "gen", "meas"
_GATEWAYS = ("10.255.0.1", "10.255.0.2")
_WIRE = 4096
_MBUFS = 65535
_CONVENTIONAL = "conventional-"
_LEARNING = ("offload", "offload-updates")
_WARM_S, _DRAIN_S, _READY_S = 0.5, 0.2, 60.0


def traffic_cpus() -> tuple[int, int]:
    """Generator and sink on the first, the router on the last."""
    there = usable_cpus()
    if len(there) < 2:
        raise HeadraceError("offload: compare needs two CPUs, one for traffic")
    return there[0], there[-1]


def mac(vnf: int) -> str:
    return f"02:48:52:01:{vnf >> 8:02x}:{vnf & 255:02x}"


def compare(spec: CompareSpec, cpus: tuple[int, int], say: Say) -> list[Json]:
    state = RunState()
    rows: dict[Mode, list[Json]] = {mode: [] for mode in spec.compare.modes}
    try:
        deployment = {"hugepages": spec.hugepages, "memory_mb": spec.memory_mb}
        memory = provide(Deployment.model_validate(deployment), state)
        say(memory.note)
        engine = {
            "hugepages": memory.hugepages,
            "memory_mb": spec.memory_mb,
            "file_prefix": dpdk_prefix(state.path),
            "mbufs": _MBUFS,
        }
        addresses = state.path / "addresses"
        addresses.write_text("".join(f"{a}\n" for a in _addresses(spec.compare)))
        for repetition in range(spec.compare.repetitions):
            for mode in rows:
                with _deployed(spec.compare, mode, cpus, engine, addresses, state) as running:
                    rows[mode].append(_measure(spec.compare, mode, running))
                say(f"{repetition + 1}/{spec.compare.repetitions} {mode}: {_words(rows[mode][-1])}")
    finally:
        state.remove()
    return [_summary(mode, all_, rows) for mode, all_ in rows.items()]


def _deployed(
    c: Comparison, mode: Mode, cpus: tuple[int, int], engine: Json, addresses: Path, state: RunState
) -> Engine:
    if mode.startswith(_CONVENTIONAL):
        return Conventional(c, mode.removeprefix(_CONVENTIONAL), cpus, engine, addresses, state)
    plan = _plan(c, mode, cpus, engine, str(addresses))
    return Engine(find_engine(), plan, state)


def _addresses(c: Comparison) -> list[str]:
    """Of flow i, which the i-th MAC goes with as long as flows are a multiple of the VNFs."""
    of_vnf = [prefixes(c.routes, vnf) for vnf in range(c.vnfs)]
    return [str(of_vnf[i % c.vnfs][i // c.vnfs % c.routes][1]) for i in range(_flows(c))]


def _flows(c: Comparison) -> int:
    return max(1, c.flows // c.vnfs) * c.vnfs


def _plan(c: Comparison, mode: Mode, cpus: tuple[int, int], engine: Json, addresses: str) -> Json:
    traffic, router = cpus
    function = _offload(c) if mode in _LEARNING else _bare_metal(c)
    source = {
        "frame_bytes": [c.frame],
        "flows": _flows(c),
        "dst_ips_file": addresses,
        "dst_macs": [mac(i) for i in range(c.vnfs)],
    }
    ring = {"type": "ring", "params": {"size": _WIRE}}
    return {
        "version": 1,
        "engine": engine,
        "links": {
            _GEN: {"type": "source", "params": source},
            "wire": ring,
            "back": ring,
            _MEAS: {"type": "sink", "params": {}},
        },
        "nfs": {"fwd": function},
        "segments": [
            {"name": "generator", "cpus": [traffic],
             "inputs": [{"link": _GEN, "to": "link:wire"}]},
            {"name": "chain", "cpus": [router],
             "inputs": [{"link": "wire", "to": "fwd", "port": 0}],
             "nodes": {"fwd": {"forward": _targets(mode)}}},
            {"name": "measure", "cpus": [traffic],
             "inputs": [{"link": "back", "to": f"link:{_MEAS}"}]},
        ],
    }  # fmt: skip


def _targets(mode: Mode) -> Json:
    """Nobody speaks to the VNFs here: what would be punted is lost, and shows as such."""
    targets = {"out0": "link:back"}
    return targets | {"punt": "drop"} if mode in _LEARNING else targets


def _bare_metal(c: Comparison) -> Json:
    nets = prefixes(c.routes * c.vnfs)
    routes = [{"prefix": str(net), "next_hop": i % 2} for i, net in enumerate(nets)]
    hops = [{"edge": 0, "dst_mac": f"02:00:00:00:03:0{i}"} for i in range(2)]
    return {"type": "l3fwd", "params": {"next_hops": hops, "routes": routes}}


def _offload(c: Comparison) -> Json:
    neighbours = [
        {"address": gateway, "mac": f"02:00:00:00:03:0{i}"} for i, gateway in enumerate(_GATEWAYS)
    ]
    vnfs = [
        {
            "name": f"v{i}",
            "learn": "fpm",
            "fpm_port": _FPM_PORT + i,
            "interfaces": [
                {"name": "in", "port": 0, "mac": mac(i)},
                # On the other side of the same wire: two interfaces, one edge out.
                {"name": "out", "port": 0, "mac": mac(c.vnfs + i), "addresses": ["10.255.0.254/24"],
                 "neighbours": neighbours},
            ],
        }
        for i in range(c.vnfs)
    ]  # fmt: skip
    return {"type": "router", "params": {"vnfs": vnfs}}


def _measure(c: Comparison, mode: Mode, engine: Engine) -> Json:
    feed = _feed(c, mode) if mode in _LEARNING else None
    try:
        if feed is not None:
            _await_routes(c, engine, feed)
        with engine.measuring():
            _trial(engine, 0, _WARM_S)
            before, began = _updates(engine, mode), time.monotonic()
            most = _trial(engine, 0, c.duration)
            changed = (_updates(engine, mode) - before) / (time.monotonic() - began)
            at_load = _trial(engine, c.load, c.duration)
    finally:
        if feed is not None:
            feed.kill()
            feed.wait()
    delays = latency(at_load["sink"]["latency"])
    return {
        "throughput_pps": most["sink"]["received"] / most["seconds"],
        "updates_per_s": changed,
        "load_pps": at_load["source"]["sent"] / at_load["seconds"],
        "loss_ratio": 1 - at_load["sink"]["received"] / max(1, at_load["source"]["sent"]),
        "unsent": at_load["source"]["unsent"],
        "latency_p50_ns": delays.p50 if delays else None,
        "latency_p99_ns": delays.p99 if delays else None,
        "ipdv_mean_ns": at_load["sink"]["ipdv_ns_mean"],
    }


def _feed(c: Comparison, mode: Mode) -> subprocess.Popen[str]:
    ports = ",".join(str(_FPM_PORT + i) for i in range(c.vnfs))
    rate = c.updates if mode == "offload-updates" else 0
    command = [sys.executable, "-m", "headrace.testbed.offload.fpm", "--ports", ports]
    command += ["--routes", str(c.routes), "--rate", str(rate), "--seconds", "3600"]
    command += ["--gateways", ",".join(_GATEWAYS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace")


def _show(engine: Engine) -> Json:
    shown: Json = engine.request("update", nf="fwd", op={"op": "show"})["reply"]
    return shown


def _updates(engine: Engine, mode: Mode) -> int:
    return 0 if mode not in _LEARNING else sum(v["updates"] for v in _show(engine)["vnfs"])


def _await_routes(c: Comparison, engine: Engine, feed: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _READY_S
    while any(v["ipv4_routes"] < c.routes for v in _show(engine)["vnfs"]):
        if time.monotonic() > deadline or feed.poll() is not None:
            raise HeadraceError("offload: the routes did not arrive over FPM")
        time.sleep(0.1)


def _trial(engine: Engine, rate: float, seconds: float) -> Json:
    gen, meas = _GEN, _MEAS
    if isinstance(engine, Conventional):
        gen, meas = engine.source, engine.sink
    engine.request("start", sources={gen: {"rate_pps": rate, "duration_s": seconds}})
    time.sleep(seconds)
    while (reading := engine.request("read"))["links"][gen]["state"] != "done":
        time.sleep(0.02)
    time.sleep(_DRAIN_S)
    reading = engine.request("read")
    source = reading["links"][gen]
    return {
        "sink": reading["links"][meas],
        "source": source,
        "seconds": source["duration_ns"] / 1e9,
    }


def _summary(mode: Mode, rows: list[Json], of_all: dict[Mode, list[Json]]) -> Json:
    rates = [row["throughput_pps"] for row in rows]
    median = statistics.median(rates)
    base = of_all.get("bare-metal")
    reference = statistics.median(row["throughput_pps"] for row in base) if base else None
    best = max(
        (statistics.median(row["throughput_pps"] for row in found)
         for one, found in of_all.items() if one.startswith(_CONVENTIONAL)),
        default=None,
    )  # fmt: skip
    return {
        "mode": mode,
        "throughput_pps": median,
        "spread": (max(rates) - min(rates)) / median if median else None,
        "of_bare_metal": median / reference if reference else None,
        "times_conventional": median / best if best else None,  # in its best mode
        **{
            key: statistics.median(row[key] or 0 for row in rows)
            for key in ("updates_per_s", "load_pps", "loss_ratio", "unsent",
                        "latency_p50_ns", "latency_p99_ns", "ipdv_mean_ns")
        },
        "repetitions": rows,
    }  # fmt: skip


def _words(row: Json) -> str:
    return f"{row['throughput_pps'] / 1e6:.2f} Mpps, {row['updates_per_s']:.0f} updates/s"


def show(rows: list[Json]) -> None:
    table = Table("mode", "Mpps", "spread", "of bare", "x conv.", "updates/s",
                  "p50 us", "p99 us", "IPDV us", "loss", box=None)  # fmt: skip
    for row in rows:
        part = row["of_bare_metal"]
        table.add_row(
            row["mode"],
            f"{row['throughput_pps'] / 1e6:.2f}",
            "-" if row["spread"] is None else f"{row['spread']:.0%}",
            "-" if part is None else f"{part:.0%}",
            "-" if (times := row["times_conventional"]) is None else f"{times:.2f}",
            f"{row['updates_per_s']:.0f}",
            *(f"{row[k] / 1e3:.1f}" for k in ("latency_p50_ns", "latency_p99_ns", "ipdv_mean_ns")),
            f"{row['loss_ratio']:.2e}",
        )
    Console().print(table)
    load = json.dumps(round(rows[0]["load_pps"]))
    print(f"Saturation throughput, medians; delays and loss at {load} packets/s.")
    for row in rows:
        if row["unsent"]:
            print(
                f"{row['mode']}: suspect, the generator left {row['unsent']:.0f} packets unsent "
                "(the machine was busy, or the load is more than it makes)"
            )
