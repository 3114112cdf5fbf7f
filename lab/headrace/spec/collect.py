# SPDX-License-Identifier: Apache-2.0
"""Which layers are sampled beside the trials, and how often."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headrace.spec.base import Seconds, Spec

Layer = Literal["application", "virtualization", "virtual-switch", "os", "hardware"]
ALL_LAYERS: tuple[Layer, ...] = (
    "application",
    "virtualization",
    "virtual-switch",
    "os",
    "hardware",
)


class Collect(Spec):
    """Off unless asked for: each sample wakes a process up, and where pollers have all the CPUs
    that costs packets."""

    layers: tuple[Layer, ...] = ()
    period: Annotated[Seconds, Field(ge=0.01, le=3600)] = 1.0
    # Share of the kernel's packets whose way is traced meanwhile; 0: none.
    trace: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _from_short(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return {"layers": ALL_LAYERS if value else ()}
        if isinstance(value, list | tuple):
            return {"layers": value}
        if isinstance(value, dict) and "layers" not in value:
            return {"layers": ALL_LAYERS, **value}
        return value
