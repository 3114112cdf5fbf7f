# SPDX-License-Identifier: Apache-2.0
"""Do both backends give the same picture? Reads the guest's console; exit status 1 if not.

They ran at once on the same packets. Every packet must be met by both, and where both have the
same two stages, with the same number of packets and, by the histograms' steps and what the other
backend's hooks in between cost, the same times.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SHARED = (
    ("net_dev_queue", "net_dev_start_xmit"),
    ("net_dev_start_xmit", "netif_rx"),
    ("netif_rx", "netif_receive_skb"),
)
FACTOR = 1.5  # in emulation each hook takes microseconds


def results(console: str) -> dict[str, dict[str, Any]]:
    by_name = {}
    for line in console.splitlines():
        if line.startswith("RESULT "):
            _, backend, text = line.split(" ", 2)
            try:
                by_name[backend] = json.loads(text)
            except ValueError:
                sys.exit(f"{backend}: {text.strip()}")
    return by_name


def stage(result: dict[str, Any], begin: str, to: str) -> tuple[int, float]:
    """Packets and their mean time, over devices and namespaces."""
    rows = [r for r in result["stages"] if (r["from"], r["to"]) == (begin, to)]
    count = sum(r["count"] for r in rows)
    return count, sum(r["sum_ns"] for r in rows) / count if count else 0.0


def main() -> None:
    by_name = results(Path(sys.argv[1]).read_text(errors="replace"))
    if by_name.keys() != {"tp_btf", "fentry"}:
        sys.exit(f"the guest gave no results; see {sys.argv[1]}")
    a, b = by_name["tp_btf"], by_name["fentry"]
    wrong = []
    for name, r in by_name.items():
        more = sorted({s["to"] for s in r["stages"]})
        print(f"{name}: {r['packets']['sampled']} packets, lost {r['lost_total']}: {more}")
        if r["lost_total"]:
            wrong.append(f"{name} lost events")
    if not a["packets"]["sampled"] or a["packets"]["sampled"] != b["packets"]["sampled"]:
        wrong.append("not the same packets")
    if len({s["to"] for s in b["stages"]}) <= len({s["to"] for s in a["stages"]}):
        wrong.append("fentry shows no stage that the tracepoints do not")
    for begin, to in SHARED:
        (n, mean), (m, other) = stage(a, begin, to), stage(b, begin, to)
        print(f"{begin} -> {to}: {n} and {m} packets, mean {mean:.0f} and {other:.0f} ns")
        if n != m or not n:
            wrong.append(f"{begin} -> {to}: not the same packets")
        elif not 1 / FACTOR < mean / other < FACTOR:
            wrong.append(f"{begin} -> {to}: not the same time")
    if wrong:
        sys.exit(f"not the same picture: {'; '.join(wrong)}")
    print("the same picture")


if __name__ == "__main__":
    main()
