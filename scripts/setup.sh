#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Make this checkout ready: the distribution's packages, a Python environment in .venv, the
# engine in build/. What is there already is left alone, so that it may run before every command.
#
#   scripts/setup.sh [demo|run|docs|test|slow|bench|lint|fuzz|trace|offload|switches|containers|kubernetes|vm|guests]...
#                                                                              (default: run)
#
# `demo` is `run` with the engine alone: no benchmarks, tracer or tests are compiled, and of Python
# packages only what it imports, when it does.
set -euo pipefail

cd "$(dirname "$0")/.."

# By purpose, so that trying headrace does not install what only its developers need.
packages_run=(gcc libc6-dev meson ninja-build pkg-config libdpdk-dev libjansson-dev libpcap-dev zlib1g-dev
	libseccomp-dev python3 python3-venv iproute2)
# chromium: pages of reports are looked at by a browser.
packages_test=(libcmocka-dev iputils-ping procps ethtool iperf3 nftables curl dpdk-dev chromium openssh-server)
packages_bench=(dpdk-dev)
# For what takes minutes to test: a real Prometheus asks a run.
packages_slow=(prometheus)
packages_lint=(clang-format)
packages_containers=(podman runc mmdebstrap openvswitch-switch)
packages_kubernetes=(containerd runc containernetworking-plugins iptables openssl)
packages_vm=(qemu-system-x86 busybox-static)
# For the tests that run headrace itself in a guest.
packages_guests=(qemu-system-x86 busybox-static cpio kmod mmdebstrap iperf3)
packages_fuzz=(clang)
packages_offload=(frr bird2)
packages_switches=(openvswitch-switch-dpdk)
packages_trace=(clang libbpf-dev bpftool ethtool nftables)
# For the functions dpi and ids; the library of patterns is added by processor.
packages_inspect=(libndpi-dev)
python_min="3.11"
dpdk_min="22.11"

die() {
	printf 'setup: %s\n' "$@" >&2
	exit 1
}

extra= targets=() trace=0 offload=0 switches=0 vm=0
[ "$*" != demo ] || targets=(engine/headrace-engine)
wanted=("${packages_run[@]}")
for purpose in "$@"; do
	case $purpose in
	demo | run) ;;
	test) wanted+=("${packages_test[@]}") extra=dev offload=quiet switches=quiet ;;
	docs) extra=${extra:+$extra,}docs ;;
	slow) wanted+=("${packages_slow[@]}") ;;
	bench) wanted+=("${packages_bench[@]}") ;;
	lint) wanted+=("${packages_lint[@]}") extra=dev ;;
	fuzz) wanted+=("${packages_fuzz[@]}") ;;
	containers) wanted+=("${packages_containers[@]}") ;;
	kubernetes) wanted+=("${packages_kubernetes[@]}") ;;
	guests) wanted+=("${packages_guests[@]}") ;;
	vm) wanted+=("${packages_vm[@]}") vm=1 ;;
	offload) offload=1 ;;
	switches) switches=1 ;;
	trace) trace=1 ;;
	*) die "$purpose: not a purpose; allowed: demo, run, docs, test, slow, bench, lint, fuzz, trace, offload, switches, containers, kubernetes, vm, guests" ;;
	esac
done

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "packages are missing and this is neither root nor has sudo; as root: $*"
	fi
}

