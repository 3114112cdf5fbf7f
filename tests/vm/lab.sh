#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Three emulated servers, QEMU guests whose NICs (Intel 82576) are joined by sockets, and this
# machine beside them, from which studies with `servers` are run over SSH:
#
#   gen  nic0 -- nic0 dut1     dut1 nic1 -- nic0 dut2
#   gen  nic2 -- nic2 dut1     gen  nic1 -- nic1 dut2
#
# Their root is this machine's own, read-only. Needs root. `lab.sh PART...` runs these parts only
# (lab.py has their names). Exit status 0 when all that lab.py says holds. HEADRACE_ENGINE,
# HEADRACE_VM and HEADRACE_VM_BOOT are as for run.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
name=test-vm-lab
# shellcheck source=tests/vm/guest.sh
. "$here/guest.sh"
boot_seconds=${HEADRACE_VM_BOOT:-240} attempts=3
servers=(gen dut1 dut2)

[ "$(id -u)" = 0 ] || die "needs root: the guests read this machine's files as root"
[[ $boot_seconds =~ ^[1-9][0-9]*$ ]] || die "HEADRACE_VM_BOOT '$boot_seconds': allowed: seconds"
need busybox busybox cpio cpio modprobe kmod ip iproute2 apt-get apt dpkg-deb dpkg \
	ssh openssh-client ssh-keygen openssh-client /usr/sbin/sshd openssh-server nft nftables
[ -x "$repo/.venv/bin/python" ] || die "$repo/.venv: not there; make it with 'make setup'"
kernel
modules
find_qemu igb
engine

work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-vm.XXXXXX")
root=$work/root
declare -A pids=() ports=() began=() boots=()
over() {
	local one
	for one in "${!pids[@]}"; do
		kill -KILL "${pids[$one]}" 2>/dev/null || true
		wait "${pids[$one]}" 2>/dev/null || true
		unset "pids[$one]"
	done
}
finish() {
	local one
	over
	for one in "${servers[@]}"; do
		cat "$work/$one/output" 2>/dev/null >"$cache/$name-$one-output.log" || true
		cp "$work/$one.log" "$cache/$name-$one-qemu.log" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

# One key for all three, and one of the user who may log in there; a HOME that has it.
keys() {
	local one key number=0
	mkdir -p "$work/home/.ssh" "$work/run"
	chmod 700 "$work/run"
	for key in host user; do
		ssh-keygen -q -t ed25519 -N "" -f "$work/$key"
	done
	read -r -a free <<<"$("$repo/.venv/bin/python" -c '
import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(one.getsockname()[1] for one in held))')"
	for one in "${servers[@]}"; do
		ports[$one]=${free[$((number++))]}
		printf 'Host %s\n HostName 127.0.0.1\n Port %s\n User root\n IdentityFile %s\n' \
			"$one" "${ports[$one]}" "$work/user" >>"$work/home/.ssh/config"
		printf '[127.0.0.1]:%s %s\n' "${ports[$one]}" "$(cut -d' ' -f1,2 "$work/host.pub")" \
			>>"$work/home/.ssh/known_hosts"
	done
}

# nic NUMBER OWN OTHER: a NIC on a bus of its own (1 and on), whose wire's ends are named after both. What
# passes is kept: when counts in the guests do not agree, it says which of them is right.
nic() {
	wired "w$1" "$work/$2" "$work/$3"
	echo "-object filter-dump,id=d$1,netdev=w$1,maxlen=96,file=$cache/$name-$2.pcap"
	echo "-device pcie-root-port,id=rp$1,bus=pcie.0,addr=0x1$1,chassis=$(($1 + 1))"
	echo "-device igb,bus=rp$1,netdev=w$1,mac=52:54:00:$(mac "$2")"
}

mac() {
	local sum
	sum=$(echo "$1" | md5sum)
	echo "${sum:0:2}:${sum:2:2}:${sum:4:2}"
}

declare -A nics=()
nics[gen]="$(nic 0 gen-0 dut1-0) $(nic 1 gen-1 dut2-1) $(nic 2 gen-2 dut1-2)"
nics[dut1]="$(nic 0 dut1-0 gen-0) $(nic 1 dut1-1 dut2-0) $(nic 2 dut1-2 gen-2)"
nics[dut2]="$(nic 0 dut2-0 dut1-1) $(nic 1 dut2-1 gen-1)"

boot() {
	local one=$1
	share_with_guest "$work/$one" server
	cp -p "$work/host" "$work/user.pub" "$work/$one/"
	# shellcheck disable=SC2086
	emulate "$work/$one" "$cache/$name-$one-console.log" "$work/$one.log" -m 768M -smp 2 \
		-netdev "user,id=mg,restrict=on,hostfwd=tcp:127.0.0.1:${ports[$one]}-:22" \
		-device virtio-net-pci,bus=pcie.0,addr=0x1e,netdev=mg,romfile= ${nics[$one]}
	pids[$one]=$pid began[$one]=$SECONDS boots[$one]=$((${boots[$one]:-0} + 1))
}

# Until all are up; or one is not, and why. One that hangs by itself, as one boot in ten does on a loaded
# machine, is started again alone: the others wait for it.
await_servers() {
	local one
	for one in "${servers[@]}"; do
		until [ -e "$work/$one/listens" ]; do
			! broken || return 1
			kill -0 "${pids[$one]}" 2>/dev/null ||
				die "$one ended: $(tail -n 1 "$work/$one.log") $(tail -n 3 "$work/$one/output" 2>/dev/null) (see $cache/$name-$one-console.log)"
			hangs "$one" || { sleep 1 && continue; }
			hung="$one did not boot in $((SECONDS - began[$one])) s"
			[ "${boots[$one]}" -lt "$attempts" ] || return 1
			echo "$name: $hung (attempt ${boots[$one]} of $attempts)" >&2
			cp "$cache/$name-$one-console.log" "$cache/$name-$one-hung.log" || true
			kill -KILL "${pids[$one]}" 2>/dev/null || true
			wait "${pids[$one]}" 2>/dev/null || true
			boot "$one"
		done
	done
}

hangs() {
	[ $((SECONDS - began[$1])) -ge "$boot_seconds" ] || stalled "$cache/$name-$1-console.log"
}

broken() {
	local one
	for one in "${servers[@]}"; do
		if broke "$work/$one.log"; then
			hung="$one ended: $(tail -n 1 "$work/$one.log")"
			return 0
		fi
	done
	return 1
}

# What is run beside them: its status, unless a guest broke meanwhile.
measured() {
	status=0
	(cd "$work/run" && HOME=$work/home XDG_RUNTIME_DIR=$work/run PYTHONPATH=$repo/lab COLUMNS=200 NO_COLOR=1 \
		HEADRACE_ENGINE=$HEADRACE_ENGINE HEADRACE_REPO=$repo "$repo/.venv/bin/python" "$here/lab.py" "$@") || status=$?
	[ $status = 0 ] || ! broken
}

initramfs
keys
for ((attempt = 1; attempt <= attempts; attempt++)); do
	for one in "${servers[@]}"; do
		boot "$one"
	done
	if await_servers; then
		echo "$name: three servers up after $SECONDS s, emulated (TCG): functional results only"
		! measured "$@" || break
	fi
	over
	boots=()
	rm -rf "$work/run" && mkdir -m 700 "$work/run"
	echo "$name: $hung (attempt $attempt of $attempts)" >&2
done
[ "$attempt" -le "$attempts" ] || die "see $cache/$name-*.log"
echo "$name: $([ $status = 0 ] && echo passed || echo FAILED) in $SECONDS s"
exit $status
