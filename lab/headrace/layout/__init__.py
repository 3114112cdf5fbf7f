# SPDX-License-Identifier: Apache-2.0
"""Choosing how a chain is executed: partition into segments, replicas, lcores."""