installed() {
	dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

apt_install() {
	# Recommends would bring every driver's firmware tools and documentation.
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -q --no-install-recommends "$@" >>.setup/apt.log 2>&1
}

# clang's sanitizer and fuzzer runtimes are a package named by its version.
fuzzer_runtime() {
	clang --version | sed -n '1s/.*version \([0-9]*\).*/libclang-rt-\1-dev/p'
}

packages() {
	local missing=() package
	for package in "${wanted[@]}"; do
		installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "setup: installing ${missing[*]} (log: .setup/apt.log)"
	: >.setup/apt.log
	as_root apt-get update -q >>.setup/apt.log 2>&1 ||
		echo "setup: apt-get update failed; trying with the package lists that are there"
	# What is installed stays as it is, unless a missing package takes another version of it: then say so.
	apt-get install -s -q --no-install-recommends "${missing[@]}" 2>/dev/null |
		sed -n 's/^Inst \([^ ]*\) \[\([^]]*\)\] (\([^ ]*\).*/setup: these need another version of \1: \2 becomes \3/p'
	apt_install "${missing[@]}" || {
		tail -n 5 .setup/apt.log >&2
		die "apt-get install failed: .setup/apt.log"
	}
}

check_distribution() {
	command -v apt-get >/dev/null && command -v dpkg-query >/dev/null && return
	local name=unknown
	[ ! -r /etc/os-release ] || name=$(. /etc/os-release && echo "$PRETTY_NAME")
	die "this distribution ($name) is not Debian or Ubuntu; nothing was changed. Needed:" \
		"  a C17 compiler, meson >= 0.61, ninja, pkg-config" \
		"  DPDK >= $dpdk_min with headers, jansson >= 2.13, libpcap, zlib" \
		"  Python >= $python_min with venv, iproute2" \
		"  so that a running engine gives its rights up: libseccomp >= 2.5" \
		"  for dpi and ids: Hyperscan or Vectorscan, nDPI >= 4.2" \
		"  for the tests: cmocka; for fuzzing: clang with compiler-rt; for bench: dpdk-testpmd" \
		"then: python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'" \
		"      meson setup build && ninja -C build"
}

check_dpdk() {
	local version
	pkg-config --atleast-version="$dpdk_min" libdpdk && return
	version=$(pkg-config --modversion libdpdk 2>/dev/null || echo none)
	die "DPDK $version is installed, $dpdk_min or later is needed:" \
		"Debian 12, Ubuntu 24.04 or later have it"
}

# Of an interpreter: 0 when it is new enough and can make environments, and all users may run it.
# Those of an environment that root made from one below /root could not.
shared_python() {
	"$1" - "$python_min" <<-'EOF'
		import os, stat, sys
		from pathlib import Path
		import ensurepip, venv
		if sys.version_info < tuple(map(int, sys.argv[1].split("."))):
		    sys.exit(2)
		used = Path(getattr(sys, "_base_executable", None) or sys.executable)
		paths = {q for p in (used, used.resolve()) for q in (p, *p.parents)}
		sys.exit(not all(os.stat(q).st_mode & stat.S_IXOTH for q in paths))
	EOF
}

find_python() {
	local python status own=
	while read -r python; do
		status=0
		shared_python "$python" 2>/dev/null || status=$?
		[ $status != 0 ] || { echo "$python" && return; }
		"$python" -c "import sys; sys.exit(sys.version_info < (${python_min/./, }))" 2>/dev/null &&
			own=${own:-$python}
	done < <(type -aP python3 python3.13 python3.12 python3.11)
	[ -n "$own" ] || die "Python $python_min or later is needed; this is $(python3 --version 2>&1)"
	echo "$own"
}

# Tests import everything again and again, and may write nothing: all is compiled for them, once.
bytecode() {
	[ -e .venv/.headrace-uncompiled ] || return 0
	.venv/bin/python -m compileall -q .venv/lib >.setup/compileall.log 2>&1 || true # some are templates
	rm .venv/.headrace-uncompiled
}

# PEP 668: the distribution's Python is not ours to install into.
venv() {
	local python stamp want locked pip
	stamp=.venv/.headrace-stamp
	locked=packaging/locked/${extra:+dev}
	[ -n "$extra" ] || locked+=run
	want="$(cat pyproject.toml packaging/locked/*.txt | sha256sum) $PWD"
	[ -n "${targets[*]}" ] || bytecode
	if [ -x .venv/bin/python ] && [ -f "$stamp" ] && grep -qxF "$want ${extra:-run}" "$stamp"; then
		return
	fi
	# What was installed for development serves for running, too.
	if [ -z "$extra" ] && [ -f "$stamp" ] && grep -qxF "$want dev" "$stamp"; then
		return
	fi
	python=$(find_python)
	echo "setup: Python packages into .venv (log: .setup/pip.log)"
	if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c '' 2>/dev/null; then
		rm -rf .venv
		"$python" -m venv .venv
	fi
	pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
	if [ -n "${targets[*]}" ]; then
		pip+=(--no-compile)
		: >.venv/.headrace-uncompiled
	fi
	# Versions and hashes of everything, also of what builds headrace: a registry that was taken
	# over can give nothing else (scripts/lock.sh writes them anew).
	{
		"${pip[@]}" --require-hashes -r packaging/locked/build.txt &&
			"${pip[@]}" --require-hashes -r "$locked.txt" &&
			"${pip[@]}" --no-deps --no-build-isolation -e .
	} >.setup/pip.log 2>&1 || {
		tail -n 5 .setup/pip.log >&2
		die "pip install failed: .setup/pip.log"
	}
	echo "$want ${extra:-run}" >>"$stamp"
}

# What meson decides by: a library that came, went or changed since asks for a new decision.
libraries() {
	local name
	for name in libdpdk libhs libndpi libseccomp jansson libpcap zlib cmocka; do
		echo "$name $(pkg-config --modversion "$name" 2>/dev/null || echo none)"
	done
}

configure() {
	local found stamp=build/.headrace-libraries
	found=$(libraries)
	if [ -f build/build.ninja ] && [ "$found" = "$(cat $stamp 2>/dev/null)" ]; then
		return
	fi
	echo "setup: configuring the engine (log: .setup/meson.log)"
	: >.setup/meson.log
	if [ -f build/build.ninja ]; then
		meson configure build --clearcache >.setup/meson.log 2>&1 &&
			meson setup --reconfigure build >>.setup/meson.log 2>&1 || rm -rf build
	fi
	[ -f build/build.ninja ] || { rm -rf build && meson setup build >>.setup/meson.log 2>&1; } || {
		tail -n 5 .setup/meson.log >&2
		die "meson setup failed: .setup/meson.log"
	}
	echo "$found" >$stamp
}

# What takes minutes says so before; nothing where all is built. $1: folder, $2: what, $3: log; then targets
building() {
	local steps
	steps=$(ninja -C "$1" -n "${@:4}" 2>/dev/null | grep -c '^\[') || return 0
	echo "setup: building $2, $steps steps (log: $3)"
}

engine() {
	configure
	building build "the engine" .setup/ninja.log "${targets[@]}"
	ninja -C build --quiet "${targets[@]}" >.setup/ninja.log 2>&1 || {
		cat .setup/ninja.log >&2
		die "the engine does not build: .setup/ninja.log"
	}
}

# Hyperscan is for x86; elsewhere Vectorscan is the same library. They conflict: one of them serves.
pattern_library() {
	if installed libvectorscan-dev || ! dpkg --print-architecture | grep -qxE 'amd64|i386'; then
		echo libvectorscan-dev
	else
		echo libhyperscan-dev
	fi
}

# The engine builds without them; dpi and ids then say what they lack. Tried once. The
# demonstration has neither.
inspection() {
	local package missing=0
	wanted=("$(pattern_library)" "${packages_inspect[@]}")
	[ -z "$extra" ] || wanted+=(libndpi-bin) # ndpiReader, which labels are compared with
	for package in "${wanted[@]}"; do
		installed "$package" || missing=1
	done
	if [ $missing = 0 ] || [ -e .setup/no-inspection ]; then
		return
	fi
	(packages) || {
		echo "setup: dpi and ids will not work: ${wanted[*]} are needed" \
			"(to try again: rm .setup/no-inspection)"
		: >.setup/no-inspection
	}
}

# The kernel's tracer is a program of its own, and headrace works without it: where its tools are
# missing (Ubuntu packages bpftool with each kernel), say so and go on.
tracer() {
	wanted=("${packages_trace[@]}")
	(packages) || {
		echo "setup: headrace-trace is not built: clang, libbpf-dev and bpftool are needed"
		return
	}
	wanted=(libxdp-dev) # of one way past a bridge; older distributions do not have it
	[ -e .setup/no-xdp ] || (packages) || {
		echo "setup: headrace tune will not try af-xdp: libxdp-dev is needed" \
			"(to try again: rm .setup/no-xdp)"
		: >.setup/no-xdp
	}
	[ -f build/trace/build.ninja ] || meson setup build/trace trace >.setup/trace.log 2>&1 &&
		building build/trace headrace-trace .setup/trace.log &&
		ninja -C build/trace --quiet >>.setup/trace.log 2>&1 ||
		echo "setup: headrace-trace is not built: .setup/trace.log"
}

# What VNFs in virtual machines need: a kernel, which is unpacked and not installed, as this machine
# has its own; and an engine for CPUs as emulation has them, without AVX-512.
guests() {
	local cache=${XDG_CACHE_HOME:-$HOME/.cache}/headrace/guests
	compgen -G "$cache/kernel/lib/modules/*/kernel/drivers/vfio/vfio_iommu_type1.ko*" >/dev/null ||
		{ compgen -G '/boot/vmlinuz-*' >/dev/null && [ -d "/lib/modules/$(uname -r)" ]; } ||
		guest_kernel "$cache"
	grep -qw avx512f /proc/cpuinfo || return 0
	[ -f build/vm/build.ninja ] ||
		meson setup build/vm -Dnative=false -Dtests=disabled >.setup/vm.log 2>&1 ||
		die "meson setup failed: .setup/vm.log"
	building build/vm "the engine for virtual machines" .setup/vm.log engine/headrace-engine
	ninja -C build/vm --quiet engine/headrace-engine >>.setup/vm.log 2>&1 ||
		die "the engine for virtual machines does not build: .setup/vm.log"
}

guest_kernel() {
	local cache=$1 package modules
	local names=(virtio virtio_ring virtio_pci virtio_pci_legacy_dev virtio_pci_modern_dev
		virtio_console virtio_net net_failover failover uio uio_pci_generic qemu_fw_cfg virtio_blk
		irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci)
	package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
	[ -n "$package" ] || die "apt knows no linux-image-amd64; for a kernel of your own see docs/hosting.md"
	echo "setup: unpacking $package for virtual machines (log: .setup/vm.log)"
	rm -rf .setup/kernel
	mkdir -p .setup/kernel/new "$cache"
	(cd .setup/kernel && apt-get download -q "$package" >../vm.log 2>&1) ||
		die "apt-get download $package failed: .setup/vm.log"
	modules=("${names[@]/#/./lib/modules/*/}")
	dpkg-deb --fsys-tarfile .setup/kernel/"$package"_*.deb | tar -x -C .setup/kernel/new --wildcards \
		'./boot/vmlinuz-*' './lib/modules/*/modules.*' "${modules[@]/%/.ko*}" 2>>.setup/vm.log || true
	compgen -G '.setup/kernel/new/boot/vmlinuz-*' >/dev/null || die "$package holds no kernel: .setup/vm.log"
	rm -rf "$cache/kernel"
	mv .setup/kernel/new "$cache/kernel"
	rm -rf .setup/kernel
}

# Routing daemons for `headrace offload`. Where systemd runs their packages start them on the host:
# that is for its owner to ask for (`offload`), the tests do without them there.
routing() {
	[ "$offload" != quiet ] || [ ! -d /run/systemd/system ] || return 0
	wanted=("${packages_offload[@]}")
	(packages) || echo "setup: headrace offload has no routing daemons: ${wanted[*]} are needed"
}

# Open vSwitch with DPDK for `network: ovs-dpdk`; where systemd runs its package starts one, too.
open_vswitch() {
	[ "$switches" != quiet ] || [ ! -d /run/systemd/system ] || return 0
	wanted=("${packages_switches[@]}")
	(packages) || echo "setup: network ovs-dpdk will not work: ${wanted[*]} is needed"
}

[ -w . ] || die "$PWD is not writable for $(id -un)"
for made in .setup .venv build; do
	[ ! -e "$made" ] || [ -w "$made" ] ||
		die "$made belongs to $(stat -c %U "$made"): run as that user, or remove it"
done
mkdir -p .setup
# Two at once (an editor's test run beside a demo) would disturb each other.
exec 9>.setup/lock
flock 9

check_distribution
packages
if [ "${packages_fuzz[0]}" = clang ] && [[ " ${wanted[*]} " == *" clang "* ]]; then
	wanted=("$(fuzzer_runtime)")
	packages
fi
check_dpdk
[ -n "${targets[*]}" ] || inspection
# One waits for the network where the other computes.
venv &
python_packages=$!
engine
wait $python_packages
[ $trace = 0 ] || tracer
[ "$offload" = 0 ] || routing
[ "$switches" = 0 ] || open_vswitch
[ $vm = 0 ] || guests
