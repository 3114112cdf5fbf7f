# SPDX-License-Identifier: Apache-2.0
"""The live page's three views and a folder's list in a real browser, on a phone and on screens."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from headrace.ground.contract import Deployed, Point
from headrace.live.bundles import Folder
from headrace.live.library import listing
from headrace.live.pages import VIEWS
from headrace.live.scene import Onlooker
from headrace.live.scene_test import Look, latency
from headrace.measure.observer import TrialBegun
from headrace.record.counters import (
    Counters,
    NfReading,
    ReplicaReading,
    RingReading,
    WorkerReading,
)
from headrace.record.moment import Moment, WayNow
from headrace.record.segments import Segment
from headrace.record.testdata import make_bundle
from headrace.report import browser_test
from headrace.report.browser_test import WIDTHS, look
from headrace.report.html import Served, render

pytestmark = browser_test.pytestmark
NFS = {"acl": "acl", "load-balancer": "lb", "l3fwd": "l3fwd"}
PPS = 23_456_789


def moment() -> Moment:
    """A pipeline at its limit, seen for a second, both of whose lcores something else had."""
    replicas = tuple(
        ReplicaReading(
            segment=name, index=0, cpu=1, packets_in=PPS, packets_out=PPS - 1234, polls=987_654,
            idle_polls=12_345, ops_cycles=830_000_000,
            nfs={
                name: NfReading(
                    type=kind, packets_in=PPS, dropped={"denied-by-default": 1234}, held_change=-17,
                    cycles=51_000_000, cycles_packets=1_234_567,
                )
            },
        )
        for name, kind in NFS.items()
    )  # fmt: skip
    times = [int(900 * 1.02**n) for n in range(500)]
    ways = tuple(
        WayNow(
            direction=direction, sending=True, sent_pps=PPS, received_pps=PPS - 3702,
            sent=4 * PPS, received=3 * PPS, latency=latency(times[: 400 + 100 * n]),
        )
        for n, direction in enumerate(("forward", "reverse"))
    )  # fmt: skip
    lcores = (("source.0", "sink.0"), tuple(f"{one}.0" for one in NFS))
    workers = tuple(
        WorkerReading(
            cpu=cpu, ref_cycles=2_600_000_000, ops_cycles=2_200_000_000 + cpu * 99_000_000,
            pauses_cycles=290_000_000, standstill_cycles=270_000_000, segments=segments,
        )
        for cpu, segments in enumerate(lcores)
    )  # fmt: skip
    links = ("wire-forward", "wire-backward", "acl-to-load-balancer", "load-balancer-to-l3fwd")
    return Moment(
        seconds=1.0, ways=ways,
        counters=Counters(
            tsc_hz=2_600_000_000, workers=workers, replicas=replicas,
            rings={name: RingReading(size=65_536, used=65_535, full=123_456) for name in links},
        ),
        dropped={f"{name}/denied-by-default": 1234 for name in NFS},
        dropped_ever={f"{name}/denied-by-default": 12_345_678 for name in NFS}
        | {f"{name}/full": 87_654_321 for name in links},
    )  # fmt: skip


def views() -> dict[str, str]:
    watching = Onlooker("quickstart", "runs/quickstart-20260115-100000")
    point = SimpleNamespace(
        chain="quickstart", execution="pipeline",
        segments=tuple(Segment(name=name, cpus=(1,)) for name in NFS),
    )  # fmt: skip
    watching.experiment("quickstart, pipeline, 64B 4096 flows", 2, 3)
    watching.deployed(
        cast(Point, point), cast(Deployed, SimpleNamespace(looking=lambda: Look(moment())))
    )
    watching.bounds({"ndr": (9.87e6, 11.2e6), "pdr": (10.1e6, 12.3e6)})
    watching.trial_begins(
        TrialBegun(number=7, phase="search", repetition=1, workload="64B", load_pps=1e7, seconds=2)
    )
    scene = watching.look()
    pages = (("/", "Overview"), ("/latency", "Latency"), ("/counters", "Counters"))
    links = tuple((title, address) for address, title in pages)
    return {
        name or "overview": render(one.document(scene, 1.0), Served(view=name, views=links))
        for name, one in VIEWS.items()
    }


def test_no_view_is_cut_off(tmp_path: Path) -> None:
    for name in ("quickstart-20260115-100000", "quickstart-20260116-235959"):
        make_bundle(tmp_path / "runs" / name)
    served = Served(search="", views=(("Runs", "/"),))
    runs = render(listing(Folder(tmp_path / "runs"), ""), served)
    faults = look(tmp_path, {**views(), "runs": runs})
    assert "\n".join(one for one in faults if "pictures" not in one) == ""
    drawn = {"overview": 2, "latency": 1, "counters": 1}
    told = {f"{name} {width}: pictures {n}" for name, n in drawn.items() for width in WIDTHS}
    assert told <= set(faults), faults
