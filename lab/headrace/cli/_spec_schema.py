# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of a spec file, for editors: what may be written, short forms and all, with words
from the models' own docstrings and comments and the engine's own description of its functions.

It is wider than what `headrace run --check` takes, which alone knows what belongs together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from headrace.cli._schema import comments
from headrace.engine.describe import Description
from headrace.spec import base, deployment, hosting, measure
from headrace.spec.imix import PRESETS
from headrace.spec.measure import NAMED_GOALS
from headrace.spec.study import Study

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
# What a value may be beside the type that it becomes: by the function that reads it.
_ALSO: dict[Callable[..., Any], Schema] = {
    base._seconds: {"type": "string", "pattern": base._SECONDS.pattern, "examples": ["500 ms"]},
    base._rate: {"type": "string", "pattern": base._RATE.pattern, "examples": ["1.5M"]},
    base._ratio: {"type": "string", "pattern": base._PERCENT.pattern, "examples": ["0.1%"]},
    measure._load: {
        "type": "string",
        "pattern": r"^\s*[0-9.]+\s*%\s+of\s+\S+",
        "examples": ["50% of ndr"],
    },
    hosting._ratio: {"type": "string", "pattern": hosting._RATIO.pattern, "examples": ["2:1"]},
    deployment._hosting: {"enum": list(deployment.HOSTING_KINDS)},
}
_TIME: Schema = {"anyOf": [{"type": "number", "minimum": 0}, _ALSO[base._seconds]]}
_RATE: Schema = {"anyOf": [{"type": "number", "minimum": 0}, _ALSO[base._rate]]}
# What stands for a whole mapping.
_SHORT: dict[str, list[Schema]] = {
    "Execution": [{"enum": ["rtc", "pipeline"]}],
    "Lcores": [{"enum": ["auto"]}, {"type": "array", "items": {"type": "integer"}}],
    "Ring": [{"type": "integer"}],
    "Frame": [
        {"type": "integer", "minimum": 64, "description": "bytes, FCS included"},
        {"enum": list(PRESETS)},
        {"type": "object", "required": ["genome"], "additionalProperties": False,
         "description": "a genome (RFC 6985)",
         "properties": {"genome": {"type": "string", "pattern": "^[a-iz]{1,64}$"},
                        "z": {"type": "integer"}}},
        {"type": "object", "required": ["mix"], "additionalProperties": False,
         "properties": {"mix": {"type": "object", "additionalProperties": {"type": "integer"}}}},
    ],
    "Flows": [{"type": "integer", "minimum": 1}],
    "LoadCurve": [
        {"type": "array", "minItems": 2, "description": "from each time on this rate",
         "items": {"type": "array", "prefixItems": [_TIME, _RATE], "items": False, "minItems": 2}},
    ],
    "GoalSpec": [{"enum": list(NAMED_GOALS)}, {"type": "number"}, _ALSO[base._ratio]],
    "Collect": [{"type": "boolean"}, {"type": "array", "items": _TEXT}],
    "Checkpoint": [_TIME],
    "GraphSet": [{"type": "array", "items": _TEXT}],
}  # fmt: skip


# Of a number that a validator was before, pydantic leaves the limits under its own names.
_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


class _Writable(GenerateJsonSchema):
    """What a user may write, which is more than what the models hold."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        described = super().generate_inner(schema)
        return {_LIMITS.get(key, key): value for key, value in described.items()}

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> Any:
        inner = self.generate_inner(schema["schema"])
        function = schema["function"]["function"]
        if function in (base.listed, measure._listed):
            return {"anyOf": [inner["items"], inner]} if "items" in inner else inner
        also = _ALSO.get(function)
        return inner if also is None else {"anyOf": [inner, also]}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        for name, text in comments(schema["cls"]).items():
            if name in described.get("properties", {}):
                described["properties"][name]["description"] = text
        return described


def spec_schema(description: Description) -> Schema:
    """Draft 2020-12; descriptions are Markdown, as editors show them."""
    schema = Study.model_json_schema(schema_generator=_Writable)
    models = schema["$defs"]
    for name, forms in _SHORT.items():
        if name in models:
            whole = models[name]
            if name in ("Frame", "Execution"):  # made of the short form
                whole.pop("required", None)
            models[name] = {"anyOf": [*forms, whole]}
    asked = models["Measure"]["properties"]
    listing = asked["search"]
    about = listing.pop("description")
    asked["search"] = {"anyOf": [listing["items"], listing], "description": about}
    models["Node"] = _node(description)
    models["Vnf"] = {"type": ["string", "object"], "description": "a third-party appliance"}
    ours, theirs = ("#/$defs/Node", "#/$defs/Vnf")
    for key in ("chain", "chains"):
        schema["properties"].pop(key)
    schema |= {"if": _appliances(), "then": _chains(theirs), "else": _chains(ours)}
    schema["properties"] |= {"chain": {}, "chains": {}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "a headrace study",
            **{k: v for k, v in schema.items() if k != "title"}}  # fmt: skip


def _node(description: Description) -> Schema:
    """A function as a chain has it: its name, one key with its parameters, or the long form."""
    nfs = description.nfs
    named = {"enum": [*sorted(nfs), None], "description": "a function without parameters"}
    short = {
        name: {**about["params"], "type": ["object", "null"], "description": about["doc"]}
        for name, about in sorted(nfs.items())
    }
    long = {
        "type": "object",
        "required": ["nf"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "description": "the instance's name"},
            "nf": {"enum": [*sorted(nfs), None], "description": "which function"},
            "params": {"type": "object", "description": "its parameters: `headrace nf NAME`"},
            "to": {"type": "object", "description": "where its edges lead: a later function's "
                   "name, `out` or `drop`", "additionalProperties": _TEXT},
        },
    }  # fmt: skip
    one = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": short,
    }
    return {"anyOf": [named, one, long]}


def _appliances() -> Schema:
    """What says that a chain's members are third-party appliances."""
    kind: Schema = {
        "anyOf": [
            {"const": "appliances"},
            {"required": ["kind"], "properties": {"kind": {"const": "appliances"}}},
        ]
    }
    hosted: Schema = {"required": ["hosting"], "properties": {"hosting": kind}}
    return {"required": ["deployment"], "properties": {"deployment": hosted}}


def _chains(member: str) -> Schema:
    chain = {
        "type": "array",
        "items": {"$ref": member},
        "description": "in the order in which forward traffic meets them; [] is the empty chain",
    }
    named = {"type": "object", "additionalProperties": chain, "description": "several, by name"}
    return {"properties": {"chain": chain, "chains": named}}
