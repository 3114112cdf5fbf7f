# SPDX-License-Identifier: Apache-2.0
"""The build of an image leaves its image, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli._testdata import valid
from headrace.host.tool import tool
from support.containers import headrace, lacking
from support.netns import devices_and_rules

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
_WHY = lacking(base=True)


@pytest.mark.skipif(_WHY is not None, reason=str(_WHY))
def test_a_build_leaves_nothing_on_the_host(tmp_path: Path) -> None:
    """podman's own network for a build left a bridge and chains of the firewall."""
    folder = tmp_path / "vnfs" / "tiny"
    folder.mkdir(parents=True)
    (folder / "vnf.yaml").write_text(
        "name: tiny\ntitle: Nothing\ncategory: general\nkind: routed\n"
    )
    for script in ("start", "health", "counters"):
        (folder / script).write_text("#!/bin/sh\n")
    unlike = f"RUN echo {tmp_path}"  # what was run for another build would not run again
    (folder / "Containerfile").write_text(f"FROM debian:bookworm-slim\n{unlike}\n")
    before = devices_and_rules()
    build = ("vnf", "build", "tiny", "--json")
    done = headrace(tmp_path, *build, HEADRACE_VNFS=str(folder.parent))
    assert done.returncode == 0, done.stderr
    assert valid("vnf build", done.stdout) == {"built": ["tiny"], "there": []}
    done = headrace(tmp_path, *build, HEADRACE_VNFS=str(folder.parent))
    assert valid("vnf build", done.stdout) == {"built": [], "there": ["tiny"]}
    image = json.loads(
        headrace(
            tmp_path, "vnf", "describe", "tiny", "--json", HEADRACE_VNFS=str(folder.parent)
        ).stdout
    )["image"]
    try:
        assert devices_and_rules() == before
    finally:
        tool().ask("rmi", "--force", image)
