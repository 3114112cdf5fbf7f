# SPDX-License-Identifier: Apache-2.0
"""Why is it not faster? Small rules over what was counted; each names its evidence and a remedy."""

from __future__ import annotations

from headrace.explain.diagnosis import Diagnosis
from headrace.explain.evidence import Evidence
from headrace.explain.rules import explain, explain_parts

__all__ = ["Diagnosis", "Evidence", "explain", "explain_parts"]
