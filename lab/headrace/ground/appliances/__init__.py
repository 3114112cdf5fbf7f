# SPDX-License-Identifier: Apache-2.0
"""Chains of third-party VNFs in containers, on a network made for them and removed again."""
