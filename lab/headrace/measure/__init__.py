# SPDX-License-Identifier: Apache-2.0
"""Trials, searches, audits: what turns counters into results."""
