# SPDX-License-Identifier: Apache-2.0
"""The models that published tables are held against: which figures of a row are theirs, and what a
trial of that row would show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.ground.fitted.poller import QUANTILES, clocked_mpps, polled
from headrace.model.fitting import Values
from headrace.model.vswitch import SwitchCosts, SwitchedChains, switched_mpps
from headrace.record.figures import LatencyNs
from headrace.spec.described import DescribedServer
from headrace.spec.fitted import Fitted

Row = Mapping[str, str]
_IMIX_BYTES = (7 * 64 + 4 * 594 + 1518) / 12  # NFVbench's
_FLOOR_PART = 0.01  # of the best row: a search that ended so far below found no load that passed
_LOSS_MOST = 0.001  # percent, of NFVbench's NDR


@dataclass(frozen=True)
class Modelled:
    """A trial of one row. `figures`: those that the table has, in its unit. `load_mpps`: None is as
    fast as possible."""

    figures: Mapping[str, float]
    frame_bytes: float
    received_mpps: float
    load_mpps: float | None = None
    latency: LatencyNs | None = None


@dataclass(frozen=True)
class TableModel:
    """`published`: the figures of a row, in `unit`. `rejected`: why an audit would reject it,
    beside the best figure of the table."""

    published: Callable[[Row], Mapping[str, float]]
    modelled: Callable[[Row, Values], Modelled]
    unit: str
    rejected: Callable[[Row, float], str | None] = lambda row, best: None


def model_of(asked: Fitted, server: DescribedServer) -> TableModel:
    known = dict(asked.known)
    for port in server.ports[:1]:
        known |= {"line_gbps": port.gbps.value, "ring": float(port.buffer_packets)}
    return {
        "vswitch": TableModel(_ndr, _switched, "Mpps", _not_an_ndr),
        "poller": TableModel(
            lambda row: {name: float(row[f"LAT{name[1:]}"]) for name in QUANTILES},
            lambda row, values: _polled(row, values, known),
            "us",
        ),
        "clock": TableModel(
            lambda row: {"throughput": float(row["PPS"]) / 1e6},
            lambda row, values: _rate("throughput", clocked_mpps(row, values), _frame(row)),
            "Mpps",
        ),
    }[asked.model]


def _rate(name: str, mpps: float, frame_bytes: float) -> Modelled:
    return Modelled({name: mpps}, frame_bytes, mpps)


def _frame(row: Row) -> float:
    """Bits and packets of a second."""
    return float(row["THROUGHPUT"]) / float(row["PPS"]) / 8


def _ndr(row: Row) -> dict[str, float]:
    return {"ndr": float(row["ndr_pps"]) / 1e6}


def _switched(row: Row, values: Values) -> Modelled:
    chains = SwitchedChains(
        cores={"2t1c": 1, "4t2c": 2}[row["host"]],
        chains=int(row["chains"]),
        vnfs=int(row["nfs_per_chain"]),
        frame_bytes=_IMIX_BYTES if row["frame"] == "IMIX" else float(row["frame"]),
        link="vhost" if row["topology"] == "vsc" else "memif",
        joined=row["topology"] == "csp",
    )
    return _rate("ndr", switched_mpps(SwitchCosts(**values), chains), chains.frame_bytes)


def _not_an_ndr(row: Row, best: float) -> str | None:
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


def _polled(row: Row, values: Values, known: Values) -> Modelled:
    delays = polled(float(row["x"]), values, known)
    return Modelled(
        {name: delays.at(share) / 1e3 for name, share in QUANTILES.items()},
        known["frame_bytes"],
        min(delays.offered_mpps, known["saturation_mpps"]),
        delays.offered_mpps,
        delays.latency(),
    )
