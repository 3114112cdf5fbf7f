# SPDX-License-Identifier: Apache-2.0
"""What offloaded forwarding costs: beside a plain router's, still and with its routes changing.

Every mode gets the same packets, whose destination MACs name the VNFs in turn, each with routes
of its own: bare-metal looks all up in one table of them all, offload each in its VNF's. Routes come
over FPM in both offload modes; in offload-updates they go on changing, from one next hop to the
other, while packets run. In the conventional modes each VNF is a process that forwards its
own; in ovs-dpdk it does so behind Open vSwitch with DPDK instead of the host engine's switch.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.engine.buffers import hot_mbufs
from headrace.engine.engine import Engine
from headrace.engine.place import usable_cpus
from headrace.errors import HeadraceError
from headrace.ground.offload.conventional import OVS_DPDK, Conventional
from headrace.ground.offload.fpm import prefixes
from headrace.host.memory import provide
from headrace.host.openvswitch import dpdk_lacking
from headrace.host.programs import find_engine
from headrace.host.state import RunState, dpdk_prefix
from headrace.measure.offload_trials import (
    BACK,
    CHAIN,
    FPM_PORT,
    GATEWAYS,
    GEN,
    LEARNING,
    MEAS,
    ROUTER,
    UPDATED,
    WIRE,
    measure,
)
from headrace.record.verdict import worst
from headrace.spec.deployment import Deployment
from headrace.spec.offload import CompareSpec, Comparison, Mode

Json = dict[str, Any]
Say = Callable[[str], None]
_MBUFS = 61439  # beside the wire's
_BACK = 4096
_CONVENTIONAL = "conventional-"


def traffic_cpus() -> tuple[int, int]:
    """Generator and sink on the first, the router on the last."""
    there = usable_cpus()
    if len(there) < 2:
        raise HeadraceError("offload: compare needs two CPUs, one for traffic")
    return there[0], there[-1]


def mac(vnf: int) -> str:
    return f"02:48:52:01:{vnf >> 8:02x}:{vnf & 255:02x}"


def compare(spec: CompareSpec, cpus: tuple[int, int], say: Say) -> list[Json]:
    rows: dict[Mode, list[Json]] = {mode: [] for mode in _possible(spec.compare, say)}
    state = RunState()
    try:
        deployment = {"hugepages": spec.hugepages, "memory_mb": spec.memory_mb}
        memory = provide(Deployment.model_validate(deployment), state)
        say(memory.note)
        engine = {
            "hugepages": memory.hugepages,
            "memory_mb": spec.memory_mb,
            "file_prefix": dpdk_prefix(state.path),
            "mbufs": spec.compare.wire + _MBUFS,
            "mbufs_hot": hot_mbufs(spec.compare.frame),
        }
        addresses = state.path / "addresses"
        addresses.write_text("".join(f"{a}\n" for a in _addresses(spec.compare)))
        for repetition in range(spec.compare.repetitions):
            for mode in rows:
                with _deployed(spec.compare, mode, cpus, engine, addresses, state) as running:
                    rows[mode].append(measure(spec.compare, mode, running))
                say(f"{repetition + 1}/{spec.compare.repetitions} {mode}: {_words(rows[mode][-1])}")
    finally:
        state.remove()
    return [_summary(mode, all_, rows) for mode, all_ in rows.items()]


def _possible(c: Comparison, say: Say) -> list[Mode]:
    """The modes that this machine can have; why not the others is said."""
    if OVS_DPDK not in c.modes:
        return list(c.modes)
    why = dpdk_lacking() or ("needs root" if os.geteuid() != 0 else None)
    if why is None:
        return list(c.modes)
    left = [mode for mode in c.modes if mode != OVS_DPDK]
    if not left:
        raise HeadraceError(f"compare: {OVS_DPDK}: {why}")
    say(f"{OVS_DPDK}: skipped: {why}")
    return left


def _deployed(
    c: Comparison, mode: Mode, cpus: tuple[int, int], engine: Json, addresses: Path, state: RunState
) -> Engine:
    if mode == OVS_DPDK or mode.startswith(_CONVENTIONAL):
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
    function = _offload(c) if mode in LEARNING else _bare_metal(c)
    source = {
        "frame_bytes": [c.frame],
        "flows": _flows(c),
        "dst_ips_file": addresses,
        "dst_macs": [mac(i) for i in range(c.vnfs)],
    }
    wire = {"type": "ring", "params": {"size": c.wire}}
    back = {"type": "ring", "params": {"size": _BACK}}
    return {
        "version": 1,
        "engine": engine,
        "links": {
            GEN: {"type": "source", "params": source},
            WIRE: wire,
            BACK: back,
            MEAS: {"type": "sink", "params": {}},
        },
        "nfs": {ROUTER: function},
        "segments": [
            {"name": "generator", "cpus": [traffic],
             "inputs": [{"link": GEN, "to": f"link:{WIRE}"}]},
            {"name": CHAIN, "cpus": [router],
             "inputs": [{"link": WIRE, "to": ROUTER, "port": 0}],
             "nodes": {ROUTER: {"forward": _targets(mode)}}},
            {"name": "measure", "cpus": [traffic],
             "inputs": [{"link": BACK, "to": f"link:{MEAS}"}]},
        ],
    }  # fmt: skip


def _targets(mode: Mode) -> Json:
    """Nobody speaks to the VNFs here: what would be punted is lost, and shows as such."""
    targets = {"out0": f"link:{BACK}"}
    return targets | {"punt": "drop"} if mode in LEARNING else targets


def _bare_metal(c: Comparison) -> Json:
    nets = prefixes(c.routes * c.vnfs)
    routes = [{"prefix": str(net), "next_hop": i % 2} for i, net in enumerate(nets)]
    hops = [{"edge": 0, "dst_mac": f"02:00:00:00:03:0{i}"} for i in range(2)]
    return {"type": "l3fwd", "params": {"next_hops": hops, "routes": routes}}


def _offload(c: Comparison) -> Json:
    neighbours = [
        {"address": gateway, "mac": f"02:00:00:00:03:0{i}"} for i, gateway in enumerate(GATEWAYS)
    ]
    vnfs = [
        {
            "name": f"v{i}",
            "learn": "fpm",
            "fpm_port": FPM_PORT + i,
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


def _summary(mode: Mode, rows: list[Json], of_all: dict[Mode, list[Json]]) -> Json:
    rates = [row["throughput_pps"] for row in rows]
    median = statistics.median(rates)
    cycles = [row["cycles_per_packet"] for row in rows if row["cycles_per_packet"]]
    return {
        "mode": mode,
        "throughput_pps": median,
        "spread": _spread(rates),
        "generator_bound": any(row["generator_bound"] for row in rows),
        "verdict": worst(row[key]["verdict"] for row in rows for key in ("audit", "load_audit")),
        "cycles_per_packet": statistics.median(cycles) if cycles else None,
        "of_bare_metal": ratio(rows, of_all.get("bare-metal"), _throughput),
        "times_conventional": _best_conventional(rows, of_all, _throughput),
        "of_still": _of_still(mode, rows, of_all, _throughput),
        "goals": {name: _goal(name, mode, rows, of_all) for name in rows[0]["goals"]},
        **{
            key: statistics.median(row[key] or 0 for row in rows)
            for key in ("updates_per_s", "load_pps", "loss_ratio", "unsent",
                        "latency_p50_ns", "latency_p99_ns", "ipdv_mean_ns")
        },
        "repetitions": rows,
    }  # fmt: skip


def _spread(rates: list[float]) -> float | None:
    median = statistics.median(rates)
    return (max(rates) - min(rates)) / median if median and len(rates) > 1 else None


def _throughput(row: Json) -> float:
    return float(row["throughput_pps"])


def ratio(rows: list[Json], base: list[Json] | None, of: Callable[[Json], float]) -> float | None:
    """The median over repetitions, each against the one measured beside it: what the machine does
    meanwhile changes slowly."""
    pairs = zip(rows, base or [], strict=False)
    ratios = [of(one) / of(other) for one, other in pairs if of(other)]
    return statistics.median(ratios) if ratios else None


def _best_conventional(
    rows: list[Json], of_all: dict[Mode, list[Json]], of: Callable[[Json], float]
) -> float | None:
    """Against the best mode of the conventional ones."""
    ratios = [
        ratio(rows, base, of) for mode, base in of_all.items() if mode.startswith(_CONVENTIONAL)
    ]
    return min((one for one in ratios if one is not None), default=None)


def _of_still(
    mode: Mode, rows: list[Json], of_all: dict[Mode, list[Json]], of: Callable[[Json], float]
) -> float | None:
    """What is left while routes change."""
    return ratio(rows, of_all.get("offload"), of) if mode == UPDATED else None


def _goal(name: str, mode: Mode, rows: list[Json], of_all: dict[Mode, list[Json]]) -> Json:
    def found(row: Json) -> float:
        return float(row["goals"][name]["pps"])

    rates = [found(row) for row in rows]
    median = statistics.median(rates)
    return {
        "loss_ratio": rows[0]["goals"][name]["loss_ratio"],
        "pps": median,
        "spread": _spread(rates),
        "generator_bound": any(row["goals"][name]["generator_bound"] for row in rows),
        "of_bare_metal": ratio(rows, of_all.get("bare-metal"), found),
        "times_conventional": _best_conventional(rows, of_all, found),
        "of_still": _of_still(mode, rows, of_all, found),
    }


def _words(row: Json) -> str:
    text = f"{row['throughput_pps'] / 1e6:.2f} Mpps, {row['updates_per_s']:.0f} updates/s"
    for name, found in row["goals"].items():
        text += f", {name} {found['pps'] / 1e6:.3f} Mpps"
    return text
