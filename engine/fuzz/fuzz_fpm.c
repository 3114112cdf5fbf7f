/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a VNF says: the first byte chooses the way (FPM frames, or messages of a kernel), the rest
 * is what comes, in a buffer of its exact size. One router lives as long as the process;
 * HEADRACE_FUZZ_FRESH=1 makes one for every input, to reproduce what does not depend on earlier ones.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"
#include "nf/router/netlink.h"

/* The end of a session looks at 200,000 places of the table: not after each input. */
#define SWEEP_EVERY 64

static struct harness *h;

static void end(void)
{
	harness_free(h);
	h = NULL;
}

/* What is learnt stays, and is no leak; the last look, when the router has ended, finds what is lost. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return h != NULL;
}

static bool sweeps(void)
{
	static unsigned int since;

	return ++since % SWEEP_EVERY == 0 || getenv("HEADRACE_FUZZ_FRESH");
}

static struct vnf *router_vnf(void)
{
	static bool ends;
	struct err err;

	if (!ends)
		atexit(end);
	ends = true;
	if (h && getenv("HEADRACE_FUZZ_FRESH"))
		end();

	if (!h)
		h = harness_new("router",
				"{\"nodes\": 4096, \"vnfs\": [{\"name\": \"a\", \"learn\": \"none\", "
				"\"interfaces\": [{\"name\": \"e0\", \"mac\": \"02:00:00:00:00:01\", "
				"\"addresses\": [\"10.0.0.1/24\"], \"neighbours\": [{\"address\": "
				"\"10.0.0.2\", \"mac\": \"02:00:00:00:00:02\"}]}]}]}",
				NULL, &err);
	if (!h)
		abort();
	return &((struct router *)h->nf.state)->vnfs[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct netlink nl = {.vnf = router_vnf(), .routes = true};
	uint8_t *exact;
	bool done = false;

	if (!size)
		return 0;
	nl.kernel = data[0] & 1;
	exact = malloc(size);
	if (!exact)
		abort();
	memcpy(exact, data, size); /* its end is the buffer's */
	if (nl.kernel)
		netlink_parse(&nl, exact + 1, size - 1, &done);
	else if (fpm_parse(&nl, exact + 1, size - 1) > (long)size - 1)
		abort();
	netlink_idle(&nl);
	while (users_resolve(nl.vnf))
		;
	if (data[0] & 2 && sweeps()) { /* a new session, and what it has not announced */
		vnf_session_begin(nl.vnf, 0);
		vnf_sweep(nl.vnf);
		if (nl.vnf->routes[0] || nl.vnf->routes[1])
			abort();
	}
	rcu_reclaim(&nl.vnf->router->rcu); /* no packet is on its way */
	free(exact);
	return 0;
}
