# SPDX-License-Identifier: Apache-2.0
"""A study as `headrace operate` has it: `measure.operate` with what the command line says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from headrace.errors import bad_value
from headrace.spec.document import Document
from headrace.spec.measure import ASKED
from headrace.spec.operate import SLO_FORMS, PolicyName, Slo

_POLICIES: tuple[str, ...] = PolicyName.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True)
class OperateOptions:
    """Options as they are given; None, and none: the study's."""

    slo: str | None
    policies: Sequence[str]


def operated(doc: Document, asked: OperateOptions) -> Document:
    """What else its `measure` asks for is left out. The bundle has the text that this comes to, so
    that it is replayed as it was run."""
    if not isinstance(doc.data, dict):
        return doc  # that it is no study is said where it is read
    if doc.data.get("groups"):
        raise doc.error(("groups",), "this command takes one study, and no groups")
    given = doc.data.get("measure")
    measure = dict(given) if isinstance(given, dict) else {}
    own = measure.get("operate")
    operate: dict[str, Any] = dict(own) if isinstance(own, dict) else {}
    if asked.slo is not None:
        operate["slo"] = _checked_slo(asked.slo)
    elif "slo" not in operate:
        allowed = f"--slo {SLO_FORMS[0]}, or `measure: {{operate: {{slo: ...}}}}`"
        raise bad_value("--slo", problem="the study has none", allowed=allowed)
    if asked.policies:
        operate["policy"] = [_known(name) for name in asked.policies]
    kept = {key: value for key, value in measure.items() if key not in ASKED}
    data = {**doc.data, "measure": {**kept, "operate": operate}}
    if data == doc.data:
        return doc
    return dataclasses.replace(doc, data=data, changed=yaml.safe_dump(data, sort_keys=False))


def _checked_slo(text: str) -> str:
    try:
        TypeAdapter(Slo).validate_python(text)
    except ValidationError:
        raise bad_value("--slo", text, allowed=SLO_FORMS[0]) from None
    return text


def _known(name: str) -> str:
    if name not in _POLICIES:
        raise bad_value("--policy", name, allowed=", ".join(_POLICIES))
    return name
