# SPDX-License-Identifier: Apache-2.0
"""Which ground a study runs on: its hosting says so. A new ground is added here.

Grounds are loaded when wanted: a run need not wait half a second for those of others.
"""

from __future__ import annotations

from headrace.engine.describe import describe
from headrace.ground.contract import Checked
from headrace.host.programs import find_engine
from headrace.spec.document import Document
from headrace.spec.forms import hosting_kind


def check(doc: Document) -> Checked:
    kind = hosting_kind(doc.data)
    if kind == "appliances":
        from headrace.ground.appliances.ground import check as check_appliances

        return check_appliances(doc)
    if kind == "offload":
        from headrace.ground.offload.ground import OffloadGround

        return OffloadGround(describe(find_engine())).check(doc)
    from headrace.ground.chains import Chains

    return Chains(describe(find_engine())).check(doc)
