# SPDX-License-Identifier: Apache-2.0
"""How `headrace plan --server` does on drawn problems: 200 small ones against every placement there
is, and their certificates against the checker.

    .venv/bin/python studies/plan/instances.py [COUNT]
"""

from __future__ import annotations

import collections
import json
import sys

from headrace.errors import HeadraceError
from headrace.layout import check_placement
from headrace.layout.enumerated import enumerate_all
from headrace.layout.provable import Placing
from headrace.layout.provable_test import instance


def main() -> None:
    told: collections.Counter[str] = collections.Counter()
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        best, _, value = enumerate_all(instance(seed))
        try:
            answer = Placing(instance(seed), seconds=5).answer()
        except HeadraceError:
            told["no placement, rightly" if best is None else "missed"] += 1
            continue
        check_placement.check(json.loads(answer.model_dump_json()))
        equal = (answer.value, answer.certificate.bound) == (value, value)
        told["optimal, certificate accepted" if equal else f"seed {seed}: not optimal"] += 1
        told["by enumeration" if answer.certificate.enumerated else "by prices"] += 1
    for words, count in told.items():
        print(f"{count:5} {words}")


if __name__ == "__main__":
    main()
