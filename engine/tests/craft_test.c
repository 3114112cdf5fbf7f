/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of the source, held against plain arithmetic and DPDK's own checksums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rte_eal.h>
#include <rte_mbuf.h>

#include "core/pkt.h"
#include "link/craft.h"

#define FLOWS 1000

static uint32_t vary_all[] = {VARY_SRC_IP, VARY_DST_IP, VARY_SRC_PORT, VARY_DST_PORT};
static uint64_t sizes[] = {64, 65, 570, 1518};
static struct param_mac macs[] = {{{2, 0, 0, 0, 0, 9}}};

static struct flows_conf flows_conf(const char *src, const char *dst, enum flow_kind kind)
{
	struct flows_conf c = {
		.flows = FLOWS,
		.vary = {vary_all, 4},
		.protocol = kind,
		.src_port = 65000,
		.dst_port = 80,
	};

	assert_int_equal(param_ip_parse(src, &c.src_ip), 0);
	assert_int_equal(param_ip_parse(dst, &c.dst_ip), 0);
	return c;
}

static struct craft_conf craft_conf(const struct flows_conf *f, uint64_t first, uint64_t vlan,
				    bool stamp)
{
	return (struct craft_conf){
		.frame_bytes = {sizes + first, 4 - first},
		.dst_macs = {macs, 1},
		.src_ip = f->src_ip,
		.dst_ip = f->dst_ip,
		.vlan = vlan,
		.ttl = 64,
		.stamp = stamp,
	};
}

static void check_packet(uint8_t *p, uint16_t len, bool ipv6, enum flow_kind kind)
{
	struct rte_mbuf m = {.buf_addr = p, .data_len = len, .pkt_len = len, .nb_segs = 1};
	void *l3, *l4;

	pkt_classify(&m);
	assert_false(pkt_malformed(&m));
	assert_int_equal(pkt_is_ipv6(&m), ipv6);
	assert_int_equal(pkt_l4(&m), kind == FLOW_UDP ? RTE_PTYPE_L4_UDP : RTE_PTYPE_L4_TCP);
	l3 = pkt_l3_hdr(&m);
	l4 = pkt_l4_hdr(&m);
	if (ipv6) {
		assert_int_equal(rte_ipv6_udptcp_cksum_verify(l3, l4), 0);
		return;
	}
	assert_int_equal(rte_ipv4_cksum(l3), 0);
	assert_int_equal(rte_ipv4_udptcp_cksum_verify(l3, l4), 0);
}

static void run(const char *src, const char *dst, enum flow_kind kind, unsigned int first,
		uint64_t vlan, bool stamp)
{
	struct flows_conf fc = flows_conf(src, dst, kind);
	struct craft_conf cc = craft_conf(&fc, first, vlan, stamp);
	struct err err = {0};
	struct flows f;
	struct craft c;
	uint8_t *p = malloc(2048);

	assert_int_equal(flows_create(&f, &fc, 1, &err), 0);
	if (craft_create(&c, &cc, &f, &err))
		fail_msg("%s: %s", err.path, err.msg);
	for (unsigned int s = 0; s < c.n_sizes; s++)
		for (uint64_t i = 0; i < f.n; i++) {
			const struct template *t = &c.sizes[s * FLOW_KINDS + kind];
			uint64_t magic = stamp_magic(i) | (i * 7919 & STAMP_TIME_MASK);
			struct stamp back;

			craft_packet(&c, t, &f.flow[i], p, magic, i << 32 | s);
			check_packet(p, t->len, f.ipv6, kind);
			back = stamp_read(p + t->len);
			if (stamp) {
				assert_int_equal(back.magic_time, magic);
				assert_int_equal(back.flow_seq, i << 32 | s);
			}
		}
	craft_destroy(&c);
	flows_destroy(&f);
	free(p);
}

static void test_checksums(void **state)
{
	(void)state;
	run("10.0.255.250", "198.19.0.1", FLOW_UDP, 0, 0, true);
	run("10.0.255.250", "198.19.0.1", FLOW_UDP, 0, 7, false);
	run("10.0.255.250", "198.19.0.1", FLOW_TCP, 2, 0, true);
	run("2001:db8::ffff:fff0", "2001:db8:1::1", FLOW_UDP, 2, 0, true);
	run("2001:db8::ffff:fff0", "2001:db8:1::1", FLOW_TCP, 2, 100, true);
}

/* Every flow is another one, and fields move as documented. */
static void test_flows(void **state)
{
	struct flows_conf fc = flows_conf("10.0.0.1", "10.1.0.1", FLOW_UDP);
	struct err err;
	struct flows f;

	(void)state;
	assert_int_equal(flows_create(&f, &fc, 1, &err), 0);
	for (uint64_t i = 0; i < f.n; i++) {
		assert_int_equal(rte_be_to_cpu_32(f.flow[i].src), 0x0a000001 + i);
		assert_int_equal(rte_be_to_cpu_32(f.flow[i].dst), 0x0a010001 + i);
		assert_int_equal(rte_be_to_cpu_16(f.flow[i].sport), 1024 + (65000 - 1024 + i) % 64512);
		assert_true(rte_be_to_cpu_16(f.flow[i].dport) >= 1024);
	}
	flows_destroy(&f);
}

static void test_too_small(void **state)
{
	static const struct {
		const char *src, *dst;
		enum flow_kind kind;
		const char *need;
	} cases[] = {
		{"10.0.0.1", "10.0.0.2", FLOW_TCP, "at least 74 B"},
		{"::1", "::2", FLOW_UDP, "at least 82 B"},
	};
	struct err err;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct flows_conf fc = flows_conf(cases[i].src, cases[i].dst, cases[i].kind);
		struct craft_conf cc = craft_conf(&fc, 0, 0, true);
		struct flows f;
		struct craft c;

		assert_int_equal(flows_create(&f, &fc, 1, &err), 0);
		assert_int_equal(craft_create(&c, &cc, &f, &err), -22);
		assert_string_equal(err.path, "params.frame_bytes");
		assert_non_null(strstr(err.msg, cases[i].need));
		flows_destroy(&f);
	}
}

/* The alias table's draws, summed exactly, are Zipf's probabilities. */
static void test_zipf(void **state)
{
	struct alias *a = alias_zipf(100, 1.0);
	double p[100] = {0}, sum = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		double keep = a[i].threshold / (double)UINT32_MAX;

		p[i] += keep / 100;
		p[a[i].other] += (1 - keep) / 100;
		sum += 1.0 / (i + 1);
	}
	for (int i = 0; i < 100; i++)
		assert_true(p[i] * sum * (i + 1) > 0.999 && p[i] * sum * (i + 1) < 1.001);
	free(a);
}

int main(int argc, char **argv)
{
	static char *eal[] = {(char *)"craft_test", (char *)"--no-huge", (char *)"--no-shconf",
			      (char *)"--no-pci", (char *)"--no-telemetry", (char *)"-l", (char *)"0",
			      (char *)"--log-level=error"};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_checksums),
		cmocka_unit_test(test_flows),
		cmocka_unit_test(test_too_small),
		cmocka_unit_test(test_zipf),
	};

	(void)argc;
	(void)argv;
	if (rte_eal_init(8, eal) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
