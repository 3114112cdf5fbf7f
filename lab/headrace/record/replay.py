# SPDX-License-Identifier: Apache-2.0
"""A bundle's spec, as it can be run again from wherever the bundle is."""

from __future__ import annotations

from headrace.record.bundle import Bundle
from headrace.spec import document
from headrace.spec.document import Document


def document_of(bundle: Bundle) -> Document | None:
    """With the files that were copied for it; None: the bundle has no spec."""
    if bundle.spec_given is None:
        return None
    inputs = (bundle.spec_resolved or {}).get("inputs", {})
    copies = {name: bundle.path / copy for name, copy in inputs.items()}
    return document.load(bundle.path / "spec.yaml", copies)
