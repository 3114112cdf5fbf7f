# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one file that needs nothing from the network."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from headrace.analyse import units
from headrace.analyse.document import Group, Report
from headrace.analyse.limits import name_of
from headrace.analyse.summary import Summary

from .charts import cycles, load, percentiles, throughput
from .charts import pipe as pipe_chart
from .charts.svg import NARROW, WIDE
from .evidence import Evidence, evidence


def render(report: Report, *, spec: str | None = None, layers: str = "") -> str:
    import jinja2  # only for whoever writes a page

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headrace.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        limit=name_of,
        pps=units.pps,
        ns=units.ns,
        count=units.count,
        percent=units.percent,
        loss=units.loss,
        exact_percent=units.exact_percent,
        significant=units.significant,
    )
    template = environment.get_template("report.html.j2")
    return template.render(
        report=report,
        groups=[_view(g) for g in report.groups],
        evidence=evidence(report),
        spec=spec,
        layers=Markup(layers),
        icon=Markup(page_icon()),
    )


def both(draw: Callable[[float], str]) -> Markup:
    """The picture for a wide and for a narrow screen: scaling one would shrink its text."""
    wide, narrow = draw(WIDE), draw(NARROW)
    if not wide:
        return Markup("")
    return Markup(f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>')


def _view(group: Group) -> dict[str, Any]:
    """What the template shows of a group, pictures included."""
    names = list(dict.fromkeys(s.key.execution for s in group.summaries))
    shown = sorted(
        (s for s in group.summaries if s.key.goal_text == group.primary),
        key=lambda s: names.index(s.key.execution),  # a prediction beside its measurement
    )
    drawn = [
        (c, s) for s in shown if (c := percentiles.curve(s.key.execution, s.results)) is not None
    ]
    curves = [c for c, _ in drawn]
    stacks = [
        st
        for e in group.explained
        if (st := cycles.stack(e.summary.key.execution, e.pipe)) is not None
    ]
    calibrated = [r.calibration for s in shown for r in s.results if r.calibration]
    below = any(r.below_floor for s in shown for r in s.results)
    floor = calibrated[0].floor_ns if calibrated and not below else None
    rates = units.rate_scale(max(s.throughput_pps.max for s in group.summaries))
    medians = [s.latency_ns["p50"].median for s in group.summaries if "p50" in s.latency_ns]
    return {
        "group": group,
        "best": best(shown),
        "rates": rates,
        "times": units.time_scale(min(medians, default=1.0)),
        "goal": next((g.typical.goal_parameters for g in shown if g.typical.goal_parameters), None),
        "pipes": [(e, both(partial(pipe_chart.draw, e.pipe))) for e in group.explained],
        "throughput": both(lambda w: throughput.draw(shown, w)),
        "latency": both(lambda w: percentiles.draw(curves, floor, w)),
        "curves": [(c, s.latency_ns["p50"].median) for c, s in drawn],
        "loads": both(partial(load.draw, load.series(group.summaries))),
        "cycles": both(lambda w: cycles.draw(stacks, w)),
        "colours": cycles.colours(stacks),
        "drops": _drops(shown),
        "application": [s for s in group.summaries if s.application],
        "rows": sorted(group.summaries, key=lambda s: names.index(s.key.execution)),
    }


def best(summaries: Sequence[Summary]) -> Summary | None:
    """The fastest that may be believed."""
    trusted = [s for s in summaries if s.trusted and s.key.ground == "measured"]
    return max(trusted, key=lambda s: s.throughput_pps.median, default=None)


def _drops(summaries: Sequence[Summary]) -> list[tuple[str, str, int, float]]:
    rows = []
    for s in summaries:
        sent = s.typical.sent or 1
        for place, n in sorted(s.typical.drops.items(), key=lambda item: -item[1]):
            rows.append((s.key.execution, place, n, n / sent))
    return rows


def page_icon() -> str:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2874b2" '
        'd="M0 3h5c2 0 2 3 4 3h7v4H9c-2 0-2 3-4 3H0z"/></svg>'
    )
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


__all__ = ["Evidence", "best", "both", "render"]
