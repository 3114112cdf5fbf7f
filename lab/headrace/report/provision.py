# SPDX-License-Identifier: Apache-2.0
"""How many servers of which type, as a document: cost against what they carry."""

from __future__ import annotations

from headrace.analyse.units import plural, pps
from headrace.report.charts.curves import Axes, Series
from headrace.report.document_model import Cell, Column, Document, Row, Section, Table, curves
from headrace.spec.provision import Provision, ServersNeeded


def document(provision: Provision) -> Document:
    types = list(dict.fromkeys(row.server for row in provision.needs))
    series = [
        Series(
            name,
            tuple(
                (row.rate_pps / 1e6, row.usd)
                for row in provision.needs
                if row.server == name and row.usd is not None
            ),
        )
        for name in types
    ]
    charts = (curves(series, Axes("Mpps carried", "USD of servers")),)
    blocks = charts if any(len(one.points) > 1 for one in series) else ()
    return Document(
        title=f"Servers for {provision.study}",
        subtitle=f"{plural(len(types), 'type')} of server, none over {provision.busy:.0%} busy",
        sentence=_sentence(provision),
        cautions=(*_unmet(provision), *provision.cautions),
        sections=(Section("Cost against throughput", "", (*blocks, _table(provision))),),
    )


def _sentence(provision: Provision) -> str:
    whole = [row for row in provision.needs if row.factor == 1.0]
    asked = [row for row in whole if row.servers is not None]
    priced = [row for row in asked if row.usd is not None]
    if not priced:
        none = "No type of server was met that carries what is asked."
        return none if whole and not asked else ""
    best = min(priced, key=lambda row: (row.usd or 0.0, row.watts or 0.0))
    return (
        f"The {pps(best.rate_pps)} that are asked need {plural(best.servers or 0, 'server')} "
        f"{best.server}, for {best.usd:.0f} USD, the least of {plural(len(priced), 'type')}; "
        + ("one server less is refuted." if best.fewest else "fewer are not refuted.")
    )


def _unmet(provision: Provision) -> tuple[str, ...]:
    return tuple(
        f"{row.factor:g} times what is asked does not fit on {row.server}: {row.why_not}."
        for row in provision.needs
        if row.servers is None
    )


def _table(provision: Provision) -> Table:
    columns: tuple[Column | str, ...] = (
        Column("server", "text"),
        Column("of what is asked", "number"),
        Column("in all", "own-rate"),
        Column("servers", "count"),
        Column("one less", "text"),
        Column("lcores", "count"),
        Column("at least", "count"),
        Column("by costs' spread", "text"),
        Column("slowest chain", "own-time"),
        Column("USD", "count", optional=True),
        Column("W, predicted", "number", optional=True),
        Column("Pareto", "text"),
    )
    return Table(columns, tuple(Row(_cells(row)) for row in provision.needs))


def _cells(row: ServersNeeded) -> tuple[Cell, ...]:
    if row.servers is None:
        return (row.server, row.factor, row.rate_pps, None, "does not fit", *[None] * 7)
    most = "more servers" if row.lcores_most is None else str(row.lcores_most)
    return (
        row.server,
        row.factor,
        row.rate_pps,
        row.servers,
        "refuted" if row.fewest else "not refuted",
        row.lcores,
        row.lcores_proven,
        f"{row.lcores_least} to {most}",
        None if row.latency_us is None else row.latency_us * 1e3,
        None if row.usd is None else round(row.usd),
        row.watts,
        "yes" if row.pareto else "",
    )
