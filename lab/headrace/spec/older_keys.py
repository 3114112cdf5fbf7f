# SPDX-License-Identifier: Apache-2.0
"""Keys of older specs: what is written instead, with the values that were given."""

from __future__ import annotations

from typing import Any

import yaml

from headrace.spec.dotted import put

_HOSTING, _CHAOS, _CONVERGENCE = "deployment.hosting", "measure.chaos", "measure.convergence"
# Where the keys below an old key are now.
_BELOW: dict[str, dict[str, str]] = {
    "compare": {
        **{k: f"{_HOSTING}.{k}" for k in ("modes", "vnfs", "routes", "updates", "wire", "daemon")},
        "flows": "workload.flows", "frame": "workload.frame", "load": "measure.loads",
        "search": "measure.search", "duration": "measure.trial",
    },
    "chaos": {
        **{key: f"{_CHAOS}.{key}" for key in ("every", "duration", "seed")},
        **{key: f"{_HOSTING}.{key}" for key in ("vnfs", "daemon", "routes")},
        "load": "measure.loads",
    },
    "convergence": {
        **{key: f"{_CONVERGENCE}.{key}" for key in ("routes", "prefixes", "rounds", "timeout")},
        "daemons": f"{_HOSTING}.daemon",
    },
}  # fmt: skip
_LISTED = {"compare": "modes", "convergence": "daemons"}  # what a list below an old key was of


def renewed(key: str, value: Any) -> str:
    """`now`, and the study's keys that say the same; what no key has any more is left out."""
    below = _BELOW[key]
    given = value if isinstance(value, dict) else {}
    if isinstance(value, list) and key in _LISTED:
        given = {_LISTED[key]: value}
    new: dict[str, Any] = {}
    put(new, f"{_HOSTING}.kind", "offload")
    if key in ("chaos", "convergence"):
        put(new, f"measure.{key}", {})
    for name, one in given.items():
        if name in below:
            put(new, below[name], one)
    return f"now `{in_a_line(new)}`"


def in_a_line(keys: dict[str, Any]) -> str:
    """Keys of a study's top level, as YAML has them in a line."""
    text: str = yaml.safe_dump(keys, default_flow_style=True, sort_keys=False, width=1 << 20)
    return text.strip().removeprefix("{").removesuffix("}")
