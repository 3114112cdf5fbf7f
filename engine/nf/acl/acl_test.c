/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model.h"
#include "tests/packets.h"

static struct craft_list zoo;

static int setup(void **state)
{
	craft_zoo(&zoo);
	return 0;
}

static int teardown(void **state)
{
	craft_list_free(&zoo);
	return 0;
}

/* The verdict on one packet, the same at all burst sizes and in both mbuf layouts. */
static uint8_t verdict_on(const char *params, enum nf_direction dir, const struct craft *c)
{
	struct craft_list list = {0};
	struct harness *h;
	struct err err;
	uint8_t v;

	for (int i = 0; i < 70; i++)
		craft_add(&list, c);
	h = harness_run_all("acl", params, NULL, dir, list.packets, list.n, &err);
	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	v = h->verdicts[0];
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(h->verdicts[i], v);
	harness_free(h);
	craft_list_free(&list);
	return v;
}

#define PASS 0
#define DENIED NF_DROP(0)
#define BY_DEFAULT NF_DROP(1)
#define NON_IP NF_DROP(2)
#define FRAGMENT NF_DROP(3)

static const char web_only[] =
	"{\"rules\": [{\"action\": \"permit\", \"dst\": \"192.0.2.0/24\", \"dport\": [80],"
	" \"proto\": \"tcp\"}, {\"action\": \"permit\", \"dst\": \"2001:db8::/32\","
	" \"dport\": [80, 81], \"proto\": \"tcp\"}]}";

static struct craft tcp4(void)
{
	struct craft c = {.proto = IPPROTO_TCP, .sport = 1234, .dport = 80};

	craft_addrs(&c, "10.0.0.1", "192.0.2.7");
	return c;
}

static struct craft tcp6(void)
{
	struct craft c = {.proto = IPPROTO_TCP, .sport = 1234, .dport = 80};

	craft_addrs(&c, "2001:db9::1", "2001:db8::7");
	return c;
}

static void matches_five_tuples(void **state)
{
	struct craft c = tcp4();

	assert_int_equal(verdict_on(web_only, NF_FORWARD, &c), PASS);
	c.dport = 81;
	assert_int_equal(verdict_on(web_only, NF_FORWARD, &c), BY_DEFAULT);
	c = tcp4();
	c.proto = IPPROTO_UDP;
	assert_int_equal(verdict_on(web_only, NF_FORWARD, &c), BY_DEFAULT);
	c = tcp6();
	c.dport = 81;
	assert_int_equal(verdict_on(web_only, NF_FORWARD, &c), PASS);
	c.dst[3]++;
	assert_int_equal(verdict_on(web_only, NF_FORWARD, &c), BY_DEFAULT);
}

static void sees_through_tags_and_options(void **state)
{
	for (unsigned int vlans = 0; vlans <= 2; vlans++) {
		for (unsigned int options = 0; options <= 5; options++) {
			struct craft c4 = tcp4(), c6 = tcp6();

			c4.vlans = c6.vlans = vlans;
			c4.options = c6.options = options;
			assert_int_equal(verdict_on(web_only, NF_FORWARD, &c4), PASS);
			assert_int_equal(verdict_on(web_only, NF_FORWARD, &c6), PASS);
			c4.dport = c6.dport = 443;
			assert_int_equal(verdict_on(web_only, NF_FORWARD, &c4), BY_DEFAULT);
			assert_int_equal(verdict_on(web_only, NF_FORWARD, &c6), BY_DEFAULT);
		}
	}
}

/* A rule about ports, even port 0, says nothing of packets whose ports cannot be seen. */
static void ports_unknown(void **state)
{
	static const char port_zero[] =
		"{\"rules\": [{\"action\": \"deny\", \"sport\": [0]},"
		" {\"action\": \"permit\", \"proto\": \"tcp\"}], \"default\": \"deny\"}";
	static const char no_fragments[] =
		"{\"rules\": [{\"action\": \"permit\"}], \"fragments\": \"deny\"}";
	struct craft c = tcp4();

	c.sport = 0;
	assert_int_equal(verdict_on(port_zero, NF_FORWARD, &c), DENIED);
	c.fragment = c.more_fragments = true;
	c.payload = 8;
	assert_int_equal(verdict_on(port_zero, NF_FORWARD, &c), PASS);
	assert_int_equal(verdict_on(no_fragments, NF_FORWARD, &c), FRAGMENT);
	c = tcp6();
	c.fragment = true;
	c.fragment_offset = 10;
	c.payload = 8;
	assert_int_equal(verdict_on(port_zero, NF_FORWARD, &c), PASS);
	assert_int_equal(verdict_on(no_fragments, NF_FORWARD, &c), FRAGMENT);
	c = tcp4();
	c.proto = IPPROTO_ICMP;
	assert_int_equal(verdict_on(port_zero, NF_FORWARD, &c), BY_DEFAULT);
	assert_int_equal(verdict_on(no_fragments, NF_FORWARD, &c), PASS);
}

