# SPDX-License-Identifier: Apache-2.0
"""NfvInsight's metrics of a window, against the same facts read another way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from provoked import pair, running, until

from headrace.collect.layers import Goodput, LayerFigure, Windows, figures
from headrace.collect.stack.tracer import why_not
from headrace.collect.watch import STACK, STACK_ABSENT, TRIALS, targets_of, watching
from headrace.report.document_model import Document, Section
from headrace.report.html import render
from headrace.report.layers import Layers, read, shown
from headrace.spec.collect import ALL_LAYERS, Collect
from support.netns import Lan, ip

pytestmark = pytest.mark.needs_root

# 13 of NfvInsight, and CPU time by core beside IPC and cache misses.
NAMES = [
    "request latency", "bandwidth",
    "CPU", "memory", "virtual devices' bandwidth",
    "flow entries", "CPU",
    "system calls", "context switches", "softirq time", "stack latency",
    "CPU time", "IPC", "cache misses",
]  # fmt: skip
CALLS = 300_000
# Sends of 1000 bytes, then so many system calls; says what it used and waits to be ended.
WORK = f"""
import os, resource, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(3000):
    s.sendto(bytes(1000), ('10.76.0.1', 7000))
for _ in range({CALLS}):
    os.getppid()
sys.stdin.readline()
"""


def page_of(layers: Layers, title: str = "") -> str:
    return render(Document("t", sections=(Section(title, blocks=tuple(shown(layers))),)))


def by_name(all_figures: list[LayerFigure], layer: str, name: str) -> LayerFigure:
    return next(f for f in all_figures if (f.layer, f.name) == (layer, name))


def received(namespace: str) -> int:
    (link,) = json.loads(ip("-n", namespace, "-s", "-j", "link", "show", "dev", "va"))
    return int(link["stats64"]["rx"]["bytes"])


def test_a_trials_figures_agree_with_other_readings(tmp_path: Path, lan: Lan) -> None:
    a, b = pair(lan)
    inside = ["ip", "netns", "exec"]
    folder = tmp_path / "samples"
    wanted = Collect(layers=ALL_LAYERS, period=0.5, trace=1.0)
    with running(*inside, a, "sleep", "120") as sink:
        until(lambda: Path(f"/proc/{sink.pid}/comm").read_text() == "sleep\n")
        with watching(wanted, targets_of({"sink": sink.pid}), folder) as watch:
            time.sleep(0.3)
            with watch.trial(1):
                before, began = received(a), time.monotonic()
                work = subprocess.Popen(
                    [*inside, b, sys.executable, "-c", WORK], stdin=subprocess.PIPE
                )
                work.communicate(b"\n")
                after, seconds = received(a), time.monotonic() - began
    (trial,) = json.loads((folder / TRIALS).read_text())
    all_figures = figures(
        Windows.of(folder, trial["begin_ns"], trial["end_ns"]), Goodput(1.0, 0.002), None
    )
    assert [f.name for f in all_figures] == NAMES
    window = (trial["end_ns"] - trial["begin_ns"]) / 1e9
    bandwidth = by_name(all_figures, "virtualization", "virtual devices' bandwidth")
    # Of the same bytes; the window is longer by the samples at its ends.
    assert bandwidth.value is not None
    assert after - before > 3_000_000
    got = bandwidth.value * Windows.of(
        folder, trial["begin_ns"], trial["end_ns"]
    ).virtualization.seconds / 8e-9  # fmt: skip
    assert got == pytest.approx(after - before, rel=0.02)
    calls = by_name(all_figures, "os", "system calls")
    if calls.value is None:
        assert calls.absent
    else:
        assert calls.value * window >= CALLS * 0.98
    assert window >= seconds
    for f in all_figures:
        assert f.value is not None or f.absent, f.name


def test_what_cannot_be_traced_is_said_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_TRACE", "/bin/false")
    wanted = Collect(layers=("os",), period=0.1, trace=0.5)
    with watching(wanted, targets_of({"self": os.getpid()}), tmp_path) as watch, watch.trial(3):
        pass
    assert (tmp_path / STACK_ABSENT).read_text().strip()
    assert not (tmp_path / STACK).exists()
    layers = read(tmp_path, {3: Goodput(2.5, None)})
    assert layers is not None
    page = page_of(layers, "x < y")
    assert "x &lt; y" in page and "Not traced" in page and "2.5 Gbit/s" in page


def test_places_are_of_the_trial_that_is_named() -> None:
    """The median of two trials is neither's, and each place belongs to one of them."""

    def one(value: float | None, detail: str) -> list[LayerFigure]:
        return [LayerFigure("virtualization", "CPU", value, "CPUs", detail, absent="gone")]

    trials = {3: one(1.0, "cache 1"), 4: one(3.0, "cache 3"), 5: one(None, "")}
    page = page_of(Layers(trials, {}, "off", {}, ()))
    assert [">2 CPUs</td>" in page, ">trial 3, 1 CPUs: cache 1</td>" in page] == [True, True]
    alone = page_of(Layers({3: trials[3]}, {}, "off", {}, ()))
    assert "median of 1 trial<" in alone and ">1 CPUs</td>" in alone and ">cache 1</td>" in alone


def test_the_pictures_are_of_what_was_traced(tmp_path: Path, lan: Lan) -> None:
    why = why_not()
    if why is not None:
        pytest.skip(f"packets cannot be traced here: {why}")
    a, _ = pair(lan)
    wanted = Collect(layers=("os", "hardware"), period=0.2, trace=1.0)
    with watching(wanted, targets_of({"self": os.getpid()}), tmp_path) as watch, watch.trial(1):
        lan.inside(a, "ping", "-q", "-f", "-c", "500", "10.76.0.2")
    layers = read(tmp_path, {})
    assert layers is not None and layers.stacks
    page = page_of(layers, "traced")
    assert "net_dev_queue → net_dev_start_xmit" in page
    assert "CPU 0" in page and "NET_RX" in page
    assert "stack tracer" in page  # what it cost
    latency = by_name(layers.trials[1], "os", "stack latency")
    assert latency.value and latency.value > 0
