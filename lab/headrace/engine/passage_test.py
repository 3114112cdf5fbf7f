# SPDX-License-Identifier: Apache-2.0
"""What nothing can pass is noted, and nothing else is."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.describe import Description
from headrace.engine.passage import notes
from headrace.spec import document
from headrace.spec.study import expand

DENY: dict[str, Any] = {"type": "string", "enum": ["permit", "deny"], "default": "deny"}
LIST: dict[str, Any] = {"type": "array"}
ACL = {"rules": LIST, "rules_file": {"format": "file"}, "default": DENY}
NFS: dict[str, dict[str, Any]] = {
    "acl": ACL,
    "firewall": {**ACL, "reverse_rules": LIST, "reverse_default": DENY},
    "l3fwd": {"routes": LIST, "routes_file": {"format": "file"}, "ranges": LIST},
    "null": {},
}
DESCRIPTION = Description(
    Path("headrace-engine"),
    {"nfs": {name: {"params": {"properties": known}} for name, known in NFS.items()}},
)


@pytest.mark.parametrize(
    ("function", "direction", "said"),
    [
        ("acl: {rules_file: none}", "forward", "acl: no rules (none is empty), and default: deny"),
        ("acl: {default: deny}", "forward", "acl: no rules, and default: deny: nothing can pass"),
        ("l3fwd: {routes_file: none}", "both", "l3fwd: no routes (none is empty): nothing can"),
        ("l3fwd: {routes_file: none.gz}", "forward", "l3fwd: no routes (none.gz is empty)"),
        ("firewall: {default: permit}", "reverse", "reverse_default: deny: nothing can pass"),
        ("firewall: {default: permit}", "forward", None),
        ("acl: {rules_file: none, default: permit}", "forward", None),
        ("acl: {rules_file: none, rules: [{action: permit}]}", "forward", None),
        ("acl: {rules_file: some}", "forward", None),
        ("l3fwd: {routes_file: some}", "forward", None),
        ("l3fwd: {routes_file: none, ranges: [{first: 10.0.0.1, count: 1}]}", "forward", None),
        ("l3fwd: {routes_file: missing}", "forward", None),
        ("'null': {}", "forward", None),
    ],
)
def test_what_nothing_can_pass(
    function: str, direction: str, said: str | None, tmp_path: Path
) -> None:
    (tmp_path / "none").write_text("# nothing yet\n\n")
    (tmp_path / "none.gz").write_bytes(gzip.compress(b"#\n"))
    (tmp_path / "some").write_text("# one\n0.0.0.0/0\n")
    text = f"name: x\nchain: [{{{function}}}]\nworkload: {{direction: {direction}}}\n"
    doc = document.parse(text, tmp_path / "x.yaml")
    [one] = expand(doc)
    found = notes(one, DESCRIPTION, doc)
    assert len(found) == (said is not None)
    assert (said or "") in "".join(found)