static void non_ip_and_malformed(void **state)
{
	static const uint8_t arp[42] = {[12] = 0x08, [13] = 0x06};
	uint8_t buf[CRAFT_MAX];
	struct craft c = tcp4();
	struct harness_packet p[2] = {{arp, sizeof(arp)}, {buf, craft_build(&c, buf)}};
	struct harness *h;
	struct err err;

	buf[14] = 0x41; /* IHL of 4 bytes */
	h = harness_run_all("acl", NULL, NULL, NF_FORWARD, p, 2, &err);
	assert_non_null(h);
	assert_int_equal(h->verdicts[0], PASS);
	assert_int_equal(h->verdicts[1], NF_ABORT);
	assert_int_equal(harness_counter(h, "non-ip"), 1);
	harness_free(h);
	h = harness_run_all("acl", "{\"non_ip\": \"deny\"}", NULL, NF_FORWARD, p, 2, &err);
	assert_non_null(h);
	assert_int_equal(h->verdicts[0], NON_IP);
	assert_int_equal(harness_dropped(h, "denied-non-ip"), 1);
	harness_free(h);
}

static void reverse_direction(void **state)
{
	char params[512];
	struct craft back = {.proto = IPPROTO_TCP, .sport = 80, .dport = 1234};
	int len = strlen(web_only) - 1;

	craft_addrs(&back, "192.0.2.7", "10.0.0.1");
	assert_int_equal(verdict_on(web_only, NF_REVERSE, &back), BY_DEFAULT);
	snprintf(params, sizeof(params), "%.*s, \"reverse\": \"swap\"}", len, web_only);
	assert_int_equal(verdict_on(params, NF_REVERSE, &back), PASS);
	assert_int_equal(verdict_on(params, NF_FORWARD, &back), BY_DEFAULT);
	craft_addrs(&back, "2001:db8::7", "2001:db9::1");
	assert_int_equal(verdict_on(params, NF_REVERSE, &back), PASS);
	back.sport = 82;
	assert_int_equal(verdict_on(params, NF_REVERSE, &back), BY_DEFAULT);
	snprintf(params, sizeof(params), "%.*s, \"reverse\": \"permit\"}", len, web_only);
	assert_int_equal(verdict_on(params, NF_REVERSE, &back), PASS);
}

static void no_rules(void **state)
{
	struct craft c = tcp4();

	assert_int_equal(verdict_on(NULL, NF_FORWARD, &c), BY_DEFAULT);
	assert_int_equal(verdict_on("{\"default\": \"permit\"}", NF_FORWARD, &c), PASS);
}

static void survives_the_zoo(void **state)
{
	static const char *const params[] = {
		NULL,
		web_only,
		"{\"rules\": [{\"action\": \"permit\"}], \"match_flags\": true}",
		"{\"rules\": [{\"action\": \"permit\", \"proto\": \"icmp6\"}],"
		" \"fragments\": \"deny\", \"reverse\": \"swap\"}",
	};
	const struct harness_config split = {.first_segment = 40};

	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		for (int dir = 0; dir < NF_DIRECTIONS; dir++) {
			struct err err;

			harness_free(harness_run_all("acl", params[i], NULL, dir, zoo.packets,
						     zoo.n, &err));
			if (i == 1)
				harness_free(harness_run_all("acl", params[i], &split, dir,
							     zoo.packets, zoo.n, &err));
		}
	}
}

