# SPDX-License-Identifier: Apache-2.0
"""Pages in a real browser: on a phone, a desktop and a wide screen no label of a picture stands on
another one, is struck through or cut off, and nothing makes the page wider than its window."""

from __future__ import annotations

import html as escaping
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.analyse.bundle_report import report
from headrace.host.server.detect import detect
from headrace.record.bundle import Bundle, BundleWriter
from headrace.record.figures import LatencyFloor
from headrace.report import html, plan, server
from headrace.report.charts.bar_rows import Bar, Piece
from headrace.report.charts.bars import plain
from headrace.report.charts.curves import Axes, Band, Series
from headrace.report.charts.trend import Trend, TrendDot, TrendLine
from headrace.report.charts.trials import GoalBounds, SearchTrials, TrialDot
from headrace.report.document_model import Answer, Chart, Document, Section, curves
from headrace.report.document_model_test import of_a_paper
from headrace.report.measured import document
from headrace.report.side_by_side_test import ground
from headrace.report.side_by_side_test import shown as grounds
from headrace.spec.plan import ChainPlan, FunctionCost, LayoutPlan, Role, SegmentPlan

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE, DESKTOP, SCREEN = 390, 1300, 2000  # widths of windows, CSS pixels
WIDTHS = (PHONE, 800, DESKTOP, SCREEN)
# Boxes of texts are as high as a line: letters have a fifth of it free above and below.
LOOK = """
const found = [];
for (const frame of document.querySelectorAll('iframe')) {
  const inside = frame.contentDocument, root = inside.documentElement;
  const say = what => found.push(frame.title + ': ' + what);
  if (root.scrollWidth > root.clientWidth)
    say(`scrolls: ${root.scrollWidth} in ${root.clientWidth}`);
  for (const box of inside.querySelectorAll('.scroll, table, figure, .answer, dl, p'))
    if (box.clientWidth && box.scrollWidth > box.clientWidth + 1)
      say(`cut off: ${box.scrollWidth} in ${box.clientWidth}: <${box.tagName} ${box.className}> `
          + box.textContent.replace(/\\s+/g, ' ').slice(0, 60));
  for (const box of inside.querySelectorAll('.answer'))
    if (box.getBoundingClientRect().right - box.lastElementChild.getBoundingClientRect().right > 3)
      say('an empty cell beside ' + box.lastElementChild.textContent);
  let pictures = 0;
  for (const svg of inside.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;
    pictures++;
    const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim());
    const boxes = texts.map(t => t.getBoundingClientRect());
    boxes.forEach((a, i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 2)
        say('outside: ' + texts[i].textContent);
      boxes.slice(0, i).forEach((b, j) => {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 0.5 && high > 0.25 * Math.min(a.height, b.height))
          say(`overlap: ${texts[j].textContent} | ${texts[i].textContent}`);
      });
      for (const line of svg.querySelectorAll('line.squeeze')) {
        const b = line.getBoundingClientRect();
        const thick = parseFloat(getComputedStyle(line).strokeWidth) / 2;
        if (Math.min(a.right, b.right) > Math.max(a.left, b.left)
            && a.top < b.top + thick && a.bottom > b.top - thick)
          say('struck through: ' + texts[i].textContent);
      }
    });
  }
  say('pictures ' + pictures);
}
document.body.innerHTML = '<pre>' + JSON.stringify(found).replace(/</g, '&lt;') + '</pre>';
"""


def look(folder: Path, pages: dict[str, str], widths: Sequence[int] = WIDTHS) -> list[str]:
    """What is wrong with each page at each width, and how many pictures a reader sees there."""
    frames = "".join(
        f'<iframe title="{name} {width}" style="width:{width}px;height:900px;border:0" '
        f'srcdoc="{escaping.escape(page)}"></iframe>'
        for name, page in pages.items()
        for width in widths
    )
    file = folder / "look.html"
    script = f"<script>window.onload = () => {{ {LOOK} }};</script>"
    file.write_text(f"<!doctype html><meta charset=utf-8>{script}{frames}", encoding="utf-8")
    done = subprocess.run(
        [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", file.as_uri()],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    told = re.search(r"<body><pre>(.*)</pre>", done.stdout, re.DOTALL)
    assert told is not None, done.stderr[-2000:]
    faults: list[str] = json.loads(escaping.unescape(told[1]))
    return faults


pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        BROWSER is None,
        reason="pages cannot be looked at here: no chromium on PATH (apt: chromium)",
    ),
]


def planned() -> ChainPlan:
    def layout(role: Role, cut: dict[int, tuple[str, ...]], pps: float) -> LayoutPlan:
        return LayoutPlan(
            role=role,
            segments=tuple(SegmentPlan(functions=nfs, lcores=(cpu,)) for cpu, nfs in cut.items()),
            predicted_pps=pps,
            cycles_per_lcore={cpu: 2.5e9 / pps for cpu in cut},
            measured_pps=pps * 0.97,
            measured_min_pps=pps * 0.95,
            measured_max_pps=pps * 1.02,
        )

    nfs = ("acl", "lb", "l3fwd")
    return ChainPlan(
        chain="edge", workload="64 B, 1024 flows", lcores=(1, 2, 3), generator=0, measure=4,
        tsc_hz=2.5e9, how="every layout was tried", bound_pps=42e6, rate_pps=None,
        functions=(
            FunctionCost(name="acl", work=(40, 44), receive=(10, 20), send=(8, 21), loop=5),
        ),
        source=(58, 60), sink=(30, 33),
        layouts=(
            layout("best", {1: nfs[:2], 2: nfs[2:]}, 24e6),
            layout("rtc", {1: nfs}, 18.2e6),
            layout("pipeline", {1: nfs[:1], 2: nfs[1:2], 3: nfs[2:]}, 15.7e6),
        ),
    )  # fmt: skip


