# SPDX-License-Identifier: Apache-2.0
"""Reading a described server from its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from headrace.spec import document
from headrace.spec.contradictions import contradictions
from headrace.spec.described import DescribedServer
from headrace.spec.document import Document
from headrace.spec.invalid import explain


def read_server(file: Path, of: Document | None = None) -> tuple[Document, DescribedServer]:
    """Reads a described server. `of`: the study that names it. A bundle's copy names other copies
    of that bundle only."""
    inputs = {} if of is None else of.inputs
    copied = of is not None and of.bundled and file in inputs.values()
    doc = replace(document.load(file, inputs), bundled=copied)
    try:
        server = DescribedServer.model_validate(doc.data)
    except ValidationError as error:
        raise explain(doc, error, DescribedServer) from None
    for path, problem in contradictions(server):
        raise doc.error(path, problem)
    return doc, server


def with_costs(file: Path, of: Document | None = None) -> tuple[DescribedServer, DescribedServer]:
    """A server, and the one that its functions' costs were measured on: itself, or another.
    `of`: the study that names it."""
    doc, server = read_server(file, of)
    if server.costs is None:
        return server, server
    _, other = read_server(doc.resolve(server.costs))
    if other.costs is not None:
        raise doc.error(("costs",), "has `costs` itself; allowed: a server with `functions`")
    return server, other
