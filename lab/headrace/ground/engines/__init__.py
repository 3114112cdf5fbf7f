# SPDX-License-Identifier: Apache-2.0
"""Chains on engines that are not headrace's, between the same ports: translated, proved to do the
same to packets, measured beside it."""
