# SPDX-License-Identifier: Apache-2.0
"""The published schema of everything that scripts read: what commands print with --json, and what a
bundle holds. `make docs` writes it to docs/reference/; nothing else needs this module."""

from __future__ import annotations

import ast
import inspect
import io
import json
import textwrap
import tokenize
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema

from headrace.analyse.diagnosis import Diagnoses
from headrace.analyse.gate import GatedComparison, GatedDiff
from headrace.cli._schema_page import page
from headrace.collect.stack.result import StackTrace
from headrace.doctor.check import Examination
from headrace.engine.describe import DescribedKinds, DescribedNames
from headrace.graph.enumerate import ChainCount, ChainGraphs
from headrace.ground.catalogue import DescribedVnf, ListedVnfs
from headrace.ground.hosted.where import KeptPlaces, WhereOutput
from headrace.model.hosting import CapacityOutput
from headrace.profile.bench_fib import BenchRows
from headrace.record.bundle import Status
from headrace.record.campaign import CampaignOutput
from headrace.record.claim import JudgedClaims
from headrace.record.environment import Environment
from headrace.record.offload_report import OffloadReport
from headrace.record.outputs import (
    AnatomyOutput,
    BuildOutput,
    CleanOutput,
    ExportOutput,
    InitOutput,
    PointList,
    RunOutput,
)
from headrace.record.rows import Result, Trial
from headrace.record.sampled import CollectOutput, ReadableLayers, Sampled
from headrace.record.selftest import SelftestOutput
from headrace.record.tables import MODELS, VERSION, leaf_types
from headrace.report.machine import GroundsOutput, ReportOutput
from headrace.report.preview import Preview
from headrace.spec.calibration import Calibration
from headrace.spec.described import DescribedServer
from headrace.spec.placement import PlacementPlan
from headrace.spec.plan import ChainPlans
from headrace.spec.profile import Profile
from headrace.spec.provision import Provision
from headrace.spec.server import Server
from headrace.tune.gains import TuneOutput

SCHEMA_VERSION = 1  # raised when a name goes, or changes its type or meaning; not by a new one

# What follows `headrace`, without --json: its output's model.
OUTPUTS: dict[str, type[BaseModel]] = {
    "run": RunOutput,
    "run --check": Preview,
    "run --list": PointList,
    "fit": RunOutput,
    "operate": RunOutput,
    "campaign": CampaignOutput,
    "campaign --list": PointList,
    "report": ReportOutput,
    "report A B": GroundsOutput,
    "diff": GatedDiff,
    "compare": GatedComparison,
    "explain": Diagnoses,
    "doctor": Examination,
    "clean": CleanOutput,
    "nf": DescribedKinds,
    "nf NAME": DescribedNames,
    "server detect": Server,
    "server calibrate": Calibration,
    "server describe": DescribedServer,
    "profile": Profile,
    "plan": ChainPlans,
    "plan --server": PlacementPlan,
    "provision": Provision,
    "init": InitOutput,
    "chains": ChainGraphs,
    "chains --count": ChainCount,
    "vnf list": ListedVnfs,
    "vnf describe": DescribedVnf,
    "vnf build": BuildOutput,
    "hosting capacity": CapacityOutput,
    "hosting where": WhereOutput,
    "hosting anatomy": AnatomyOutput,
    "hosting selftest": SelftestOutput,
    "hosting selftest --list": PointList,
    "export kubernetes": ExportOutput,
    "offload": OffloadReport,
    "collect": CollectOutput,
    "collect --check": ReadableLayers,
    "trace": StackTrace,
    "tune": TuneOutput,
    "bench fib": BenchRows,
}
BUNDLE: dict[str, type[BaseModel]] = {
    "status.json": Status,
    "environment.json": Environment,
    "claims.json": JudgedClaims,
    "samples/collectors.json": Sampled,
    "samples/selftest.json": SelftestOutput,
    "samples/where.json": KeptPlaces,
    "trials.parquet": Trial,
    "results.parquet": Result,
}


class _Written(GenerateJsonSchema):
    """What is written: a field with a default is there, too. What its comment says describes it."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        return True

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        return _described(super().dataclass_schema(schema), schema["cls"])


def _described(schema: dict[str, Any], model: type[object]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    for one in reversed(model.__mro__):
        if one.__module__.startswith("headrace.") and "[" not in one.__name__:
            for name, text in comments(one).items():
                if name in properties:
                    properties[name]["description"] = text
    return schema


def comments(model: type[object]) -> dict[str, str]:
    """Field -> what is said of it: the comment behind it, which may go on in lines of its own below
    it, and the one above it, which begins with a capital letter and so is not that of the field
    before."""
    source = textwrap.dedent(inspect.getsource(model))
    alone: dict[int, str] = {}
    behind: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            kind = alone if token.line.lstrip().startswith("#") else behind
            kind[token.start[0]] = token.string.lstrip("# ")
    texts = {}
    [body] = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    for one in body.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            words = (_behind(one.end_lineno or 0, behind, alone), _above(one.lineno, alone))
            if text := ". ".join(filter(None, words)):
                texts[one.target.id] = text
    return texts


def _behind(line: int, behind: Mapping[int, str], alone: Mapping[int, str]) -> str:
    if line not in behind:
        return ""
    words = [behind[line]]
    while (more := alone.get(line := line + 1)) and not _begins(more):
        words.append(more)
    return " ".join(words)


def _above(line: int, alone: Mapping[int, str]) -> str:
    """Begins at the last line above that begins a comment."""
    words: list[str] = []
    while (more := alone.get(line := line - 1)) is not None:
        words.insert(0, more)
        if _begins(more):
            return " ".join(words).rstrip(".")
    return ""


def _begins(comment: str) -> bool:
    return comment[:1].isupper()


def json_schema() -> dict[str, Any]:
    """One document: `$defs` by model, and which of them each command prints."""
    models = dict.fromkeys([*OUTPUTS.values(), *BUNDLE.values()])
    places, document = models_json_schema(
        [(model, "serialization") for model in models], schema_generator=_Written
    )

    def references(named: dict[str, type[BaseModel]]) -> dict[str, Any]:
        return {name: places[model, "serialization"] for name, model in named.items()}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "headrace: what commands print with --json, and what a bundle holds",
        "version": SCHEMA_VERSION,
        "commands": references(OUTPUTS),
        "bundle": references(BUNDLE),
        "$defs": document["$defs"],
    }


def table_page() -> str:
    """docs/reference/tables.md: the columns of a bundle's Parquet files."""
    parts = [_HEAD.format(version=VERSION)]
    for name, model in MODELS.items():
        rows = "\n".join(f"| `{column}` | {kind} |" for column, kind in leaf_types(model))
        parts.append(f"## {name}.parquet\n\n| column | type |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


_HEAD = """\
<!-- Generated by `make docs` from the record's models; do not edit. -->

# A bundle's tables

`trials.parquet` and `results.parquet` in a bundle: version {version} of their columns
(`headrace_tables` in the file's metadata; a file of the first bundles has none, and is of version
1). A version only gains columns; one that goes, or changes its meaning, raises it. What the columns
mean: [JSON](../json.md#a-result).

Types are DuckDB's. `a.b` is a member of a struct, `a[]` an element of a list, `a{{}}` a value of a
map: in SQL `latency_ns.p99`, `segments[1].name`, `nf_cycles['acl']`.
"""


def generated() -> dict[str, str]:
    """File in docs/reference/ -> its text."""
    document = json_schema()
    return {
        "json-schema.json": json.dumps(document, indent=1) + "\n",
        "json.md": page(document),
        "tables.md": table_page(),
    }
