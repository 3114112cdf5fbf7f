#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measure the quickstart study and say where its report is.
set -euo pipefail

cd "$(dirname "$0")/.."
headrace=.venv/bin/headrace

# Hugepages spare the TLB; the demo also runs without them and its report says which it was.
scripts/with-hugepages.sh 1024 "$headrace" run studies/quickstart.yaml

bundle=$("$headrace" report --latest --where 2>/dev/null || true)
[ -z "$bundle" ] || echo "report: $bundle"
