/* SPDX-License-Identifier: Apache-2.0 */
/* Route files: the first byte chooses the kind of table and of key, the rest is the file. */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "table/fib.h"

static int file_of(const uint8_t *data, size_t size, char *path, size_t room)
{
	int fd = memfd_create("routes", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	snprintf(path, room, "/proc/self/fd/%d", fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum fib_key keys[] = {FIB_KEY_IPV4, FIB_KEY_IPV6, FIB_KEY_MAC,
					    FIB_KEY_VRF_IPV4};
	struct fib_conf conf = {
		.kind = FIB_EXACT, .capacity = 256, .socket = -1, .memory = FIB_MEMORY_ORDINARY};
	struct err err = {0};
	uint64_t loaded = 0;
	char path[64];
	struct fib *fib;
	int fd;

	if (!size)
		return 0;
	conf.key = keys[data[0] & 3];
	if (fib_create(&fib, &conf, "fuzz", &err))
		abort();
	fd = file_of(data + 1, size - 1, path, sizeof(path));
	if (fib_load_file(fib, path, NULL, &loaded, &err)) {
		if (!err.path[0] || !err.msg[0] || fib_count(fib))
			abort();
	} else if (fib_count(fib) > loaded) {
		abort();
	}
	close(fd);
	fib_destroy(fib);
	return 0;
}
