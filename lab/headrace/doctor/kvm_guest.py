# SPDX-License-Identifier: Apache-2.0
"""The smallest 64-bit guest: it writes one byte to a port and halts.

Run as a program of its own, since a KVM that does not work may hang: exit status 0 when the
guest ran, otherwise one line on stderr. Interface: Linux, Documentation/virt/kvm/api.rst.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import sys

API_VERSION = 12  # has never been another since KVM went into Linux
GET_API_VERSION, CREATE_VM, GET_VCPU_MMAP_SIZE = 0xAE00, 0xAE01, 0xAE04
CREATE_VCPU, SET_TSS_ADDR, SET_USER_MEMORY_REGION = 0xAE41, 0xAE47, 0x4020AE46
RUN, SET_REGS, GET_SREGS, SET_SREGS = 0xAE80, 0x4090AE82, 0x8138AE83, 0x4138AE84
EXIT_IO = 2

MEMORY, PML4, PDPT, PD, CODE, STACK = 0x8000, 0x1000, 0x2000, 0x3000, 0x4000, 0x7000
PORT, BYTE = 0xF4, 0x4B
# mov al, BYTE; out PORT, al; hlt
PROGRAM = bytes([0xB0, BYTE, 0xE6, PORT, 0xF4])
# base, limit, selector, type, present, dpl, db, s, l, g, avl, unusable, padding
SEGMENT = struct.Struct("<QIH10B")
CODE_SEGMENT = SEGMENT.pack(0, 0xFFFFFFFF, 8, 11, 1, 0, 0, 1, 1, 1, 0, 0, 0)
DATA_SEGMENT = SEGMENT.pack(0, 0xFFFFFFFF, 16, 3, 1, 0, 1, 1, 0, 1, 0, 0, 0)
SREGS_BYTES, CONTROL_AT = 312, 8 * SEGMENT.size + 32  # eight segments, two tables, then cr0
REGS = struct.Struct("<18Q")
RSP, RIP, RFLAGS = 6, 16, 17


class KvmRefused(Exception):
    pass


def run_guest() -> None:
    kvm = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    version = fcntl.ioctl(kvm, GET_API_VERSION, 0)
    if version != API_VERSION:
        raise KvmRefused(f"KVM's API version is {version}, not {API_VERSION}")
    vm = fcntl.ioctl(kvm, CREATE_VM, 0)
    memory = _memory()
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    # Intel without "unrestricted guest" needs three pages outside of the guest's memory.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ioctl(vm, ctypes.c_ulong(SET_TSS_ADDR), ctypes.c_ulong(0xFFFBD000))
    region = struct.pack("<IIQQQ", 0, 0, 0, MEMORY, address)
    fcntl.ioctl(vm, SET_USER_MEMORY_REGION, region)
    vcpu = fcntl.ioctl(vm, CREATE_VCPU, 0)
    state = mmap.mmap(vcpu, fcntl.ioctl(kvm, GET_VCPU_MMAP_SIZE, 0))
    _long_mode(vcpu)
    fcntl.ioctl(vcpu, RUN, 0)
    _expect_byte(state)


def _memory() -> mmap.mmap:
    """One 2 MB page mapped at 0, and the program."""
    memory = mmap.mmap(-1, MEMORY, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    present_writable, huge = 0x3, 0x80
    for at, entry in ((PML4, PDPT), (PDPT, PD), (PD, huge)):
        memory[at : at + 8] = struct.pack("<Q", entry | present_writable)
    memory[CODE : CODE + len(PROGRAM)] = PROGRAM
    return memory


def _long_mode(vcpu: int) -> None:
    sregs = bytearray(SREGS_BYTES)
    fcntl.ioctl(vcpu, GET_SREGS, sregs)
    sregs[0 : SEGMENT.size] = CODE_SEGMENT
    for i in range(1, 6):
        sregs[SEGMENT.size * i : SEGMENT.size * (i + 1)] = DATA_SEGMENT
    apic_base = struct.unpack_from("<7Q", sregs, CONTROL_AT)[6]
    cr0, cr4, efer = 0x80000031, 0x20, 0x500  # paging, NE, ET, PE; PAE; long mode on and active
    struct.pack_into("<7Q", sregs, CONTROL_AT, cr0, 0, PML4, cr4, 0, efer, apic_base)
    fcntl.ioctl(vcpu, SET_SREGS, bytes(sregs))
    regs = [0] * 18
    regs[RSP], regs[RIP], regs[RFLAGS] = STACK, CODE, 2
    fcntl.ioctl(vcpu, SET_REGS, REGS.pack(*regs))


def _expect_byte(state: mmap.mmap) -> None:
    reason = struct.unpack_from("<I", state, 8)[0]
    if reason != EXIT_IO:
        raise KvmRefused(f"the guest stopped with exit reason {reason}")
    _, _, port, _, offset = struct.unpack_from("<BBHIQ", state, 32)
    if (port, state[offset]) != (PORT, BYTE):
        raise KvmRefused(f"the guest wrote {state[offset]:#x} to port {port:#x}")


if __name__ == "__main__":
    try:
        run_guest()
    except (OSError, KvmRefused) as e:
        sys.exit(f"{e}")