static void refuses_bad_parameters(void **state)
{
	static const struct {
		const char *params, *path;
	} bad[] = {
		{"{\"rule\": []}", "params"},
		{"{\"rules_file\": \"/nonexistent\"}", "params.rules_file"},
		{"{\"rules_file\": \"/\"}", "/"},
		{"{\"default\": \"drop\"}", "params.default"},
		{"{\"fragments\": \"reassemble\"}", "params.fragments"},
		{"{\"rules\": [{\"action\": \"deny\", \"dport\": [5, 4]}]}",
		 "params.rules[0].dport"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = {0};

		assert_null(harness_new("acl", bad[i].params, NULL, &err));
		assert_string_equal(err.path, bad[i].path);
		assert_true(err.msg[0]);
	}
}

static uint8_t last_verdict(struct harness *h, const struct harness_packet *p)
{
	harness_run(h, NF_FORWARD, 32, p, 1);
	return h->verdicts[h->n_verdicts - 1];
}

static void updates_while_running(void **state)
{
	const struct harness_config two = {.workers = 2};
	uint8_t buf[CRAFT_MAX];
	struct craft c = tcp4();
	struct harness_packet p = {buf, craft_build(&c, buf)};
	struct err err;
	struct harness *h = harness_new("acl", web_only, &two, &err);
	json_t *reply = NULL;

	assert_non_null(h);
	assert_int_equal(last_verdict(h, &p), PASS);
	assert_int_equal(harness_update(h, "{\"rules\": [{\"action\": \"deny\"}]}", &reply, &err),
			 0);
	assert_int_equal(json_integer_value(json_object_get(reply, "rules")), 1);
	json_decref(reply);
	assert_int_equal(last_verdict(h, &p), DENIED);
	/* Refused as a whole: the rules stay. */
	assert_int_equal(harness_update(h, "{\"rules\": [{\"action\": \"permit\"}, {}]}", NULL,
					&err),
			 -EINVAL);
	assert_string_equal(err.path, "op.rules[1]");
	assert_int_equal(last_verdict(h, &p), DENIED);
	assert_int_equal(harness_update(h, "{}", NULL, &err), -EINVAL);
	assert_int_equal(harness_update(h, "{\"default\": \"permit\"}", NULL, &err), -EINVAL);
	assert_string_equal(err.msg, "names no rules; wanted: rules or rules_file");
	assert_int_equal(last_verdict(h, &p), DENIED);
	/* With and without quiescent workers in between; nothing may leak or be freed in use. */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(harness_update(h, i % 2 ? "{\"rules\": [], \"default\": \"permit\"}"
							 : "{\"rules\": []}", NULL, &err),
				 0);
		assert_int_equal(last_verdict(h, &p), i % 2 ? PASS : BY_DEFAULT);
		if (i % 3 == 0)
			harness_advance(h, 1000000);
	}
	harness_free(h);
}

/* Random rules and packets over few values, so that they meet. */
static uint32_t pick(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % n;
}

static void random_addr(uint64_t *seed, uint8_t family, uint8_t addr[16])
{
	memset(addr, 0, 16);
	addr[0] = family == 4 ? 10 : 0x20;
	addr[1] = pick(seed, 2);
	addr[family == 4 ? 3 : 15] = pick(seed, 4) << 6;
	if (family == 6)
		addr[6] = pick(seed, 2);
}

static uint8_t random_proto(uint64_t *seed, uint8_t family)
{
	static const uint8_t protos[] = {IPPROTO_TCP,  IPPROTO_TCP, IPPROTO_UDP,
					 IPPROTO_SCTP, IPPROTO_GRE, IPPROTO_ICMP};
	uint8_t proto = protos[pick(seed, sizeof(protos))];

	return proto == IPPROTO_ICMP && family == 6 ? IPPROTO_ICMPV6 : proto;
}

static void random_range(uint64_t *seed, uint16_t range[2])
{
	uint16_t a = pick(seed, 4), b = pick(seed, 4);

	if (pick(seed, 2))
		return;
	range[0] = RTE_MIN(a, b);
	range[1] = RTE_MAX(a, b);
}

