/* SPDX-License-Identifier: Apache-2.0 */
/* l3fwd's route files: the first byte says whether they are only looked at, the rest is the file. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nf/l3fwd/l3fwd.h"

#define NEXT_HOPS 3
#define ROUTES_MAX 256 /* of each family */

/* Writes the file and returns its path, which is the same each time. */
static char *filled(const uint8_t *data, size_t size)
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

static void check(const struct fib *f)
{
	struct fib_route route;
	uint64_t cursor = 0, n = 0;

	while (fib_next(f, &cursor, &route)) {
		n++;
		if (route.next_hop >= NEXT_HOPS)
			abort();
	}
	if (n != fib_count(f) || n > ROUTES_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct l3fwd_params params = {.fib = FIB_EXACT, .capacity = {ROUTES_MAX, ROUTES_MAX}};
	struct l3fwd l3 = {.n_next_hops = NEXT_HOPS};
	struct nf nf = {.conf = &params, .socket_id = -1};
	struct err err = {0};

	if (!size)
		return 0;
	params.routes_file = filled(data + 1, size - 1);
	nf.checking = data[0] & 1;
	/* What is refused is refused with a place and a reason. */
	if (l3fwd_load_routes(&l3, &nf, &err) && (!err.path[0] || !err.msg[0]))
		abort();
	for (unsigned int i = 0; i < L3_FAMILIES; i++) {
		if (!err.msg[0] && l3.fibs[i])
			check(l3.fibs[i]);
		fib_destroy(l3.fibs[i]);
	}
	return 0;
}
