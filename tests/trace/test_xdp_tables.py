# SPDX-License-Identifier: Apache-2.0
"""The tables of headrace-xdp, in their C test beside them (trace/xdp/tables_test.c)."""

from __future__ import annotations

import os
import subprocess

import pytest

from headrace.host.programs import BUILT

TEST = BUILT / "trace" / "xdp-tables-test"

pytestmark = [
    pytest.mark.parallel,
    pytest.mark.skipif(not os.access(TEST, os.X_OK), reason=f"no {TEST}: `make test`"),
]


def test_prefixes_and_rules_as_walks_over_all_of_them_find_them() -> None:
    done = subprocess.run([str(TEST)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
