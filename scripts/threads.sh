#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The engine under ThreadSanitizer, while clients read, update and move segments, and it is ended: any
# report ends it with status 66, which fails its test. What is suppressed, and why, is
# in engine/tests/threads.supp. Without seccomp, as reports are made by a program of their own.
#
#   scripts/threads.sh [PYTEST ARGUMENTS]
set -euo pipefail

cd "$(dirname "$0")/.."
build=build-threads
mkdir -p .setup
{
	[ -f $build/build.ninja ] || meson setup $build -Db_sanitize=thread -Db_lundef=false \
		-Dbuildtype=debugoptimized -Dseccomp=disabled -Dtests=disabled
	ninja -C $build engine/headrace-engine
} >.setup/threads.log 2>&1 || {
	tail -n 20 .setup/threads.log
	echo "threads: does not build: .setup/threads.log"
	exit 1
}
named=0
for one in "$@"; do
	[ ! -e "${one%%::*}" ] || named=1
done
# Options alone are of these, not of all tests that there are.
[ $named = 1 ] || set -- "$@" tests/packet/test_concurrent.py tests/packet/test_elastic.py \
	tests/packet/test_repartition.py \
	tests/hosting/test_control_clients.py tests/hosting/test_shm.py tests/hosting/test_hostile_peer.py \
	tests/offload/test_hostile_peers.py
export HEADRACE_ENGINE=$PWD/$build/engine/headrace-engine PYTHONDONTWRITEBYTECODE=1
export TSAN_OPTIONS="suppressions=$PWD/engine/tests/threads.supp exitcode=66 history_size=4 intercept_strtok=0"
export HEADRACE_PATIENCE=10
.venv/bin/python -m pytest -p no:cacheprovider -q "$@"
