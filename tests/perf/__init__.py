# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: `make bench`. Ratios of interleaved runs, never a pass or fail by time."""
