# SPDX-License-Identifier: Apache-2.0
"""An ACL whose tables grow beyond the caches, at one load: Sieber et al. 2017, Towards Optimal
Adaptation of NFV Packet Processing to Modern CPU Memory Architectures, figures 6, 7a and 7b."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.model.amat import CacheLevel, fit
from headrace.profile import pmu_events
from headrace.profile import point as points
from headrace.profile.point import Bench, Json
from headrace.spec.profile import Settings, TablePoint, TableSweep

NF = "acl"
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
LOAD_PPS = 2e6
MEMORY_MB = 1536  # the largest table, and building it
_SMALL_MB, _LARGE = 512, 100_000
_RULE_BYTES = 96  # of five fields, which rte_acl keeps beside its tables


def measured(
    bench: Bench,
    folder: Path,
    caches: Sequence[CacheLevel],
    count: pmu_events.Count | None,
    say: Callable[[str], None],
) -> TableSweep:
    """`caches`: of the function's lcore; `count`: its PMU."""
    bare, _ = _point(bench, 1, folder, None)
    several: list[TablePoint] = []
    absent = {}
    for rules in SIZES:
        try:
            heap, one = _point(bench, rules, folder, count)
        except HeadraceError as why:  # less memory than the largest table needs
            absent[str(rules)] = str(why)
            continue
        size = heap - bare - _RULE_BYTES * (rules - 1)
        several.append(one.model_copy(update={"table_bytes": size}))
        say(f"{rules} rules, {size / 2**20:.1f} MB of tables: {one.cycles.median:.1f} cycles")
    curve = fit([(one.table_bytes, one.cycles.median) for one in several], caches)
    return TableSweep(load_pps=LOAD_PPS, points=tuple(several), fit=curve, absent=absent)


def _point(
    bench: Bench, rules: int, folder: Path, count: pmu_events.Count | None
) -> tuple[int, TablePoint]:
    """The engine's heap in bytes, and the point without its table's size."""
    data = study(rules, folder)
    one = points.prepare_at(bench, data, "apart", f"tables of {NF}")
    with points.running(bench, one, "apart", wait=False) as up:
        points.warm_up(up)
        heap = up.engine.info().heap_bytes
        trials = [up.trial(bench.seconds, LOAD_PPS) for _ in range(bench.repetitions)]
        counted = None if count is None else pmu_events.per_packet(up, count, LOAD_PPS)
    cycles = [sum(points.sampled(trial).nfs.values()) for trial in trials]
    busy = [trial.utilisation[str(bench.lcores[1])] for trial in trials]
    return heap, TablePoint(
        rules=rules,
        table_bytes=0,
        cycles=points.spread(cycles),
        utilisation=points.spread(busy),
        pmu=counted,
    )


def study(rules: int, folder: Path) -> Json:
    """Rules of whole addresses and ports, each with one flow, which come in another order: every
    packet walks the tries to a leaf of its own, and no cache of flows spares it that."""
    files = _files(rules, folder)
    params = {"rules_file": str(files["rules"]), "cache_flows": 0, "table_mb": 0}
    settings = Settings(state=rules, rules=rules, frame_bytes=64, burst=32, skew=0.0)
    data = points.study([{NF: params}], settings, {"tuples_file": str(files["flows"])}, "tables")
    del data["workload"]["flows"]  # the file has them
    data["deployment"]["memory_mb"] = MEMORY_MB if rules >= _LARGE else _SMALL_MB
    return data


def _files(rules: int, folder: Path) -> dict[str, Path]:
    draw = random.Random(rules)
    lines, flows = [], []
    for _ in range(rules):
        source, target = (draw.getrandbits(16) | base for base in (198 << 24 | 18 << 16, 20 << 24))
        ports = draw.randrange(1024, 65_000), draw.randrange(1, 65_000)
        a, b = IPv4Address(source), IPv4Address(target)
        lines.append(
            f"@{a}/32\t{b}/32\t{ports[0]} : {ports[0]}\t{ports[1]} : {ports[1]}\t0x11/0xFF"
        )
        flows.append(f"{source}\t{target}\t{ports[0]}\t{ports[1]}\t17")
    draw.shuffle(flows)
    files = {
        name: folder / f"table-{name}-{rules}" for name in ("rules", "flows")
    }  # not a recipe's
    for name, content in (("rules", lines), ("flows", flows)):
        files[name].write_text("\n".join(content) + "\n", encoding="utf-8")
    return files
