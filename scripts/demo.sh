#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measure the quickstart study and say where its report is.
set -euo pipefail

cd "$(dirname "$0")/.."
# The build that came before still keeps the machine busy for a while.
run=(.venv/bin/headrace run --settle 60 studies/quickstart.yaml)

# Root's headrace adds the hugepages that it lacks by itself, and gives them back. An ordinary
# user's may only use what is there: have some put there, where sudo allows it.
if [ "$(id -u)" != 0 ]; then
	run=(scripts/with-hugepages.sh 1024 "${run[@]}")
fi
exec "${run[@]}"
