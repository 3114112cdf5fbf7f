/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One engine per device. The kernel lets several programs attach to one TAP, one interface by
 * AF_PACKET, and each would get some of the packets: a claim refuses the second engine.
 *
 * A claim is a bound abstract socket: known to all processes of the network namespace that the
 * interface is in, and gone with its process however that ends, so that nothing has to be cleaned.
 * Devices without `iface=` need none; their drivers are exclusive.
 */

/* A descriptor to close when the device is given back; -1: no claim needed; -EADDRINUSE: taken. */
int claim_device(const char *devargs);
