#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What one runs before every commit: lint, the engine's unit tests, the lab's. Nothing here takes an
# lcore, a namespace or a device, or starts the engine, and nothing takes long; `make test` has those.
set -uo pipefail

cd "$(dirname "$0")/.."
mkdir -p .setup
# What is imported is not compiled anew each time, in each process.
unset PYTHONDONTWRITEBYTECODE
failed=()
closing=()

# A check's own output is for who has to mend it; otherwise its closing line will do.
run() {
	local name=$1 closing_line=$2 log=.setup/unit-$1.log began=$SECONDS
	shift 2
	if "$@" >"$log" 2>&1; then
		closing+=("$(grep -aE "$closing_line" "$log" | tail -n 1 | tr -d '=' | tr -s ' ') ($((SECONDS - began)) s)")
	else
		failed+=("$name")
		cat "$log"
	fi
}

run lint '^lint: ' scripts/lint.sh
run engine '^Ok:' meson test -C build --print-errorlogs --no-rebuild --no-suite long
# Once again what fails, as in `make test`: machines that others share stop now and then.
run lab '(passed|no tests ran).* in ' .venv/bin/python -m pytest --reruns 1 -r aR -m 'parallel and not long' \
	-n "$(nproc)" --maxprocesses=8 --dist=loadfile lab tests/docs_test.py

printf '%s\n' "${closing[@]}"
if [ ${#failed[@]} -gt 0 ]; then
	echo "FAILED: ${failed[*]}"
	exit 1
fi
echo "unit: passed within $SECONDS s"
