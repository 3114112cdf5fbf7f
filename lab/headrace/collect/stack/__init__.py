# SPDX-License-Identifier: Apache-2.0
"""Packets' way through the kernel, as the tracer (trace/) sees it."""
