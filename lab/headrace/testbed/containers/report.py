# SPDX-License-Identifier: Apache-2.0
"""What a study of containers found: a table for the terminal, a page for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.table import Table

from headrace.graph import draw
from headrace.testbed.containers.bottleneck import Statement, statements
from headrace.testbed.containers.measure import Row

_STYLE = """body{font:15px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#123}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;text-align:left;
border-bottom:1px solid #dde}td.n{text-align:right;font-variant-numeric:tabular-nums}
.bar{background:#7aa7d8;height:.8em;display:inline-block}.suspect{background:#fff3d6}
.small{color:#678;font-size:85%}"""


def show(rows: Sequence[Row], console: Console) -> None:
    for found in statements(rows):
        table = Table(title=f"{found.network}: {found.workload}", title_justify="left", box=None)
        for heading in ("", "chain"):
            table.add_column(heading)
        for heading in ("req/s", "Gbit/s", "p50 ms", "p99 ms", ""):
            table.add_column(heading, justify="right")
        for row in _of(rows, found):
            table.add_row(row.point.role, row.point.name, *_figures(row))
        console.print(table)
        for sentence in _sentences(found):
            console.print(f"  {sentence}", markup=False, highlight=False)
        console.print()


def _of(rows: Sequence[Row], found: Statement) -> list[Row]:
    key = (found.network, found.workload)
    return [row for row in rows if (row.point.network, row.result.workload) == key]


def _sentences(found: Statement) -> list[str]:
    named = f"Bottleneck: {found.vnf}." if found.vnf else "No VNF can be named as the bottleneck."
    return [named, *found.sentences]


def _figures(row: Row) -> tuple[str, str, str, str, str]:
    application, latency = row.result.application, row.result.latency_ns
    assert application is not None  # every trial of this ground has one
    return (
        f"{application.requests_per_s:.0f}" if application.requests else "",
        f"{application.gbps:.3f}",
        f"{latency.p50 / 1e6:.2f}" if latency else "",
        f"{latency.p99 / 1e6:.2f}" if latency else "",
        "" if row.result.audit.trusted else row.result.audit.verdict,
    )


def page(name: str, description: str, rows: Sequence[Row]) -> str:
    """One self-contained page."""
    parts = [f"<h1>{escape(name)}</h1><p>{escape(description)}</p>"]
    parts.append(
        "<p class=small>HTTP is driven closed-loop by wrk: latency is the time of a request under "
        "so many connections, not under a set rate. All containers, clients and servers share this "
        "machine's CPUs.</p>"
    )
    for found in statements(rows):
        some = _of(rows, found)
        parts.append(f"<h2>{escape(found.network)}: {escape(found.workload)}</h2>")
        parts.append("".join(f"<p>{escape(s)}</p>" for s in _sentences(found)))
        parts.append(_table(some))
    parts.append("<h2>Evidence</h2>" + "".join(_evidence(row) for row in rows))
    parts.append("<h2>Chain graphs</h2>" + _pictures(rows))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(name)}</title>"
        f"<style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _table(rows: Sequence[Row]) -> str:
    most = max((r.result.application.gbps for r in rows if r.result.application), default=1) or 1
    lines = []
    for row in rows:
        application = row.result.application
        width = 220 * application.gbps / most if application else 0
        figures = _figures(row)
        cells = "".join(f"<td class=n>{escape(f)}</td>" for f in figures[:4])
        mark = "" if row.result.audit.trusted else " class=suspect"
        lines.append(
            f"<tr{mark}><td>{row.point.role}</td><td>{escape(row.point.name)}</td>{cells}"
            f"<td><span class=bar style='width:{width:.0f}px'></span></td>"
            f"<td>{figures[4]}</td></tr>"
        )
    return (
        "<table><tr><th></th><th>chain</th><th>requests/s</th><th>Gbit/s</th><th>p50 ms</th>"
        f"<th>p99 ms</th><th></th><th></th></tr>{''.join(lines)}</table>"
    )


def _evidence(row: Row) -> str:
    said = "".join(
        f"<li>{'' if f.ok else '<b>✗</b> '}{escape(f.text)}</li>" for f in row.result.audit.findings
    )
    title = f"{row.point.network}: {row.point.name}, repetition {row.result.repetition}"
    application = row.result.application
    cpu = ", ".join(f"{k} {v:.2f}" for k, v in application.cpu.items()) if application else ""
    return (
        f"<details><summary>{escape(title)}: {row.result.audit.verdict}</summary>"
        f"<ul>{said}<li>CPUs used: {escape(cpu)}</li></ul></details>"
    )


def _pictures(rows: Sequence[Row]) -> str:
    graphs = {r.point.name: r.point for r in rows if r.point.role == "chain" and r.point.graph}
    categories = {
        vertex: point.supplies[kind].definition.category
        for point in graphs.values()
        for vertex, kind in point.kinds.items()
    }
    return draw.svg([point.graph for point in graphs.values()], categories)