static void random_rule(uint64_t *seed, struct acl_rule *r)
{
	static const uint8_t lens4[] = {8, 16, 26, 32, 32}, lens6[] = {16, 56, 122, 128, 128};
	uint8_t family = pick(seed, 2) ? 4 : 6;
	struct param_ip ip = {.family = family};

	acl_rule_any(r);
	random_addr(seed, family, ip.addr);
	ip.len = (family == 4 ? lens4 : lens6)[pick(seed, 5)];
	acl_rule_set_src(r, &ip);
	random_addr(seed, family, ip.addr);
	ip.len = (family == 4 ? lens4 : lens6)[pick(seed, 5)];
	acl_rule_set_dst(r, &ip);
	random_range(seed, r->sport);
	random_range(seed, r->dport);
	if (pick(seed, 8)) {
		r->proto = random_proto(seed, family);
		r->proto_mask = 0xff;
	}
	if (pick(seed, 3) == 0) {
		r->flags_mask = pick(seed, 2) ? 0x0300 : 0x0201;
		r->flags = pick(seed, 4) << 8 & r->flags_mask;
	}
}

static void random_packet(uint64_t *seed, struct craft *c, struct model_packet *m)
{
	uint8_t family = pick(seed, 2) ? 4 : 6;

	*c = (struct craft){
		.family = family,
		.proto = random_proto(seed, family),
		.sport = pick(seed, 5),
		.dport = pick(seed, 5),
		.tcp_flags = pick(seed, 4),
		.icmp_type = pick(seed, 4),
		.icmp_code = pick(seed, 2),
		.vlans = pick(seed, 3),
		.options = pick(seed, 4) ? 0 : pick(seed, 3),
		.fragment = pick(seed, 8) == 0,
		.payload = pick(seed, 3) * 8,
	};
	c->more_fragments = c->fragment;
	random_addr(seed, family, c->src);
	random_addr(seed, family, c->dst);
	*m = (struct model_packet){
		.family = family,
		.proto = c->proto,
		.sport = c->sport,
		.dport = c->dport,
	};
	memcpy(m->src, c->src, 16);
	memcpy(m->dst, c->dst, 16);
	if (c->fragment)
		return;
	m->ports = c->proto == IPPROTO_TCP || c->proto == IPPROTO_UDP || c->proto == IPPROTO_SCTP;
	m->flags = c->proto != IPPROTO_UDP && c->proto != IPPROTO_SCTP && c->proto != IPPROTO_GRE;
	m->flag_bits = c->proto == IPPROTO_TCP ? c->tcp_flags << 8
					       : c->icmp_type << 8 | c->icmp_code;
}

static void rule_write(FILE *f, const struct acl_rule *r)
{
	char src[INET6_ADDRSTRLEN], dst[INET6_ADDRSTRLEN];
	int af = r->family == 4 ? AF_INET : AF_INET6;

	assert_non_null(inet_ntop(af, r->src, src, sizeof(src)));
	assert_non_null(inet_ntop(af, r->dst, dst, sizeof(dst)));
	fprintf(f, "@%s/%u\t%s/%u\t%u : %u\t%u : %u\t0x%02x/0x%02x\t0x%04x/0x%04x\n", src,
		r->src_len, dst, r->dst_len, r->sport[0], r->sport[1], r->dport[0], r->dport[1],
		r->proto, r->proto_mask, r->flags, r->flags_mask);
}

#define MODEL_RULES 100
#define MODEL_PACKETS 3000

struct model_case {
	struct acl_rules rules;
	struct craft_list packets;
	struct model_packet models[MODEL_PACKETS];
	char path[64];
};

static void case_make(struct model_case *mc, uint64_t seed)
{
	FILE *f;
	int fd;

	*mc = (struct model_case){.path = "/tmp/headrace-acl-XXXXXX"};
	fd = mkstemp(mc->path);
	assert_true(fd >= 0);
	f = fdopen(fd, "w");
	for (int i = 0; i < MODEL_RULES; i++) {
		struct acl_rule r;

		random_rule(&seed, &r);
		assert_int_equal(acl_rules_add(&mc->rules, &r), 0);
		rule_write(f, &r);
	}
	fclose(f);
	for (int i = 0; i < MODEL_PACKETS; i++) {
		struct craft c;

		random_packet(&seed, &c, &mc->models[i]);
		craft_add(&mc->packets, &c);
	}
}

