# SPDX-License-Identifier: Apache-2.0
"""Which chain of a study with groups `headrace hosting where` looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli._hosting_where import of_group
from headrace.errors import BadInput, HeadraceError
from headrace.spec import document
from headrace.spec.study import expand

GROUPS = """\
name: placed
groups:
  edge: {about: One., spec: {chain: [l2fwd]}}
  web: {about: Two., spec: {chain: [l2fwd, acl]}}
  far: {about: Three., needs: [{lcores: 4096}], spec: {chain: [acl]}}
"""


def test_a_groups_chain_is_looked_at_by_its_name() -> None:
    doc = document.parse(GROUPS, Path("placed.yaml"))
    [one] = expand(of_group(doc, "web"))
    assert [node.nf for node in one.nodes] == ["l2fwd", "acl"]
    with pytest.raises(BadInput, match=r"placed.yaml.*has groups; allowed: --group edge, web, far"):
        of_group(doc, None)
    with pytest.raises(BadInput, match="--group: got other; allowed: edge, web, far"):
        of_group(doc, "other")
    with pytest.raises(HeadraceError, match="group far: "):
        of_group(doc, "far")


def test_a_study_without_groups_is_looked_at_itself() -> None:
    doc = document.parse("name: one\nchain: [l2fwd]\n", Path("one.yaml"))
    assert of_group(doc, None) is doc
    with pytest.raises(BadInput, match="has no `groups`"):
        of_group(doc, "web")
