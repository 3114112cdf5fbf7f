#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An engine with ThreadSanitizer under all that is done to a running one: clients, telemetry, updates,
# new plans, peers that come, go and mean harm. A report makes the engine's exit status 66, and its
# test fail. DPDK is not compiled with it: engine/tests/threads.supp has what follows from that.
set -euo pipefail

cd "$(dirname "$0")/.."
build=build-threads
tests=(tests/packet/test_concurrent.py tests/packet/test_replan.py tests/hosting/test_control_clients.py
	tests/hosting/test_shm.py tests/hosting/test_hostile_peer.py)

mkdir -p .setup
if [ ! -f $build/build.ninja ]; then
	rm -rf $build
	# Rings as DPDK has them for C11: barriers of the compiler's alone mean nothing to the sanitizer.
	CC=clang meson setup $build -Db_sanitize=thread -Db_lundef=false -Dbuildtype=debugoptimized \
		-Dseccomp=disabled -Dc_args=-DRTE_USE_C11_MEM_MODEL >.setup/threads.log 2>&1 || {
		tail -n 5 .setup/threads.log
		echo "threads: meson setup failed: .setup/threads.log"
		exit 1
	}
fi
ninja -C $build --quiet engine/headrace-engine >.setup/threads.log 2>&1 || {
	cat .setup/threads.log
	echo "threads: the engine does not build"
	exit 1
}
HEADRACE_ENGINE=$PWD/$build/engine/headrace-engine \
	TSAN_OPTIONS="suppressions=$PWD/engine/tests/threads.supp history_size=4" \
	.venv/bin/python -m pytest -p no:cacheprovider "$@" "${tests[@]}"