static void case_verdicts(const struct model_case *mc, const struct harness *h, bool flags,
			  unsigned int alternate)
{
	size_t seen[3] = {0};

	for (size_t i = 0; i < h->n_verdicts; i++) {
		long rule = model_first(&mc->rules, &mc->models[i % MODEL_PACKETS], flags);
		uint8_t want = rule < 0 ? BY_DEFAULT : (rule + 1) % alternate ? PASS : DENIED;

		seen[want == PASS ? 0 : want == DENIED ? 1 : 2]++;
		if (h->verdicts[i] != want)
			fail_msg("packet %zu: verdict 0x%02x, but rule %ld is the first", i,
				 h->verdicts[i], rule);
	}
	/* The case is worth something: all three happen. */
	assert_true(seen[0] > 50 && seen[1] > 50 && seen[2] > 50);
}

/* Without a cache, with one bucket of it, and with one that keeps all flows. */
static void case_check(const struct model_case *mc, bool flags, unsigned int alternate)
{
	static const unsigned int caches[] = {0, 4, 16384};

	for (unsigned int i = 0; i < RTE_DIM(caches); i++) {
		char params[256];
		struct harness *h;
		struct err err;

		snprintf(params, sizeof(params),
			 "{\"rules_file\": \"%s\", \"match_flags\": %s, \"file_alternate\": %u,"
			 " \"cache_flows\": %u}",
			 mc->path, flags ? "true" : "false", alternate, caches[i]);
		h = harness_run_all("acl", params, NULL, NF_FORWARD, mc->packets.packets,
				    mc->packets.n, &err);
		assert_non_null(h);
		/* Again: now the cache knows them; and once more when it may be left aside. */
		harness_run(h, NF_FORWARD, 32, mc->packets.packets, mc->packets.n);
		harness_advance(h, 1000000);
		harness_run(h, NF_FORWARD, 32, mc->packets.packets, mc->packets.n);
		case_verdicts(mc, h, flags, alternate);
		if (caches[i] > MODEL_PACKETS)
			assert_true(harness_counter(h, "cache-hits") > 500);
		harness_free(h);
	}
}

static void agrees_with_the_model(void **state)
{
	static struct model_case mc;

	for (uint64_t seed = 1; seed <= 3; seed++) {
		case_make(&mc, seed);
		for (unsigned int alternate = 2; alternate <= 3; alternate++) {
			case_check(&mc, false, alternate);
			case_check(&mc, true, alternate);
		}
		unlink(mc.path);
		acl_rules_free(&mc.rules);
		craft_list_free(&mc.packets);
	}
}

/*
 * A cache that seldom hit is left aside, and looked at in one burst of 32 only. When the traffic
 * changes it must come back, however few packets a tick sees.
 */
static void cache_comes_back(void **state)
{
	struct craft_list strangers = {0}, friends = {0};
	struct harness *h;
	struct err err;
	uint64_t before = 0;

	for (unsigned int i = 0; i < 4000; i++) {
		struct craft c = tcp4();

		c.sport = (uint16_t)(1000 + i);
		craft_add(&strangers, &c);
	}
	for (unsigned int i = 0; i < 64; i++) {
		struct craft c = tcp4();

		craft_add(&friends, &c);
	}
	h = harness_new("acl", web_only, NULL, &err);
	assert_non_null(h);
	harness_run(h, NF_FORWARD, 32, strangers.packets, strangers.n);
	harness_advance(h, 1000000);
	for (unsigned int tick = 0; tick < 1000; tick++) {
		if (tick == 900)
			before = harness_counter(h, "cache-hits");
		harness_run(h, NF_FORWARD, 16, friends.packets, friends.n);
		harness_forget(h);
		harness_advance(h, 1000000);
	}
	assert_true(harness_counter(h, "cache-hits") - before >= 99 * friends.n);
	harness_free(h);
	craft_list_free(&strangers);
	craft_list_free(&friends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_comes_back),
		cmocka_unit_test(matches_five_tuples),
		cmocka_unit_test(sees_through_tags_and_options),
		cmocka_unit_test(ports_unknown),
		cmocka_unit_test(non_ip_and_malformed),
		cmocka_unit_test(reverse_direction),
		cmocka_unit_test(no_rules),
		cmocka_unit_test(survives_the_zoo),
		cmocka_unit_test(refuses_bad_parameters),
		cmocka_unit_test(updates_while_running),
		cmocka_unit_test(agrees_with_the_model),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