def test_a_plans_sentence_is_of_its_layouts() -> None:
    sentence = plan.document([planned()]).sentence.replace("\u202f", " ")
    assert sentence == (
        "acl+lb @1 | l3fwd @2 is the best layout: 24.0 Mpps predicted, 1.32 times run to "
        "completion; 23.3 Mpps measured, the prediction errs by +3.1 %."
    )


def profiled() -> Chart:
    """Cycles over entries, from a hundred to a million."""
    points = tuple((10.0**n, 20.0 + 2**n) for n in range(2, 7))
    bands = (Band("fits L1", 0, 6e3), Band("fits L2", 6e3, 25e4), Band("fits L3", 25e4, None))
    series = (Series("measured", points), Series("model", points, marks=False))
    return curves(series, Axes("entries", "cycles per packet", "count"), bands)


def trend() -> Trend:
    """Its highest figure is the axis' last mark."""
    dots = tuple(TrendDot(n, 1e6, 1e6, 1e6, True) for n in range(2))
    return Trend(("first", "second"), (TrendLine("rtc", dots), TrendLine("pipeline", dots)))


def searched() -> SearchTrials:
    """Its highest load is the axis' last mark, below the axis' name."""
    dots = tuple(TrialDot(n, 6e7 / n, 0.0, "ok") for n in range(1, 9))
    return SearchTrials(dots, (GoalBounds("ndr", 1e7, 1.1e7), GoalBounds("pdr", 1e7, 1.2e7)))


@pytest.fixture
def pages(bundle_path: Path, tmp_path: Path) -> dict[str, str]:
    first = Bundle(bundle_path).results()

    def with_rows(name: str, *changes: dict[str, Any]) -> Document:
        with BundleWriter(tmp_path / name) as w:
            for one in changes:
                for r in first:
                    if r.goal == "ndr" and r.ground == "measured":
                        w.result(r.model_copy(update=one))
        return document(report(Bundle(tmp_path / name)))

    near = [{"calibration": LatencyFloor(floor_ns=15.0)}]  # its name is above the axis's labels
    times = [{"goal": "fixed", "goal_parameters": None, "load_pps": pps} for pps in (1e6, 2e6, 4e6)]
    answers = tuple(Answer("1", str(n)) for n in range(5))  # an odd number in a phone's two columns
    shown = {
        "answers": Document("a", answers=answers),
        "trend": Document("t", sections=(Section("s", blocks=(Chart(trend()),)),)),
        "search": Document("t", sections=(Section("s", blocks=(Chart(searched()),)),)),
        "run": document(report(Bundle(bundle_path)), spec="a: 1"),
        "workloads": with_rows(
            "workloads", *({"workload": f"{n} B, 1 flow"} for n in (64, 512, 1518))
        ),
        "loads": with_rows("loads", *times),
        "floor": with_rows("floor", *near),
        "plan": plan.document([planned(), planned().model_copy(update={"rate_pps": 12e6})]),
        "profile": Document("p", sections=(Section("State", blocks=(profiled(),)),)),
        "paper": of_a_paper(),
        "grounds": grounds(
            [ground(tmp_path, "measured", [1.0, 6.1]), ground(tmp_path, "predicted", [2.0, 8.0])]
        ),
        "server": server.document(detect()),
    }
    return {name: html.render(one) for name, one in shown.items()}


def test_no_label_stands_on_another_and_nothing_is_cut_off(
    pages: dict[str, str], tmp_path: Path
) -> None:
    faults = look(tmp_path, pages)
    assert "\n".join(one for one in faults if "pictures" not in one) == ""
    assert {f"run {width}: pictures 6" for width in WIDTHS} <= set(faults)


def test_what_is_wrong_is_seen(tmp_path: Path) -> None:
    """The browser finds what it is to look for."""
    bars = [Bar("a", (Piece("a", 1.0),)), Bar("b", (Piece("b", 2.0),))]
    page = html.render(Document("t", sections=(Section("s", blocks=(Chart(plain(bars, "x")),)),)))
    assert look(tmp_path, {"good": page}) == [f"good {width}: pictures 1" for width in WIDTHS]
    wrong = {
        "over": re.sub(r'(<text [^>]*)y="[\d.]+"', r'\1y="20"', page),
        "wide": page.replace("<main>", '<main><div style="width:3000px">x</div>'),
        "hole": page.replace(
            "<main>",
            '<main><div class="answer" style="display: grid; grid-template-columns: 1fr 1fr">'
            "<div>a</div><div>b</div><div>c</div></div>",
        ),
        "out": re.sub(r'(<text [^>]*)x="[\d.]+"', r'\1x="-90"', page),
    }
    faults = look(tmp_path, wrong, [DESKTOP])
    for name, what in (
        ("over", "overlap"),
        ("wide", "scrolls"),
        ("out", "outside"),
        ("hole", "an empty cell beside c"),
    ):
        assert any(one.startswith(f"{name} {DESKTOP}: {what}") for one in faults), faults
