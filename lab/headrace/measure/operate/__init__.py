# SPDX-License-Identifier: Apache-2.0
"""Policies that add and remove lcores of a chain while its load changes, and what keeps them."""
