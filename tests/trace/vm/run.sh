#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Both backends of the tracer in a QEMU guest with Debian's kernel, which lets BPF trace
# functions: `make test-vm-trace`. Kernel and guest stay in HEADRACE_VM (default
# ~/.cache/headrace/vm). Needs no root. About a minute; not part of `make test`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
name=test-vm-trace
# shellcheck source=tests/vm/guest.sh
. "$here/../../vm/guest.sh"
tracer=${HEADRACE_TRACE:-$here/../../../build/trace/headrace-trace}

need qemu-system-x86_64 qemu-system-x86 busybox busybox cpio cpio iperf3 iperf3 ip iproute2 \
	apt-get apt dpkg-deb dpkg
[ -x "$tracer" ] || die "$tracer: not there; build it with 'make setup', or name it in HEADRACE_TRACE"

kernel
root=$cache/trace-root
rm -rf "$root"
mkdir -p "$root"/{bin,proc,sys,dev,run,tmp,lib64,etc}
for program in busybox ip iperf3; do
	put "$(command -v $program)"
done
ln -s busybox "$root/bin/sh"
put "$tracer"
cp "$(find "$cache/kernel" -name veth.ko | head -n 1)" "$root/veth.ko"
install "$here/guest-init" "$root/init"
pack "$cache/trace-initramfs.gz"

# KVM where it works for ordinary guests is not known before: emulation is what always does.
timeout 600 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1G -nodefaults \
	-no-user-config -display none -no-reboot -kernel "$image" \
	-initrd "$cache/trace-initramfs.gz" -append "console=ttyS0 panic=-1 quiet random.trust_cpu=on" \
	-serial "file:$cache/trace-console.log" || die "the guest did not end; see $cache/trace-console.log"
exec python3 "$here/compare.py" "$cache/trace-console.log"
