# SPDX-License-Identifier: Apache-2.0
"""headrace fit: fit a model to a few points of a published table, and predict the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.analyse.published import fit_published
from headrace.cli._console import print_json, stdout
from headrace.errors import bad_value
from headrace.host.programs import shipped
from headrace.report.fitted import document as fitted_document
from headrace.report.html import write
from headrace.report.terminal import show
from headrace.spec import document
from headrace.spec.document import Document
from headrace.spec.fit import PublishedFit, read_fit


def fit(
    study: Annotated[Path, typer.Argument(help="A file of studies/published, or its name.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="The table (CSV); beside the study by default.")
    ] = None,
    points: Annotated[
        list[str] | None,
        typer.Option("--points", help="A row to fit on, as column=value,..., for the study's."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the page here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all points as JSON.")] = False,
) -> None:
    """Fit a model's unknowns on named points of a published table; hold it against all others."""
    doc = _open(study)
    wanted = read_fit(doc)
    if points:
        wanted = wanted.model_copy(update={"points": tuple(map(_point, points))})
    table = fit_published(doc, wanted, data or _beside(doc, wanted))
    shown = fitted_document(table)
    if html is not None:
        write(shown, html)
    if as_json:
        print_json(table)
        return
    show(shown, stdout())


def _open(given: Path) -> Document:
    own = shipped("studies") / "published" / f"{given}.yaml"
    return document.load(own if not given.exists() and own.is_file() else given)


def _beside(doc: Document, wanted: PublishedFit) -> Path:
    return doc.resolve(wanted.data)


def _point(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise bad_value("--points", text, allowed="column=value,..., as host=2t1c,chains=1")
    return {name.strip(): value.strip() for name, _, value in pairs}
