# SPDX-License-Identifier: Apache-2.0
"""Advice tried, not only given: NfvInsight's three findings, each applied for a run and
measured."""
