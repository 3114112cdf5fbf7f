# SPDX-License-Identifier: Apache-2.0
"""Forwarding offload: namespaces, TAPs and routing daemons of VNFs that one engine forwards for."""
