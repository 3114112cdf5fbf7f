# SPDX-License-Identifier: Apache-2.0
"""Published tables beside a model of what they measured: fitted on the points that a study names,
predicted at all others, and without the rows that an audit would reject."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.analyse.published_poller import QUANTILES, clocked_mpps, polled_us
from headrace.errors import BadInput
from headrace.host.store import server_named
from headrace.model.fitting import Unknown, Values, allowed, fitted
from headrace.model.vswitch import SwitchCosts, SwitchedChains, switched_mpps
from headrace.record.published import FittedPoint, FittedTable, RejectedRow
from headrace.spec.described import DescribedServer, read_server
from headrace.spec.document import Document
from headrace.spec.fit import PublishedFit

Row = Mapping[str, str]
Predict = Callable[[Row, Values], Mapping[str, float]]
_IMIX_BYTES = (7 * 64 + 4 * 594 + 1518) / 12  # NFVbench's
_FLOOR_PART = 0.01  # of the best row: a search that ended so far below found no load that passed
_LOSS_MOST = 0.001  # percent, of NFVbench's NDR


@dataclass(frozen=True)
class _Model:
    predict: Predict
    measured: Callable[[Row], Mapping[str, float]]
    unit: str
    reject: Callable[[Row, float], str | None] = lambda row, best: None


def fit_published(doc: Document, fit: PublishedFit, data: Path) -> FittedTable:
    server = read_server(server_named(doc, fit.server))[1]
    model = _models(fit, server)[fit.model]
    rows = [row for row in _read(data, doc) if _wanted(row, fit.rows)]
    if not rows:
        raise BadInput(f"{data}: no row has {dict(fit.rows)}")
    best = max(value for row in rows for value in model.measured(row).values())
    reasons = [(row, model.reject(row, best)) for row in rows]
    kept = [row for row, why in reasons if why is None]
    points = [_point(doc, i, point, kept) for i, point in enumerate(fit.points)]
    _check(doc, fit, len(points) * len(model.measured(points[0])))
    unknowns = [Unknown(name, one.value, one.spread) for name, one in fit.unknowns.items()]

    def errors(values: Values) -> list[float]:
        return [
            predicted / model.measured(row)[name] - 1
            for row in points
            for name, predicted in model.predict(row, values).items()
        ]

    values = fitted(unknowns, errors)
    table = [
        FittedPoint(
            setup=_setup(row, fit), figure=name, published=published,
            predicted=model.predict(row, values)[name], fitted_on=row in points,
        )
        for row in kept
        for name, published in model.measured(row).items()
    ]  # fmt: skip
    return FittedTable(
        name=fit.name, about=fit.about, source=fit.source, server=server.about, model=fit.model,
        unit=model.unit,
        unknowns=values, free=sum(one.spread is None for one in unknowns), points=tuple(table),
        rejected=tuple(RejectedRow(setup=_setup(r, fit), why=why) for r, why in reasons if why),
    )  # fmt: skip


def _read(data: Path, doc: Document) -> list[dict[str, str]]:
    try:
        with data.open(newline="", encoding="utf-8") as file:
            return _by_setup(list(csv.DictReader(file)))
    except OSError as error:
        raise BadInput(
            f"{data}: cannot be read: {error.strerror}; allowed: the table that {doc.file} is "
            "about, as --data FILE"
        ) from None


def _by_setup(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """A table with a row for each metric has one for each set-up then, with medians."""
    if not rows or "metric" not in rows[0]:
        return rows
    by_setup: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        setup = {name: row[name] for name in ("experiment", "variant", "x")}
        by_setup.setdefault(tuple(setup.values()), setup)[row["metric"]] = row["median"]
    return list(by_setup.values())


def _wanted(row: Row, rows: Mapping[str, Sequence[object]]) -> bool:
    return all(row.get(column) in tuple(map(str, values)) for column, values in rows.items())


def _point(doc: Document, i: int, point: Mapping[str, object], rows: Sequence[Row]) -> Row:
    matching = [row for row in rows if all(row.get(k) == str(v) for k, v in point.items())]
    if len(matching) != 1:
        raise doc.error(("points", i), f"{dict(point)} is {len(matching)} rows; allowed: one")
    return matching[0]


def _check(doc: Document, fit: PublishedFit, figures: int) -> None:
    free = sum(one.spread is None for one in fit.unknowns.values())
    if free > allowed(figures):
        raise doc.error(
            ("unknowns",),
            f"{free} are free, and the points have {figures} figures; allowed: {allowed(figures)}, "
            "one for three",
        )


def _setup(row: Row, fit: PublishedFit) -> str:
    names = {name for point in fit.points for name in point}
    return ", ".join(f"{name} {row[name]}" for name in row if name in names)


def _models(fit: PublishedFit, server: DescribedServer) -> dict[str, _Model]:
    known = dict(fit.known)
    for port in server.ports[:1]:
        known |= {"line_gbps": port.gbps.value, "ring": float(port.buffer_packets)}
    return {
        "vswitch": _Model(_switched, _ndr, "Mpps", _rejected),
        "poller": _Model(
            lambda row, values: polled_us(row, values, known),
            lambda row: {name: float(row[f"LAT{name[1:]}"]) for name in QUANTILES},
            "us",
        ),
        "clock": _Model(clocked_mpps, lambda row: {"throughput": float(row["PPS"]) / 1e6}, "Mpps"),
    }


def _ndr(row: Row) -> dict[str, float]:
    return {"ndr": float(row["ndr_pps"]) / 1e6}


def _switched(row: Row, values: Values) -> dict[str, float]:
    chains = SwitchedChains(
        cores={"2t1c": 1, "4t2c": 2}[row["host"]],
        chains=int(row["chains"]),
        vnfs=int(row["nfs_per_chain"]),
        frame_bytes=_IMIX_BYTES if row["frame"] == "IMIX" else float(row["frame"]),
        link="vhost" if row["topology"] == "vsc" else "memif",
        joined=row["topology"] == "csp",
    )
    return {"ndr": switched_mpps(SwitchCosts(**values), chains)}


def _rejected(row: Row, best: float) -> str | None:
    """What the audit of a measured trial asks: more received than sent, or more lost than the goal
    has; and where the search ended."""
    loss, rate = float(row["loss_percent"]), _ndr(row)["ndr"]
    if loss < 0:
        return f"{-loss:.1f} % more arrived than were sent: queues of the trial before drained"
    if loss > _LOSS_MOST:
        return f"{loss:g} % lost, where the goal has {_LOSS_MOST:g} %"
    if rate < _FLOOR_PART * best:
        return f"{rate * 1e6:.0f} pps: the search found no load that passed"
    return None
