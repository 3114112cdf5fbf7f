# SPDX-License-Identifier: Apache-2.0
"""Chain graphs: which ways there are to put a set of VNFs together (NfvInsight section 3, algorithm
1)."""
