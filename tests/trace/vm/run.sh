#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Both backends of the tracer in a QEMU guest with Debian's kernel, which lets BPF trace
# functions: `make test-vm-trace`. Kernel and guest stay in HEADRACE_VM (default
# ~/.cache/headrace/vm-trace). Needs no root. About a minute; not part of `make test`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${HEADRACE_VM:-$HOME/.cache/headrace/vm-trace}
tracer=${HEADRACE_TRACE:-$here/../../../build/trace/headrace-trace}

die() {
	echo "test-vm-trace: $*" >&2
	exit 1
}

for tool in qemu-system-x86_64 busybox cpio iperf3 ip apt-get dpkg-deb; do
	command -v $tool >/dev/null || die "$tool: not found; install qemu-system-x86, busybox, cpio, iperf3, iproute2"
done
[ -x "$tracer" ] || die "$tracer: not there; build it with 'make setup', or name it in HEADRACE_TRACE"
mkdir -p "$cache"

kernel() {
	local package
	package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
	[ -n "$package" ] || die "apt knows no linux-image-amd64"
	(cd "$cache" && apt-get download -q "$package" >download.log 2>&1) || die "$cache/download.log"
	dpkg-deb -x "$cache/$package"_*.deb "$cache/kernel"
	rm "$cache/$package"_*.deb
}

# A program and the libraries that it is linked with.
put() {
	local library
	install -D "$1" "$root/bin/${1##*/}"
	# A static one has none.
	{ ldd "$1" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
		[ -e "$root$library" ] || install -D "$library" "$root$library"
	done
}

ls "$cache"/kernel/boot/vmlinuz-* >/dev/null 2>&1 || kernel
root=$cache/root
rm -rf "$root"
mkdir -p "$root"/{bin,proc,sys,dev,run,tmp,lib64,etc}
for program in busybox ip iperf3; do
	put "$(command -v $program)"
done
ln -s busybox "$root/bin/sh"
put "$tracer"
cp "$(find "$cache/kernel" -name veth.ko | head -n 1)" "$root/veth.ko"
install "$here/guest-init" "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$cache/initramfs.gz")

# KVM where it works for ordinary guests is not known before: emulation is what always does.
timeout 300 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1G -nodefaults \
	-no-user-config -display none -no-reboot -kernel "$(ls "$cache"/kernel/boot/vmlinuz-*)" \
	-initrd "$cache/initramfs.gz" -append "console=ttyS0 panic=-1 quiet random.trust_cpu=on" \
	-serial "file:$cache/console.log" || die "the guest did not end; see $cache/console.log"
exec python3 "$here/compare.py" "$cache/console.log"
