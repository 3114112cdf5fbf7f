# SPDX-License-Identifier: Apache-2.0
"""Chains as pods of a Kubernetes cluster."""
