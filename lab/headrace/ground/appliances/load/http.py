# SPDX-License-Identifier: Apache-2.0
"""HTTP by wrk or h2load, with a set share of repeated requests."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import numpy as np

from headrace.errors import HeadraceError
from headrace.ground.appliances.addressing import PORT
from headrace.ground.appliances.graph import ApplianceGraph
from headrace.ground.appliances.load.reported import GRACE_S, Load, whole_seconds
from headrace.record.figures import LatencyNs
from headrace.spec.workload import Http

_MARK = "headrace "
_TIMES_FOLLOW = "-- times"
_URIS = 4000
_TIMES, _LIST = "/tmp/times", "/tmp/uris"


def http(deployed: ApplianceGraph, workload: Http, seconds: float, seed: int) -> Load:
    if workload.generator == "h2load":
        return _h2load(deployed, workload, whole_seconds(seconds), seed)
    return _wrk(deployed, workload, whole_seconds(seconds), seed)


def _wrk(deployed: ApplianceGraph, workload: Http, seconds: int, seed: int) -> Load:
    text = deployed.client(
        "wrk", f"-t{workload.threads}", f"-c{workload.connections}", f"-d{seconds}s",
        "-s", "/headrace/http.lua", f"http://{deployed.layout.target}:{PORT}", "--",
        str(workload.object_kb), str(workload.repeated), str(workload.hot_objects), str(seed),
        str(workload.connections),
        timeout_s=seconds + GRACE_S,
    )  # fmt: skip
    marked = next((line for line in text.splitlines() if line.startswith(_MARK)), None)
    if marked is None:
        raise HeadraceError("wrk: ended without a result")
    result = json.loads(marked[len(_MARK) :])
    latency = {key: value * 1000.0 for key, value in result["latency_us"].items()}
    return Load(
        duration_s=result["duration_us"] / 1e6,
        bytes=result["bytes"],
        requests=result["requests"],
        errors=sum(result["errors"].values()),
        latency=LatencyNs(**latency) if result["requests"] else None,
    )


def _h2load(deployed: ApplianceGraph, workload: Http, seconds: int, seed: int) -> Load:
    """h2load over HTTP/1.1; latency from its log of every request.

    Each of its connections asks for the same list of names in turn, over and over: a name that is
    not hot comes again, and is no hit, since the servers forbid to store it.
    """
    root = f"http://{deployed.layout.target}:{PORT}"
    names = deployed.state.path / "uris"
    names.write_text(uris(workload, root, seed) + "\n", encoding="ascii")
    deployed.give(names, _LIST)
    text = deployed.client(
        "sh", "-c",
        f"rm -f {_TIMES}; h2load --h1 -t {workload.threads} -c {workload.connections} "
        f"-D {seconds} -i {_LIST} --log-file={_TIMES} && echo '{_TIMES_FOLLOW}' && cat {_TIMES}",
        timeout_s=seconds + GRACE_S,
    )  # fmt: skip
    summary, _, log = text.partition(_TIMES_FOLLOW)
    rows = [line.split("\t") for line in log.splitlines() if line.count("\t") == 2]
    if not rows or "finished in" not in summary:
        raise HeadraceError("h2load: ended without a result")
    # Lines: start of the request (us), status, duration (us).
    good = [int(us) for _, status, us in rows if status == "200"]
    return Load(
        duration_s=float(seconds),
        bytes=_traffic(summary),
        requests=len(good),
        errors=len(rows) - len(good),
        latency=_latency(good),
    )


def uris(workload: Http, root: str, seed: int) -> str:
    """One per line; `repeated` of them are of the hot objects, in random order."""
    draw = random.Random(seed)
    hot = set(draw.sample(range(_URIS), round(workload.repeated * _URIS)))
    names = (
        f"hot-{draw.randrange(workload.hot_objects) + 1}" if i in hot else f"{seed}-0-{i}"
        for i in range(_URIS)
    )
    return "\n".join(f"{root}/o/{workload.object_kb}/{name}" for name in names)


def _traffic(summary: str) -> int:
    """`traffic: 84.05MB (88132380) total, ...`"""
    line = next((x for x in summary.splitlines() if x.startswith("traffic:")), "")
    inside = line.partition("(")[2].partition(")")[0]
    return int(inside) if inside.isdigit() else 0


def _latency(us: Sequence[int]) -> LatencyNs | None:
    if not us:
        return None
    ns = np.asarray(us, dtype=float) * 1000
    p50, p90, p99, p999 = (float(v) for v in np.percentile(ns, [50, 90, 99, 99.9]))
    return LatencyNs(
        mean=float(ns.mean()), min=float(ns.min()), p50=p50, p90=p90, p99=p99, p999=p999,
        max=float(ns.max()),
    )  # fmt: skip
