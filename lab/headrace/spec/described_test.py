# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.host.programs import shipped
from headrace.spec.described import with_costs

SERVERS = sorted(shipped("servers").glob("*.yaml"))


@pytest.mark.parametrize("file", SERVERS, ids=lambda file: file.stem)
def test_a_server_of_headraces_own_can_be_predicted_for(file: Path) -> None:
    server, home = with_costs(file)
    assert server.name == file.stem
    assert {"acl", "lb", "l3fwd", "l2fwd"} <= set(home.functions) and home.traffic is not None
    sizes = [level.kib.value for level in server.levels if level.kib is not None]
    assert sizes == sorted(sizes)
    delays = [level.cycles.value for level in server.levels]
    assert delays == sorted(delays)


@pytest.mark.parametrize("clock", ["0", "-3400", "1e300", ".inf", "200000"])
def test_a_clock_is_one_that_a_processor_can_have(tmp_path: Path, clock: str) -> None:
    text = shipped("servers").joinpath("reference.yaml").read_text()
    line = next(one for one in text.splitlines() if one.startswith("clock_mhz:"))
    source = line.partition(",")[2]
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(line, f"clock_mhz: [{clock},{source}"))
    with pytest.raises(BadInput, match=r"mine.yaml:\d+: clock_mhz"):
        with_costs(file)
