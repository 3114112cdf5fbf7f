# SPDX-License-Identifier: Apache-2.0
"""What a study of containers found: a table for the terminal, a page for a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from rich.console import Console
from rich.table import Table

from headrace.analyse.appliances import compared, scale_up, scaled_out
from headrace.analyse.compared import Compared
from headrace.analyse.reached import Reached
from headrace.analyse.units import exact_percent, percent
from headrace.graph import draw
from headrace.graph.knowledge import Category
from headrace.record.deployment import DeployedGraph
from headrace.record.figures import ApplicationFigures
from headrace.record.rows import Result

_STYLE = """body{font:15px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#123}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;text-align:left;
border-bottom:1px solid #dde}th,td:first-child,td.n{white-space:nowrap}td.n{text-align:right;
font-variant-numeric:tabular-nums}
.bar{background:#7aa7d8;height:.8em;display:inline-block}.suspect{background:#fff3d6}
.small{color:#678;font-size:85%}"""


def show(found: Sequence[Reached], console: Console) -> None:
    for statement in compared(found):
        title = f"{statement.network}: {statement.workload}"
        table = Table(title=title, title_justify="left", box=None)
        for heading in ("", "chain"):
            table.add_column(heading)
        figures = [_figures(one) for one in _of(found, statement)]
        used = [i for i in range(len(_HEADINGS)) if any(row[i] for row in figures)]
        for i in used:
            table.add_column(_HEADINGS[i], justify="right", no_wrap=True)
        table.add_column("", justify="right")
        for one, row in zip(_of(found, statement), figures, strict=True):
            table.add_row(one.deployed.role, one.deployed.chain, *(row[i] for i in used), row[-1])
        console.print(table)
        for sentence in statement.lines:
            console.print(f"  {sentence}", markup=False, highlight=False)
        console.print()
    for sentence in scale_up(found):
        console.print(sentence, markup=False, highlight=False)


_HEADINGS = ("rate", "spread", "to servers", "to clients", "hits", "p50 ms", "p99 ms")


def _of(found: Sequence[Reached], statement: Compared) -> list[Reached]:
    key = (statement.network, statement.workload)
    return [one for one in found if (one.deployed.network, one.workload) == key]


def _gbps(value: float | None) -> str:
    return f"{value:.3f}" if value is not None else ""


def _hits(one: Reached) -> str:
    """What the chain's first cache answered itself, of what it was to."""
    ratio, asked = one.of_application("hit_ratio"), one.of_application("hit_ratio_asked")
    if ratio is None or asked is None:
        return ""
    return f"{percent(ratio, 2)} of {exact_percent(asked)}"


def _figures(one: Reached) -> tuple[str, ...]:
    """One for each heading, then the verdict."""
    p50, p99 = one.latency_ms("p50"), one.latency_ms("p99")
    return (
        str(one.rate),
        percent(one.rate.spread, 2) if len(one.results) > 1 else "",
        _gbps(one.of_application("to_servers_gbps")),
        _gbps(one.of_application("to_clients_gbps")),
        _hits(one),
        f"{p50:.2f}" if p50 is not None else "",
        f"{p99:.2f}" if p99 is not None else "",
        one.verdict,
    )


def page(
    name: str, description: str, found: Sequence[Reached], seconds: str = "", layers: str = ""
) -> str:
    """One self-contained page."""
    parts = [f"<h1>{escape(name)}</h1><p>{escape(description)}</p>"]
    parts.append(
        "<p class=small>HTTP is driven closed-loop: latency is the time of a request under "
        "so many connections, not under a set rate. All containers, clients and servers share this "
        "machine's CPUs.</p>"
    )
    parts.append(
        "<p class=small>Medians over the repetitions; the spread is from the lowest to the highest "
        "of them, relative to the median. A rate in Gbit/s is goodput: payload that arrived (of "
        "HTTP with its headers). To servers and to clients: Gbit/s of frames in each direction, "
        "acknowledgements and all, as they arrive at the interfaces there. Hits: the share of "
        "requests that the chain's first cache answered itself, of that which was asked for.</p>"
    )
    for statement in compared(found):
        title = f"{statement.network}: {statement.workload}"
        parts.append(f"<h2>{escape(title)}</h2>")
        parts.append("".join(f"<p>{escape(s)}</p>" for s in statement.lines))
        parts.append(_table(_of(found, statement)))
        parts.append(_scaled(_of(found, statement)))
    parts.append(_networks(found))
    if sentences := scale_up(found):
        parts.append("<h2>Scaling up</h2>" + "".join(f"<p>{escape(s)}</p>" for s in sentences))
    if seconds:
        parts.append(f"<h2>Time</h2><p>{escape(seconds)}</p>")
    if layers:
        parts.append(f"<h2>Layers</h2>{layers}")
    parts.append(
        "<h2>Evidence</h2>"
        + "".join(_evidence(one.deployed, result) for one in found for result in one.results)
    )
    parts.append("<h2>Chain graphs</h2>" + _pictures(found))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(name)}</title>"
        f"<style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _table(found: Sequence[Reached]) -> str:
    most = max((one.rate.median for one in found), default=1) or 1
    lines = []
    for one in found:
        figures = _figures(one)
        cells = "".join(f"<td class=n>{escape(f)}</td>" for f in figures[:-1])
        mark = " class=suspect" if one.verdict else ""
        lines.append(
            f"<tr{mark}><td>{one.deployed.role}</td><td>{escape(one.deployed.chain)}</td>{cells}"
            f"<td><span class=bar style='width:{220 * one.rate.median / most:.0f}px'></span></td>"
            f"<td>{figures[-1]}</td></tr>"
        )
    heads = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    return (
        f"<table><tr><th></th><th>chain</th>{heads}<th></th><th></th></tr>{''.join(lines)}</table>"
    )


def _scaled(found: Sequence[Reached]) -> str:
    """Each VNF that was scaled out: what its chain reached with so many instances."""
    lines = []
    for (vnf, chain), by_count in scaled_out(found).items():
        least = next(iter(by_count.values())).rate
        for count, one in by_count.items():
            *own, verdict = _figures(one)
            times = f"{1 + one.rate.gain(least):.2f}" if least.median else ""
            figures = (str(count), times, *own)
            cells = "".join(f"<td class=n>{escape(figure)}</td>" for figure in figures)
            mark = " class=suspect" if verdict else ""
            lines.append(
                f"<tr{mark}><td>{escape(vnf)}</td><td>{escape(chain)}</td>"
                f"{cells}<td>{verdict}</td></tr>"
            )
    if not lines:
        return ""
    heads = "".join(f"<th>{h}</th>" for h in ("VNF", "chain", "instances", "times", *_HEADINGS, ""))
    return f"<h3>Scaled out</h3><table><tr>{heads}</tr>{''.join(lines)}</table>"


def _networks(found: Sequence[Reached]) -> str:
    """The same chain on each network, side by side."""
    networks = list(dict.fromkeys(one.deployed.network for one in found))
    if len(networks) < 2:
        return ""
    parts = ["<h2>Networks</h2>"]
    for workload in dict.fromkeys(one.workload for one in found):
        lines: dict[tuple[str, str], dict[str, Reached]] = {}
        for one in found:
            if one.workload == workload:
                place = lines.setdefault((one.deployed.role, one.deployed.chain), {})
                place[one.deployed.network] = one
        parts.append(f"<h3>{escape(workload)}</h3>" + _side_by_side(networks, lines))
    return "".join(parts)


def _side_by_side(
    networks: Sequence[str], lines: Mapping[tuple[str, str], Mapping[str, Reached]]
) -> str:
    first, *others = networks
    heads = "".join(f"<th>{n}</th>" for n in networks)
    heads += "".join(f"<th>{n} / {first}</th>" for n in others)
    rows = []
    for (role, name), by in lines.items():
        cells = [str(by[n].rate) if n in by else "" for n in networks]
        for other in others:
            both = first in by and other in by and by[first].rate.median
            cells.append(f"{by[other].rate.median / by[first].rate.median:.2f}" if both else "")
        text = "".join(f"<td class=n>{escape(cell)}</td>" for cell in cells)
        rows.append(f"<tr><td>{role}</td><td>{escape(name)}</td>{text}</tr>")
    return f"<table><tr><th></th><th>chain</th>{heads}</tr>{''.join(rows)}</table>"


def _evidence(deployed: DeployedGraph, result: Result) -> str:
    items = "".join(
        f"<li>{'' if f.ok else '<b>✗</b> '}{escape(f.text)}</li>" for f in result.audit.findings
    )
    title = f"{deployed.network}: {deployed.chain}, repetition {result.repetition}"
    cpu = "".join(f"<li>{escape(line)}</li>" for line in _used(result.application))
    return (
        f"<details><summary>{escape(title)}: {result.audit.verdict}</summary>"
        f"<ul>{items}{cpu}</ul></details>"
    )


def _used(application: ApplicationFigures | None) -> list[str]:
    if application is None:
        return []
    listed = {
        "CPUs used by processes": (application.cpu, ".2f"),
        "CPUs used by the kernel's stack, on packets of": (application.stack, ".2f"),
        "Share used of the CPU allowed (`cpus`)": (application.quota, ".0%"),
        "Cycles for each packet received": (application.cycles, ".0f"),
    }
    return [
        f"{title}: " + ", ".join(f"{name} {value:{digits}}" for name, value in values.items())
        for title, (values, digits) in listed.items()
        if values
    ]


def _pictures(found: Sequence[Reached]) -> str:
    chains = [one.deployed for one in found if one.deployed.role == "chain" and one.deployed.graph]
    graphs = {one.chain: one.graph for one in chains}
    categories = {v: Category(c) for one in chains for v, c in one.categories.items()}
    return draw.svg(list(graphs.values()), categories)
