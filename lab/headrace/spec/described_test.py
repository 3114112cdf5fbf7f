# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

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
