# SPDX-License-Identifier: Apache-2.0
"""A workload as the parameters of the engine's source link."""

from __future__ import annotations

from typing import Any

from headrace.spec.document import Document
from headrace.spec.study import Experiment
from headrace.testbed.describe import Description, check_file, resolve
