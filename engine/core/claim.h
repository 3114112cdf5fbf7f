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

/*
 * Take a name that all processes of this network namespace share. A descriptor to close when it
 * is given back; -EADDRINUSE: taken; -1: cannot be told, which is no reason not to run.
 */
int claim_name(const char *name);

/* A descriptor to close when the device is given back; -1: no claim needed; -EADDRINUSE: taken. */
int claim_device(const char *devargs);
