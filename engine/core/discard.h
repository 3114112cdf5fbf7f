/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Closes a socket over which a stranger may have sent descriptors. The kernel closes with it what
 * was not read, in the thread that closes it: a TCP socket that is set to wait (SO_LINGER) would
 * hold that thread for as long as its sender likes. A thread that ends waits for none (inet_release
 * looks at PF_EXITING), so one ends here, with a table of descriptors of its own, and nobody waits for it.
 * Where no thread can be had, the descriptor stays open.
 */
void discard(int fd);
