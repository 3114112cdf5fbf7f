# SPDX-License-Identifier: Apache-2.0
"""A command pays for the models that it uses."""

from __future__ import annotations

import subprocess
import sys

LOADED = """
from headrace.record.rows import Result, Trial
from headrace.spec.study import Study
print(Trial.__pydantic_complete__, Result.__pydantic_complete__, Study.__pydantic_complete__)
try:
    Trial.model_validate({"throughput": 1})
except ValueError as error:
    print(Trial.__pydantic_complete__, "throughput" in str(error))
"""


def test_a_model_is_made_when_it_is_used_first() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True)
    assert done.stdout == "False False False\nTrue True\n", done.stderr
