#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Build the libFuzzer targets with AddressSanitizer and run each for a time. New inputs stay in
# FUZZ_CORPUS (default build-fuzz/corpus), so that the next run begins where this one ended; a crash
# is kept in build-fuzz. Runs are told by the second of CPU, which what else runs here changes little.
# --keep: afterwards the inputs are cut down to as few as reach the same. --build: no target is run.
#
#   scripts/fuzz.sh [--keep] [SECONDS PER TARGET, default 600] [TARGET]...
#   scripts/fuzz.sh --build
set -euo pipefail

cd "$(dirname "$0")/.."
keep=0 only_build=0
case ${1:-} in
--keep) keep=1 && shift ;;
--build) only_build=1 && shift ;;
esac
seconds=${1:-600}
# An input takes microseconds. One that has not ended after so long never does; less would be a machine that
# stands still for a while, or a target's set-up, which is part of its first input, beside much else.
hangs=60
TIMEFORMAT='cpu %U %S'
shift || true
build=build-fuzz
corpora=${FUZZ_CORPUS:-$build/corpus}

# New inputs are written to memory, and kept at the end: to make a file takes a file system longer than to run
# most inputs, of which thousands are new at first.
new=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" headrace-fuzz-XXXXXX)
keep_new() {
	local found
	for found in "$new"/*/; do
		[ -d "$found" ] || continue
		mkdir -p "$corpora/$(basename "$found")"
		find "$found" -type f -exec cp -t "$corpora/$(basename "$found")" {} +
	done
	rm -rf "$new"
}
trap keep_new EXIT
trap 'exit 130' INT TERM

mkdir -p .setup
if [ ! -f $build/build.ninja ]; then
	rm -rf $build
	CC=clang meson setup $build -Dfuzz=true -Dbuildtype=debugoptimized >.setup/fuzz.log 2>&1 || {
		tail -n 5 .setup/fuzz.log
		echo "fuzz: meson setup failed: .setup/fuzz.log"
		exit 1
	}
fi
ninja -C $build --quiet fuzzers >.setup/fuzz.log 2>&1 || {
	cat .setup/fuzz.log
	echo "fuzz: the targets do not build"
	exit 1
}
[ $only_build = 0 ] || exit 0

if [ $# = 0 ]; then
	mapfile -t targets < <(find $build/engine -type f -executable -name 'fuzz_*' | sort)
else
	targets=("${@/#/$build/engine/fuzz/}")
fi
[ ${#targets[@]} -gt 0 ] || {
	echo "fuzz: no targets were built"
	exit 1
}

# Of inputs that reach the same, the smallest; a merge that fails leaves them as they were.
cut_down() {
	local target=$1 corpus=$2
	rm -rf "$corpus.few"
	mkdir "$corpus.few"
	if "$target" -set_cover_merge=1 -timeout=$hangs -rss_limit_mb=4096 "$corpus.few" "$corpus" >>"$3" 2>&1; then
		rm -rf "$corpus"
		mv "$corpus.few" "$corpus"
	else
		rm -rf "$corpus.few"
	fi
}

# One target; what it said stays in build-fuzz/NAME.log, how it ended is printed.
fuzz_one() {
	local target=$1 name corpus log seeds n rate options=() asan=
	name=$(basename "$target")
	corpus=$corpora/$name
	log=$build/$name.log
	seeds=engine/fuzz/corpus/$name
	mkdir -p "$corpus" "$new/$name"
	# These have more places than an input of theirs visits: weighing each of them takes longer than it does.
	case $name in
	# What they free is not kept long either, as each piece of memory that is kept costs its pages.
	fuzz_fastpath | fuzz_checkpoint | fuzz_moves)
		options=(-entropic=0 -max_len=256)
		asan=quarantine_size_mb=16
		;;
	esac
	# Nobody else adds to its inputs meanwhile (-reload=0).
	if { time ASAN_OPTIONS=$asan:${ASAN_OPTIONS:-} "$target" "${options[@]}" -reload=0 \
		-max_total_time="$seconds" -timeout=$hangs -rss_limit_mb=4096 \
		-artifact_prefix="$build/$name-" -print_final_stats=1 -verbosity=0 \
		"$new/$name" "$corpus" $([ ! -d "$seeds" ] || echo "$seeds"); } >"$log" 2>&1; then
		n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		rate=$(awk -v n="${n:-0}" '$1 == "cpu" {printf "%d", n / ($2 + $3)}' "$log")
		[ $keep = 0 ] || {
			find "$new/$name" -type f -exec cp -t "$corpus" {} +
			cut_down "$target" "$corpus" "$log"
			rm -rf "${new:?}/$name"
		}
		echo "$name: clean, ${n:-?} runs, ${rate:-?} a second of CPU"
		return
	fi
	grep -aE 'ERROR|SUMMARY|Test unit written|DEDUP' "$log" | head -n 5 || tail -n 5 "$log"
	echo "$name: FAILED, see $log"
	echo "$name" >>$build/failed
}

: >$build/failed
for target in "${targets[@]}"; do
	# As many at once as there are CPUs.
	[ "$(jobs -pr | wc -l)" -lt "$(nproc)" ] || wait -n
	fuzz_one "$target" &
done
wait
failed=$(wc -l <$build/failed)
echo "${#targets[@]} targets, $failed failed, ${seconds} s each"
[ "$failed" = 0 ]
