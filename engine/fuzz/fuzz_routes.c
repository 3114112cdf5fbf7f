/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Route files: the first byte chooses the kind of key, the rest is the file. Tables and the file live as
 * long as the process, and are emptied; HEADRACE_FUZZ_FRESH=1 makes a table for every input, to
 * reproduce what does not depend on earlier ones.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "table/fib.h"

static struct fib *tables[FIB_KEYS];

static struct fib *table_of(enum fib_key key)
{
	struct fib_conf conf = {.kind = FIB_EXACT, .key = key, .capacity = 256, .socket = -1,
				.memory = FIB_MEMORY_ORDINARY};
	struct err err = {0};

	if (!tables[key] && fib_create(&tables[key], &conf, "fuzz", &err))
		abort();
	return tables[key];
}

static void empty(struct fib **table)
{
	struct fib_route route;
	uint64_t cursor = 0;

	while (fib_count(*table) && fib_next(*table, &cursor, &route))
		if (fib_remove(*table, route.key, route.len, NULL))
			abort();
	if (fib_count(*table))
		abort();
	if (!getenv("HEADRACE_FUZZ_FRESH"))
		return;
	fib_destroy(*table);
	*table = NULL;
}

/* Writes the file and returns its path, which is the same each time. */
static const char *filled(const uint8_t *data, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("routes", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size || ftruncate(fd, (off_t)size))
		abort();
	return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	uint64_t loaded = 0;
	enum fib_key key;
	struct fib *fib;

	if (!size)
		return 0;
	key = data[0] % FIB_KEYS;
	fib = table_of(key);
	if (fib_load_file(fib, filled(data + 1, size - 1), NULL, &loaded, &err)) {
		if (!err.path[0] || !err.msg[0] || fib_count(fib))
			abort();
	} else if (fib_count(fib) > loaded) {
		abort();
	}
	empty(&tables[key]);
	return 0;
}
