# SPDX-License-Identifier: Apache-2.0
"""A function outside of the engine's tree: begun, built, tested, measured; refused when it does not
fit the engine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from headrace.host.programs import BUILT
from support.lab import headrace

pytestmark = pytest.mark.beside

RATE, BURST, SOURCES, SECONDS = 500, 10, 16, 1.0
STUDY = f"""
name: own
warmup: 0.2
chain: [limit: {{rate: {RATE}, burst: {BURST}}}]
deployment: {{functions: [build/limit.so], hugepages: false, memory_mb: 256}}
workload: {{flows: {SOURCES}}}
measure: {{loads: [20k], trial: {SECONDS:g}, losses: unintended}}
"""


def test_from_new_to_measured(engine_binary: Path, tmp_path: Path) -> None:
    """16 buckets of that rate let through what they should of 20,000 packets of 16 sources."""
    done = headrace("nf", "new", "limit", folder=tmp_path, engine=engine_binary)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "limit"
    search = {**os.environ, "PKG_CONFIG_PATH": str(BUILT / "engine" / "outside")}
    for command in (
        ["meson", "setup", "build"],
        ["ninja", "-C", "build"],
        ["meson", "test", "-C", "build"],
    ):
        built = subprocess.run(command, cwd=folder, env=search, capture_output=True, text=True)
        assert built.returncode == 0, built.stdout + built.stderr
    assert "packets OK" in " ".join(built.stdout.split())
    (folder / "study.yaml").write_text(STUDY)
    done = headrace(
        "run",
        "study.yaml",
        "--out",
        "b",
        "--json",
        folder=folder,
        engine=engine_binary,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["results"]
    passed = row["sent"] - row["drops"]["limit/rate"]
    # The bursts were used up when the path was verified and warmed up, or not quite.
    least = SOURCES * RATE * SECONDS
    assert least * 0.98 <= passed <= (least + SOURCES * BURST) * 1.02
    assert row["policy_dropped"] == row["drops"]["limit/rate"]

    # Whoever gets the bundle is asked before what it names is run.
    done = headrace("run", "b", "--check", folder=folder, engine=engine_binary)
    assert done.returncode == 2
    assert "deployment.functions" in done.stderr and "--trust" in done.stderr


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("{6, 0, 0}", "was built for version 6 of the functions' interface, and this engine has 5"),
        ("{5, 0x1507, 0}", "was built with the headers of DPDK 21.07, and this engine with"),
        (None, "has no function; allowed: a shared object with NF_OBJECT(...)"),
        ("{5, 0x1507, undefined_symbol}", "undefined symbol: undefined_symbol"),
    ],
)
def test_an_object_that_does_not_fit(
    code: str | None, message: str, engine_binary: Path, tmp_path: Path
) -> None:
    """One line that names the place in the spec; the engine has called nothing of it."""
    (tmp_path / "build").mkdir()
    text = "extern const int undefined_symbol[]; int other;"
    if code is not None:
        text += f"const struct {{unsigned abi, dpdk; const void *ops;}} headrace_function = {code};"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-xc", "-", "-o", tmp_path / "build" / "limit.so"],
        input=text, text=True, check=True,
    )  # fmt: skip
    (tmp_path / "study.yaml").write_text(STUDY)
    done = headrace("run", "study.yaml", "--check", folder=tmp_path, engine=engine_binary)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "study.yaml:5" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
