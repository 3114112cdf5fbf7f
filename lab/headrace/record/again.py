# SPDX-License-Identifier: Apache-2.0
"""A bundle's spec, as it can be run again from wherever the bundle is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.errors import BadInput, bad_value
from headrace.record import own
from headrace.record.bundle import Bundle
from headrace.spec import document
from headrace.spec.document import Document

_INPUTS, _SPEC = "inputs", "spec.yaml"


def document_of(bundle: Bundle, *, trusted: bool = False) -> Document | None:
    """The spec with the files that were copied for it; None: the bundle has no spec. It may be a
    stranger's: it names files of the bundle only, and nothing to be run unless it is `trusted`."""
    if bundle.spec_given is None:
        return None
    inputs = (bundle.spec_resolved or {}).get("inputs", {})
    if not isinstance(inputs, dict):
        raise BadInput(f"{bundle.path}/resolved.json: inputs: must be an object")
    own.regular(bundle.path, _SPEC)
    copies = {name: _copy(bundle.path, name, copy) for name, copy in inputs.items()}
    doc = document.load(bundle.path / _SPEC, copies)
    return replace(doc, bundled=True, trusted=trusted)


def _copy(bundle: Path, name: str, copy: Any) -> Path:
    parts = Path(copy).parts if isinstance(copy, str) else ()
    if len(parts) != 2 or parts[0] != _INPUTS or parts[1] == ".." or "\0" in copy:
        place = f"{bundle}/resolved.json: inputs.{name}"
        raise bad_value(place, copy, allowed=f"a file in the bundle's {_INPUTS}/")
    if (bundle / _INPUTS).is_symlink():
        raise BadInput(f"{bundle / _INPUTS}: is a link; allowed: the bundle's own folder")
    return own.regular(bundle, copy)
