# SPDX-License-Identifier: Apache-2.0
"""How many servers of which type, as a document: cost against what they carry."""

from __future__ import annotations

from collections.abc import Callable

from headrace.analyse.units import plural, pps
from headrace.report.charts.curves import Axes, Series
from headrace.report.document_model import Cell, Column, Document, Row, Section, Table, curves
from headrace.spec.provision import HostedVnfs, Provision, ServersNeeded


def document(provision: Provision) -> Document:
    types = list(dict.fromkeys(row.server for row in provision.needs))
    blocks = tuple(
        curves(series, axes)
        for axes, series in (
            (
                Axes("Mpps carried", f"USD in {provision.hours:.0f} hours"),
                _series(provision, lambda row: row.usd),
            ),
            (Axes("Mpps carried", "physical cores"), _series(provision, lambda row: row.cores)),
            (
                Axes("Mpps carried", "µs, the slowest chain", log_y=True),
                _series(provision, lambda row: row.latency_us),
            ),
        )
        if any(len(one.points) > 1 for one in series)
    )
    return Document(
        title=f"Servers for {provision.study}",
        subtitle=f"{plural(len(types), 'type')} of server, none over {provision.busy:.0%} busy",
        sentence=_sentence(provision),
        cautions=(*_unmet(provision), _costs(provision), *provision.cautions),
        sections=(
            Section("Cost against throughput", "", (*blocks, _table(provision))),
            *_power(provision),
        ),
    )


def _series(provision: Provision, of: Callable[[ServersNeeded], float | None]) -> list[Series]:
    points: dict[str, list[tuple[float, float]]] = {}
    one_type = len({row.server for row in provision.needs}) == 1
    for row in provision.needs:
        value = of(row)
        if value is not None:
            points.setdefault(_way(row, one_type), []).append((row.rate_pps / 1e6, value))
    return [Series(name, tuple(each), marks=False) for name, each in points.items()]


def _way(row: ServersNeeded, one_type: bool) -> str:
    if row.hosted is None:
        return row.server
    way = f"{row.hosted.execution} {row.hosted.oversubscription}:1"
    return way if one_type else f"{row.server}, {way}"


def _power(provision: Provision) -> tuple[Section, ...]:
    """None where no description has watts."""
    rows = [(row, row.power) for row in provision.needs if row.power is not None]
    if not rows:
        return ()
    columns: tuple[Column | str, ...] = (
        Column("server", "text"),
        Column("of what is asked", "number"),
        Column("VNFs on each", "text", optional=True),
        Column("W, nothing runs", "number"),
        Column("W, no load", "number"),
        Column("W, all of the load", "text"),
        Column("T (weighted), Gbit/s", "number"),
        Column("P (weighted), W", "number"),
        Column("EER, Gbit/s per W", "text"),
    )
    lines = tuple(
        Row((
            row.server, row.factor, None if row.hosted is None else _vnfs(row.hosted),
            power.base_watts, power.loads[-1].watts,
            f"{power.loads[0].watts:.0f} ({power.loads[0].least:.0f} to {power.loads[0].most:.0f})",
            power.weighted_gbps, power.weighted_watts,
            f"{power.gbps_per_watt:.3g} ({power.eer_least:.3g} to {power.eer_most:.3g})",
        ))
        for row, power in rows
    )  # fmt: skip
    sources = dict.fromkeys(f"{row.server}, {text}" for row, p in rows for text in p.sources)
    note = (
        "Predicted, not measured: by the descriptions' idle and busy watts, and their spread. T, P "
        "and EER as draft-ietf-bmwg-powerbench-02 defines them, with weights of 0.1, 0.8 and 0.1 "
        "for 100, 30 and 0 % of the load, layer 2 with FCS; intervals of stabilising and measuring "
        "are none. " + " ".join(f"{text}." for text in sources)
    )
    return (Section("Power, predicted", note, (Table(columns, lines),)),)


