# SPDX-License-Identifier: Apache-2.0
"""The traffic of tables that grow: each rule has one flow, and each flow its rule."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from pathlib import Path

from headrace.profile import acl_tables
from headrace.spec import document
from headrace.spec.study import expand


def test_each_rule_has_one_flow_in_another_order(tmp_path: Path) -> None:
    data = acl_tables.study(300, tmp_path)
    rules = Path(data["chain"][0]["acl"]["rules_file"]).read_text().splitlines()
    flows = Path(data["workload"]["tuples_file"]).read_text().splitlines()
    pattern = r"@(\S+)/32\t(\S+)/32\t(\d+) : \3\t(\d+) : \4\t0x11/0xFF"
    matched = [re.fullmatch(pattern, line) for line in rules]
    wanted = [
        (int(IPv4Address(m[1])), int(IPv4Address(m[2])), int(m[3]), int(m[4]), 17)
        for m in matched
        if m is not None
    ]
    sent = [tuple(map(int, line.split("\t"))) for line in flows]
    assert len(wanted) == len(rules) == 300
    assert sorted(sent) == sorted(wanted) and sent != wanted


def test_it_is_a_study_of_one_chain(tmp_path: Path) -> None:
    data = acl_tables.study(100, tmp_path)
    [experiment] = expand(document.parse(str(data), tmp_path / "t.yaml"))
    assert [node.nf for node in experiment.nodes] == ["acl"]
