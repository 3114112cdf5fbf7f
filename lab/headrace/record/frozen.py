# SPDX-License-Identifier: Apache-2.0
"""What all records are: frozen, and without names of their own."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
