# SPDX-License-Identifier: Apache-2.0
"""The ground of published tables: a model is fitted to a few rows, and each row is a point that it
predicts. What others published stands beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.ground.computed import Computed, about_server
from headrace.ground.contract import AboutServer, Checked, Offer, Site, resolved_of
from headrace.ground.fitted.table import FittedRow, FittedRows, fit_rows
from headrace.host.store import server_files, server_named
from headrace.record.estimates import Predicted
from headrace.record.facts import Facts, Observation
from headrace.record.figures import Figures, gbps
from headrace.record.latency import pdv
from headrace.record.resolved import ResolvedFit
from headrace.record.segments import Segment
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.fitted import Fitted
from headrace.spec.measure import Measure
from headrace.spec.server_file import read_server
from headrace.spec.study import Study, studies


class FittedGround:
    def check(self, doc: Document) -> Checked:
        [(study, _)] = studies(doc)
        assert study.ground is not None and study.ground.fitted is not None
        asked = study.ground.fitted
        server = read_server(server_named(doc, asked.server), doc)[1]
        fit = fit_rows(doc, asked, server)
        points = [
            FittedPoint(_undisturbed(study, row), asked, server, row, fit) for row in fit.rows
        ]
        files = {asked.table: doc.resolve(asked.table), **server_files(doc, asked.server)}
        notes = (f"fitted for {server.name}, {server.about}", *_left_out(fit))
        return Checked(points, files, 0.0, notes=notes, computed=points)


def _left_out(fit: FittedRows) -> Iterator[str]:
    for setup, why in fit.rejected.items():
        yield f"left out: {setup}: {why}"


def _undisturbed(study: Study, row: FittedRow) -> Study:
    """Runs at the row's load; nothing is to be warmed up where nothing runs."""
    load = row.trial.load_mpps
    asked = {"max": True} if load is None else {"loads": [load * 1e6]}
    measure = Measure.model_validate({**asked, "pairs": 0})
    return study.model_copy(update={"warmup": 0.0, "measure": measure})


@dataclass(frozen=True)
class FittedPoint:
    """One row."""

    study: Study
    asked: Fitted
    server: DescribedServer
    row: FittedRow
    fit: FittedRows
    cpus: frozenset[int] = frozenset()
    segments: tuple[Segment, ...] = ()
    runs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def chain(self) -> str:
        return self.study.name

    @property
    def execution(self) -> str:
        return self.row.setup

    @property
    def offers(self) -> tuple[Offer, ...]:
        """A rate that was searched for is what it carries, not what its source makes."""
        paced = self.row.trial.load_mpps is not None
        return (Offer("as published", self.asked, paced=paced),)

    def resolved(self) -> ResolvedFit:
        return ResolvedFit(
            **resolved_of(self, self.study).model_dump(),
            server=self.server.model_dump(mode="json"),
            unknowns=dict(self.fit.unknowns),
            free=self.fit.free,
            rejected=dict(self.fit.rejected),
        )

    @contextlib.contextmanager
    def deploy(self, site: Site) -> Iterator[FittedDeployed]:
        yield FittedDeployed(self)


@dataclass
class FittedDeployed(Computed):
    point: FittedPoint
    _seconds: float = 0.0

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"model:{self.point.asked.model}", f"server:{self.point.server.name}")

    def about(self) -> AboutServer:
        return about_server(self.point.server)

    def most_pps(self, offer: Offer) -> float | None:
        return None

    def start(self, offer: Offer, load_pps: float, seconds: float) -> None:
        self._seconds = seconds

    def read(self) -> Sequence[Observation]:
        row, seconds = self.point.row, self._seconds
        trial = row.trial
        carried = trial.received_mpps * 1e6
        load = carried if trial.load_mpps is None else trial.load_mpps * 1e6
        sent, received = round(load * seconds), round(carried * seconds)
        figures = Figures(
            load_pps=load,
            throughput_pps=received / seconds,
            throughput_gbps_l1=gbps(received / seconds, trial.frame_bytes, layer=1),
            throughput_gbps_l2=gbps(received / seconds, trial.frame_bytes),
            offered_pps=load,
            sent_pps=sent / seconds,
            received_pps=received / seconds,
            loss_ratio=(sent - received) / sent,
            latency_ns=trial.latency,
            pdv_ns=pdv(trial.latency),
            ground="fitted" if row.fitted_on else "predicted",
            duration_s=seconds,
            frame_bytes_mean=trial.frame_bytes,
            intended=sent,
            sent=sent,
            received=received,
            lost=sent - received,
            labels=self.labels,
            predicted=Predicted(server=self.point.server.name, figures=row.figures),
        )
        facts = Facts(
            sent=sent, received=received, lost=sent - received,
            asked=None if trial.load_mpps is None else sent, intended_s=seconds, took_s=seconds,
        )  # fmt: skip
        return [Observation("forward", figures, facts)]
