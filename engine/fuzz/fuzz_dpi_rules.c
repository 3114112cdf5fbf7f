/* SPDX-License-Identifier: Apache-2.0 */
/* Rules in Suricata's syntax, and what they say of a packet. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "nf/lib/dpi/rule.h"

static void check(const struct rule *r)
{
	static const uint8_t addr[16] = {10, 0, 0, 1};
	struct rule_packet p = {.family = 4,
				.proto = 6,
				.to_server = true,
				.established = true,
				.sport = 80,
				.dport = 1024,
				.src = addr,
				.dst = addr,
				.size = 100};

	if (!r->n_exprs || !r->sid)
		abort();
	rule_applies(r, &p);
	p.family = 6;
	rule_applies(r, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[] = "HOME_NET", value[] = "[10.0.0.0/8, !$OTHER]", name2[] = "OTHER",
	     value2[] = "$HOME_NET";
	struct rule_var vars[] = {{name, value}, {name2, value2}};
	struct rules rules = {.vars = {vars, 2}};
	struct err err = {0};
	FILE *f;

	if (!size)
		return 0;
	f = fmemopen((void *)data, size, "r");
	if (!f)
		abort();
	/* What is refused is refused with a place and a reason. */
	if ((rules_read(f, "input", &rules, size & 1, &err) || rules_check(&rules, &err)) &&
	    (!err.path[0] || !err.msg[0]))
		abort();
	for (size_t i = 0; i < rules.count; i++)
		check(&rules.items[i]);
	rules_free(&rules);
	fclose(f);
	return 0;
}
