# SPDX-License-Identifier: Apache-2.0
"""A published table that a model is fitted to at a few points, and held against at all others."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from headrace.spec.base import NAME_PATTERN, Count, Spec
from headrace.spec.document import Document
from headrace.spec.invalid import explain

ModelName = Literal["vswitch", "poller", "clock"]


class FitUnknown(Spec):
    """Where the search begins. `spread`: of what is known beforehand, with `why`; without, it is
    free, and costs three points."""

    value: float
    spread: Annotated[float, Field(gt=0)] | None = None
    why: str = ""

    @model_validator(mode="after")
    def _says_why(self) -> FitUnknown:
        if (self.spread is not None) != bool(self.why):
            raise ValueError("`spread` and `why` go together: what is known beforehand, from where")
        return self


class PublishedFit(Spec):
    """studies/published/NAME.yaml. `data`: a CSV, beside this file or where the user says.
    `points`: rows that are fitted on, by their columns. `known`: figures of the set-up that are not
    fitted."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    about: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    server: str
    model: ModelName
    data: str
    rows: dict[str, tuple[Any, ...]] = Field(default_factory=dict)  # column: values; others left
    unknowns: Annotated[dict[str, FitUnknown], Field(min_length=1)]
    known: dict[str, float] = Field(default_factory=dict)
    points: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]
    figures: Annotated[Count, Field(ge=1)] = 1  # that each point has


def read_fit(doc: Document) -> PublishedFit:
    try:
        return PublishedFit.model_validate(doc.data)
    except ValidationError as error:
        raise explain(doc, error, PublishedFit) from None
