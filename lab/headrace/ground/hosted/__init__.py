# SPDX-License-Identifier: Apache-2.0
"""VNFs hosted for real: each segment of a chain an engine of its own, behind the host's switch."""