def _sentence(provision: Provision) -> str:
    whole = [row for row in provision.needs if row.factor == 1.0]
    asked = [row for row in whole if row.servers is not None]
    priced = [row for row in asked if row.usd is not None]
    if not priced:
        none = "No type of server was met that carries what is asked."
        return none if whole and not asked else ""
    best = min(priced, key=lambda row: (row.usd or 0.0, row.cores or 0, row.watts or 0.0))
    types = len({row.server for row in priced})
    hosting = "" if best.hosted is None else f" with {_vnfs(best.hosted)},"
    return (
        f"The {pps(best.rate_pps)} that are asked need {plural(best.servers or 0, 'server')} "
        f"{best.server}, {best.paid},{hosting} for {best.usd:.0f} USD and "
        f"{plural(best.cores or 0, 'core')}, "
        f"the least of {plural(types, 'type')}; " + _fewer(best)
    )


def _fewer(row: ServersNeeded) -> str:
    if row.servers == 1:
        return "none needs less."
    return "one server less is refuted." if row.fewest else "fewer are not refuted."


def _costs(provision: Provision) -> str:
    power = "the power that bought servers draw is not counted"
    if provision.usd_per_kwh is not None:
        power = f"a kWh that bought servers draw costs {provision.usd_per_kwh:g} USD"
    return (
        f"Costs are of {provision.hours:.0f} hours of use, the less of what buying and renting a "
        f"server cost; {power}."
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
        Column("VNFs on each", "text", optional=True),
        Column("servers", "count"),
        Column("by their spread", "text", optional=True),
        Column("one less", "text"),
        Column("lcores", "count"),
        Column("at least", "count", optional=True),
        Column("by costs' spread", "text"),
        Column("cores", "count"),
        Column("slowest chain", "own-time"),
        Column("by costs' spread, µs", "text", optional=True),
        Column("USD", "text", optional=True),
        Column("W, predicted", "number", optional=True),
        Column("its limit", "text", optional=True),
        Column("Pareto", "text"),
    )
    return Table(columns, tuple(Row(_cells(row)) for row in provision.needs))


def _cells(row: ServersNeeded) -> tuple[Cell, ...]:
    if row.servers is None:
        return (row.server, row.factor, row.rate_pps, *[None] * 3, "does not fit", *[None] * 10)
    most = "more than there are" if row.lcores_most is None else str(row.lcores_most)
    return (
        row.server,
        row.factor,
        row.rate_pps,
        None if row.hosted is None else _vnfs(row.hosted),
        row.servers,
        _servers(row),
        None if row.servers == 1 else "refuted" if row.fewest else "not refuted",
        row.lcores,
        row.lcores_proven,
        f"{row.lcores_least} to {most}",
        row.cores,
        None if row.latency_us is None else row.latency_us * 1e3,
        _delays(row),
        _usd(row),
        row.watts,
        None if row.hosted is None else row.hosted.limit,
        "yes" if row.pareto else "",
    )


def _usd(row: ServersNeeded) -> str | None:
    if row.usd is None:
        return None
    spread = ""
    if row.usd_least is not None and row.usd_least != row.usd_most:
        most = "more" if row.usd_most is None else f"{row.usd_most:.0f}"
        spread = f" ({row.usd_least:.0f} to {most})"
    return f"{row.usd:.0f}{spread}, {row.paid}"


def _servers(row: ServersNeeded) -> str | None:
    """None: as many, whatever they cost."""
    if row.servers_least == row.servers_most == row.servers:
        return None
    most = "more" if row.servers_most is None else str(row.servers_most)
    return f"{row.servers_least} to {most}"


def _delays(row: ServersNeeded) -> str | None:
    if row.latency_least_us is None:
        return None
    most = "more" if row.latency_most_us is None else f"{row.latency_most_us:.3g}"
    return f"{row.latency_least_us:.3g} to {most}"


def _vnfs(hosted: HostedVnfs) -> str:
    if hosted.by_chain:
        each = (f"{name} {one.copies} × {one.vnfs}" for name, one in hosted.by_chain.items())
        return f"{', '.join(each)} VNFs at {hosted.oversubscription}:1"
    several = f"{hosted.chains} × {plural(hosted.vnfs, 'VNF')}"
    return f"{several} ({hosted.execution}) at {hosted.oversubscription}:1"
