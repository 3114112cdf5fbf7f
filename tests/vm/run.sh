#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A test in a QEMU guest with two NUMA nodes, each with two CPUs and an emulated Intel 82576, whose
# wires are joined: tests/vm/run.sh sriov|sriov_machines|sriov_ports|placement|isolated [PART...]. For
# sriov_ports there are twelve of them, on one switch; for isolated each node has two cores of two
# threads, and all but two CPUs are kept from the scheduler. Parts are of sriov and placement, by the
# names in their files. The guest's root is this machine's own, read-only; nothing of it is changed.
# Needs root. Exit status 0 when all that the test says holds.
#
#   HEADRACE_ENGINE          an engine to test; must not use instructions that QEMU lacks
#   HEADRACE_VM              where kernel, QEMU and engine are kept (~/.cache/headrace/vm)
#   HEADRACE_VM_SECONDS      how long the guest may take (1800)
#   HEADRACE_VM_BOOT         and how long it may boot, before it is started once more (180)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
name=test-vm-${1:-}
# shellcheck source=tests/vm/guest.sh
. "$here/guest.sh"
seconds=${HEADRACE_VM_SECONDS:-1800}
console=$cache/$name-console.log
boot_seconds=${HEADRACE_VM_BOOT:-180} attempts=2

case ${1:-} in
sriov | sriov_machines | sriov_ports | placement) ;;
# Which threads are of one core an emulated CPU says in Intel's way only.
isolated) kernel_words="isolcpus=2-7" cpu_model=max,vendor=GenuineIntel ;;
*) die "'${1:-}': not a test; allowed: sriov, sriov_machines, sriov_ports, placement, isolated" ;;
esac
[ "$(id -u)" = 0 ] || die "needs root: the guest reads this machine's files as root"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "HEADRACE_VM_SECONDS '$seconds': allowed: seconds"
[[ $boot_seconds =~ ^[1-9][0-9]*$ ]] || die "HEADRACE_VM_BOOT '$boot_seconds': allowed: seconds"
need busybox busybox cpio cpio modprobe kmod ip iproute2 apt-get apt dpkg-deb dpkg
[ -x "$repo/.venv/bin/python" ] || die "$repo/.venv: not there; make it with 'make setup'"

kernel
modules
find_qemu igb

engine

# Of VNFs in containers, with this very engine: made here, as the guest has no network. The guest
# reads it where it is.
container_image() {
	command -v podman >/dev/null || return 0
	HEADRACE_ENGINE=$HEADRACE_ENGINE "$repo/.venv/bin/headrace" vnf build headrace \
		>"$cache/image.log" 2>&1 || die "$cache/image.log"
}
case "$* " in
"sriov " | "sriov "*"containers "*) container_image ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-vm.XXXXXX")
root=$work/root
share=$work/share
pid=
finish() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	cp "$work/qemu.log" "$cache/$name-qemu.log" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

initramfs

two_nics() {
	echo "-device pcie-root-port,id=rp0,bus=pxb0,chassis=1,slot=1"
	echo "-device pcie-root-port,id=rp1,bus=pxb1,chassis=2,slot=2"
	wired w0 "$1-0" "$1-1"
	wired w1 "$1-1" "$1-0"
	echo "-device igb,id=igb0,bus=rp0,netdev=w0,mac=52:54:00:00:00:10"
	echo "-device igb,id=igb1,bus=rp1,netdev=w1,mac=52:54:00:00:00:20"
}

# Their functions talk to each other by QEMU's hub.
twelve_nics() {
	local one
	for one in {0..11}; do
		echo "-device pcie-root-port,id=rp$one,bus=pxb$((one / 6)),addr=$((one % 6 + 1)),chassis=$((one + 1)),slot=$((one + 1))"
		echo "-netdev hubport,id=w$one,hubid=0"
		echo "-device igb,id=igb$one,bus=rp$one,netdev=w$one,mac=52:54:00:00:01:$((one + 10))"
	done
}

# 1280 MB a node: virtual functions' BARs do not fit below 4 GB beside more than 2.5 GB.
boot() {
	local nics cpus=4,sockets=2,cores=2,threads=1 first=0-1 second=2-3
	nics=$([ "$1" = sriov_ports ] && twelve_nics || two_nics "$work/wire")
	[ "$1" != isolated ] || cpus=8,sockets=2,cores=2,threads=2 first=0-3 second=4-7
	share_with_guest "$share" "$1" "HEADRACE_PARTS='${*:2}'"
	# shellcheck disable=SC2086
	emulate "$share" "$console" "$work/qemu.log" \
		-m 2560M -smp "$cpus" \
		-object memory-backend-ram,id=m0,size=1280M -object memory-backend-ram,id=m1,size=1280M \
		-numa "node,nodeid=0,cpus=$first,memdev=m0" -numa "node,nodeid=1,cpus=$second,memdev=m1" \
		-numa dist,src=0,dst=1,val=21 \
		-device pxb-pcie,id=pxb0,bus=pcie.0,bus_nr=0x40,numa_node=0 \
		-device pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=0x80,numa_node=1 \
		$nics
}

over() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
	pid=
}

# Until it is up; or not, and why.
await_boot() {
	while kill -0 "$pid" 2>/dev/null && [ ! -e "$share/ready" ] &&
		[ $((SECONDS - began)) -lt $boot_seconds ] && ! stalled "$console"; do
		sleep 1
	done
	[ ! -e "$share/ready" ] || return 0
	if broke "$work/qemu.log"; then
		hung="ended: $(tail -n 1 "$work/qemu.log")"
		return 1
	fi
	kill -0 "$pid" 2>/dev/null ||
		die "the guest ended: $(tail -n 1 "$work/qemu.log") (see $console)"
	hung="did not boot in $((SECONDS - began)) s"
	return 1
}

# Its output as it comes, until it ends; or it hangs.
await_end() {
	local shown
	echo "$name: guest up after $((SECONDS - began)) s, emulated (TCG): functional results only"
	touch "$share/output"
	tail -n +1 -q -F --pid="$pid" "$share/output" 2>/dev/null &
	shown=$!
	while kill -0 "$pid" 2>/dev/null; do
		[ $((SECONDS - began)) -lt "$seconds" ] || die "not over after $seconds s; see $console"
		if stalled "$console"; then
			hung="hangs: one of its CPUs has no timer any more"
			return 1
		fi
		sleep 1
	done
	pid=
	wait "$shown" 2>/dev/null || true
	if broke "$work/qemu.log"; then
		hung="ended: $(tail -n 1 "$work/qemu.log")"
		return 1
	fi
}

# A guest that hangs by itself, as one in fourteen did on a loaded machine, says nothing of what is
# tested: it is started once more, and that is told.
for ((attempt = 1; attempt <= attempts; attempt++)); do
	began=$SECONDS
	boot "$@"
	if await_boot && await_end; then
		break
	fi
	over
	echo "$name: the guest $hung (attempt $attempt of $attempts)" >&2
done
[ "$attempt" -le "$attempts" ] || die "see $console"
cp "$share/dmesg" "$cache/$name-dmesg.log" 2>/dev/null || true
status=$(cat "$share/status" 2>/dev/null) || die "the guest ended before its test; see $console and ${console%console.log}qemu.log"
echo "$name: $([ "$status" = 0 ] && echo passed || echo FAILED) in $((SECONDS - began)) s"
[ "$status" = 0 ]
