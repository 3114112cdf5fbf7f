# SPDX-License-Identifier: Apache-2.0
"""Trials of one mode of the comparison: at maximum rate, at the load, and a search."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.engine.accounts import books
from headrace.engine.counters import difference
from headrace.engine.engine import SHARE_MEASURING, Engine, set_share
from headrace.engine.figures import facts_of, settled_of
from headrace.engine.reading import Flow, flow, run
from headrace.errors import HeadraceError
from headrace.ground.offload.conventional import Conventional
from headrace.measure.audit import DISTURBED, audit, refused, unrefused
from headrace.measure.outcome import Limits, Outcome
from headrace.measure.search import search
from headrace.record.identity import Direction
from headrace.record.latency import latency
from headrace.record.verdict import Audit
from headrace.spec.offload import Comparison, Mode

Json = dict[str, Any]
FPM_PORT = 26200
GEN, MEAS, CHAIN, ROUTER = "gen", "meas", "chain", "fwd"
WIRE, BACK = "wire", "back"
GATEWAYS = ("10.255.0.1", "10.255.0.2")
LEARNING = ("offload", "offload-updates")
UPDATED = "offload-updates"
_WARM_S, _DRAIN_S, _READY_S = 0.5, 0.2, 60.0
_MIN_LOAD = 10e3


def measure(c: Comparison, mode: Mode, engine: Engine) -> Json:
    with _fed(c, mode, engine) as running:
        _trial(running, 0, _WARM_S)
        row = _at_most(c, mode, running) | _at_load(c, running)
        row["goals"] = _searched(c, running, row["sent_pps"]) if c.search else {}
    return row


def _at_most(c: Comparison, mode: Mode, engine: Engine) -> Json:
    """Saturation: what comes through of all that the generator can make."""
    before, began = _counts(engine, mode), time.monotonic()
    most = _trial(engine, 0, c.duration)
    after, seconds = _counts(engine, mode), time.monotonic() - began
    one = most.flow
    packets = after["packets"] - before["packets"]
    found = unrefused(most.audit, one.lost, one.sent)
    return {
        # Without what queues held at the end, which is a part of it where forwarding is slow.
        "throughput_pps": one.within / one.duration_s,
        "sent_pps": one.sent / one.duration_s,
        "generator_bound": not refused(one.lost, one.sent),
        "cycles_per_packet": (after["cycles"] - before["cycles"]) / packets if packets else None,
        "updates_per_s": (after["updates"] - before["updates"]) / seconds,
        "audit": found.model_dump(),
    }


def _at_load(c: Comparison, engine: Engine) -> Json:
    made = _trial(engine, c.load, c.duration)
    one, sink = made.flow, made.sink
    delays = latency(sink["latency"])
    return {
        "load_pps": one.sent / one.duration_s,
        "loss_ratio": one.lost / max(1, one.sent),
        "unsent": one.unsent,
        "latency_p50_ns": delays.p50 if delays else None,
        "latency_p99_ns": delays.p99 if delays else None,
        "ipdv_mean_ns": sink["ipdv_ns_mean"],
        "load_audit": made.audit.model_dump(),
    }


def _searched(c: Comparison, engine: Engine, most_pps: float) -> Json:
    """Loads up to what the generator was seen to make."""
    number = 0

    def one(load: float, seconds: float) -> Outcome:
        nonlocal number
        number += 1
        made = _trial(engine, load, seconds)
        found = made.flow
        failed = {f.check for f in made.audit.findings if not f.ok}
        disturbed = found.lost > 0 and bool(failed & DISTURBED)
        return Outcome(number, found.intended, found.sent, max(0, found.lost), disturbed)

    limits = Limits(min(_MIN_LOAD, most_pps / 2), most_pps, c.search_timeout)
    return {
        found.goal.name: {
            "loss_ratio": found.goal.loss_ratio,
            "pps": found.lower_pps or 0.0,
            "stopped_by": found.stopped_by,
            "generator_bound": found.generator_bound or found.stopped_by == "max-load",
        }
        for found in search(c.search, limits, one)
    }


@contextlib.contextmanager
def _fed(c: Comparison, mode: Mode, engine: Engine) -> Iterator[Engine]:
    """With the routes of the VNFs come over FPM, and changing where they shall."""
    if mode not in LEARNING:
        yield engine
        return
    ports = ",".join(str(FPM_PORT + i) for i in range(c.vnfs))
    rate = c.updates if mode == UPDATED else 0
    command = [sys.executable, "-m", "headrace.ground.offload.fpm", "--ports", ports]
    command += ["--routes", str(c.routes), "--rate", str(rate), "--seconds", "86400"]
    command += ["--gateways", ",".join(GATEWAYS)]
    feed = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    try:
        _await_routes(c, engine, feed)
        # Pollers would leave it a hundredth of a CPU, too little for the rate.
        set_share(feed.pid, SHARE_MEASURING)
        yield engine
    finally:
        feed.kill()
        feed.wait()


def _await_routes(c: Comparison, engine: Engine, feed: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _READY_S
    while any(v["ipv4_routes"] < c.routes for v in _show(engine)["vnfs"]):
        if time.monotonic() > deadline or feed.poll() is not None:
            raise HeadraceError("offload: the routes did not arrive over FPM")
        time.sleep(0.1)


def _show(engine: Engine) -> Json:
    shown: Json = engine.request("update", nf=ROUTER, op={"op": "show"})["reply"]
    return shown


def _counts(engine: Engine, mode: Mode) -> Json:
    """Of the lcore that routes: busy cycles and packets; and route changes taken in."""
    updates = sum(v["updates"] for v in _show(engine)["vnfs"]) if mode in LEARNING else 0
    if isinstance(engine, Conventional):
        return {"cycles": 0, "packets": 0, "updates": 0}
    [chain] = engine.request("read")["segments"][CHAIN]
    return {"cycles": chain["ops_cycles"], "packets": chain["in"], "updates": updates}


@dataclass(frozen=True)
class _Ends:
    source: str
    sink: str
    direction: Direction = "forward"


@dataclass(frozen=True)
class _Made:
    flow: Flow
    sink: Json
    audit: Audit


def _trial(engine: Engine, rate: float, seconds: float) -> _Made:
    """What a queue still holds at its end would be the next trial's: `run` waits for it."""
    ends = _Ends(GEN, MEAS)
    if isinstance(engine, Conventional):
        ends = _Ends(engine.source, engine.sink)
    reading = run(engine, (ends,), rate, seconds, _DRAIN_S)
    counters = difference(reading.before, reading.after, {"links": {}})
    settled = settled_of(books(reading.before, reading.after), reading, (ends,), 1)
    one = flow(reading, ends)
    first = next((n for n in (WIRE, "wire-forward") if n in reading.after["links"]), None)
    size = reading.after["links"][first]["size"] if first else 0
    wire = {"params": {"size": size}} if size else None
    facts = facts_of(reading, (ends,), counters, settled, one.lost, wire, {BACK, "back-forward"})
    return _Made(one, reading.after["links"][ends.sink], audit(facts))
