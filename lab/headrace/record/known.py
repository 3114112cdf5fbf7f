# SPDX-License-Identifier: Apache-2.0
"""What a bundle's resolved.json says, as those who show results read it. Any headrace may have
written it: what it does not have is left out, and what nobody asks for is ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from headrace.record.bundle import Bundle, BundleError
from headrace.record.deployment import DeployedGraph
from headrace.spec.invalid import sentence
from headrace.spec.points import Wanted


class _Known(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class KnownServer(_Known):
    """A described server that a point was predicted for; `whole` is its description."""

    name: str
    paper: str | None = None
    whole: Mapping[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _keep(cls, value: Any) -> Any:
        return {**value, "whole": value} if isinstance(value, dict) else value


class KnownPoint(_Known):
    """A deployment of the study (record/resolved.py)."""

    study: Mapping[str, Any] = {}
    server: KnownServer | None = None
    mode: str | None = None  # of routers
    unknowns: Mapping[str, float] = {}  # of a model that was fitted
    free: int = 0
    rejected: Mapping[str, str] = {}
    deployed: DeployedGraph | None = None  # earlier bundles do not say what each container was

    @model_validator(mode="before")
    @classmethod
    def _graph(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not {"nodes", "role"} <= value.keys():
            return value
        own = {k: v for k, v in value.items() if k in DeployedGraph.model_fields}
        return {**value, "deployed": own}


class KnownStudy(_Known):
    experiments: tuple[KnownPoint, ...] = ()
    selection: Wanted | None = None
    compared: Mapping[str, str] | None = None  # sides a and b, by their names
    points: tuple[Mapping[str, Any], ...] = ()

    @property
    def server(self) -> KnownServer | None:
        """The one that all was computed for."""
        return next((one.server for one in self.experiments if one.server is not None), None)


def known(bundle: Bundle) -> KnownStudy:
    """A bundle without the file says nothing."""
    try:
        return KnownStudy.model_validate(bundle.spec_resolved or {})
    except ValidationError as e:
        raise BundleError(f"{bundle.path}/resolved.json: {sentence(e)}") from None
