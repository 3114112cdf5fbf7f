/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ftw.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/packets.h"
#include "tests/csum_check.h"

extern char **environ;

#define EDGE                                                                                       \
	"{\"export\": \"edge\", \"collector\": \"192.0.2.9\", \"exporter\": \"192.0.2.1\", "       \
	"\"idle_timeout_s\": 2, \"active_timeout_s\": 5, \"template_interval_s\": 1"

static struct harness *make(const char *params)
{
	struct err err = {0};
	struct harness *h = harness_new("monitor", params, NULL, &err);

	if (!h)
		fail_msg("%s: %s", err.path, err.msg);
	return h;
}

static struct craft packet(uint8_t family, uint8_t proto, uint16_t sport, uint16_t payload)
{
	struct craft c = {.family = family, .proto = proto, .sport = sport, .dport = 53, .tos = 0xb8,
			  .payload = payload, .tcp_flags = 0x12, .icmp_type = 8};

	craft_addrs(&c, family == 4 ? "10.0.0.5" : "2001:db8::5",
		    family == 4 ? "198.51.100.9" : "2001:db8:1::9");
	return c;
}

static void feed(struct harness *h, const struct craft *c)
{
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, craft_build(c, buf)};
	size_t before = h->n_out;

	harness_run(h, NF_FORWARD, 1, &p, 1);
	assert_int_equal(h->n_out, before + 1);
	assert_memory_equal(h->out[before].data, buf, p.len);
}

static void wait_ms(struct harness *h, unsigned int ms)
{
	while (ms--)
		harness_advance(h, 1000000);
}

static uint64_t number(const uint8_t *p, unsigned int bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *p++;
	return v;
}

/* A reader of messages of its own: finds the data records by the template's lengths. */
struct seen {
	unsigned int first; /* sequence number before all this */
	unsigned int records, messages, templates;
	uint64_t octets, packets;
	uint8_t last[128]; /* the last record's bytes */
	uint64_t last_reason;
};

static void read_data(struct seen *s, const uint8_t *p, const uint8_t *end, unsigned int id)
{
	unsigned int addrs = id == 256 ? 8 : 32, bytes = addrs + 43;

	for (; p + bytes <= end; p += bytes) {
		const uint8_t *q = p + addrs + 4;

		s->records++;
		memcpy(s->last, p, bytes);
		s->last_reason = q[6];
		s->octets += number(q + 7, 8);
		s->packets += number(q + 15, 8);
		assert_true(number(q + 31, 8) >= number(q + 23, 8));
	}
	assert_true(end - p < 4);
}

static void read_message(struct seen *s, const uint8_t *p, uint32_t len)
{
	const uint8_t *end = p + len;

	assert_int_equal(number(p, 2), 10);
	assert_int_equal(number(p + 2, 2), len);
	assert_int_equal(number(p + 8, 4), s->first + s->records);
	assert_int_equal(number(p + 12, 4), 1);
	s->messages++;
	for (p += 16; p < end;) {
		unsigned int id = (unsigned int)number(p, 2), bytes = (unsigned int)number(p + 2, 2);

		assert_in_range(bytes, 4, end - p);
		if (id == 2)
			s->templates++;
		else
			read_data(s, p + 4, p + bytes, id);
		p += bytes;
	}
	assert_ptr_equal(p, end);
}

static struct seen read_exports(const struct harness *h, unsigned int first)
{
	struct seen s = {.first = first};

	for (size_t i = 0; i < h->n_out; i++) {
		const uint8_t *frame = h->out[i].data;

		if (h->out[i].edge != 1)
			continue;
		assert_int_equal(h->out[i].origin, HARNESS_CREATED);
		assert_true(csum_check(frame));
		assert_int_equal(number(frame + 36, 2), 4739);
		assert_int_equal(number(frame + 38, 2), h->out[i].len - 34);
		read_message(&s, frame + 42, h->out[i].len - 42);
	}
	return s;
}

static void test_counts(void **state)
{
	struct harness *h = make(EDGE "}");
	uint64_t octets = 0;
	struct seen s;

	(void)state;
	for (unsigned int i = 0; i < 1000; i++) {
		struct craft c = packet(i % 3 ? 4 : 6, i % 2 ? IPPROTO_TCP : IPPROTO_UDP,
					(uint16_t)(i % 100 + 1), (uint16_t)(i % 200));
		uint8_t buf[CRAFT_MAX];

		octets += craft_build(&c, buf) - 14;
		c.frame = 300; /* padding is no part of the flow */
		feed(h, &c);
	}
	assert_int_equal(harness_counter(h, "new-flows"), 200);
	wait_ms(h, 4500);
	s = read_exports(h, 0);
	assert_int_equal(s.records, 200);
	assert_int_equal(s.packets, 1000);
	assert_int_equal(s.octets, octets);
	assert_true(s.templates >= 1 && s.last_reason == 1);
	assert_int_equal(harness_counter(h, "flows"), 0);
	assert_int_equal(harness_counter(h, "messages"), s.messages);
	harness_free(h);
}

static void test_fields(void **state)
{
	struct harness *h = make(EDGE "}");
	struct craft c = packet(4, IPPROTO_TCP, 777, 10);
	struct seen s;

	(void)state;
	feed(h, &c);
	c.tcp_flags = 1;
	feed(h, &c);
	wait_ms(h, 4500);
	s = read_exports(h, 0);
	assert_int_equal(s.records, 1);
	assert_memory_equal(s.last, c.src, 4);
	assert_memory_equal(s.last + 4, c.dst, 4);
	assert_int_equal(number(s.last + 8, 2), 777);
	assert_int_equal(number(s.last + 10, 2), 53);
	assert_int_equal(s.last[12], IPPROTO_TCP);
	assert_int_equal(s.last[13], 0xb8);
	assert_int_equal(number(s.last + 14, 2), 0x13);
	assert_int_equal(number(s.last + 19, 8), 100);
	assert_int_equal(number(s.last + 27, 8), 2);
	harness_forget(h);
	c = packet(4, IPPROTO_ICMP, 0, 10);
	feed(h, &c);
	wait_ms(h, 4500);
	s = read_exports(h, 1);
	assert_int_equal(number(s.last + 16, 2), 0x0800);
	harness_free(h);
}

/* A flow that never rests is exported in parts, every active timeout. */
static void test_active(void **state)
{
	struct harness *h = make(EDGE "}");
	struct craft c = packet(4, IPPROTO_UDP, 1, 10);
	struct seen s;

	(void)state;
	for (unsigned int i = 0; i < 120; i++) {
		feed(h, &c);
		wait_ms(h, 100);
	}
	wait_ms(h, 4500);
	s = read_exports(h, 0);
	assert_in_range(s.records, 2, 3);
	assert_int_equal(s.packets, 120);
	assert_int_equal(s.last_reason, 1);
	harness_free(h);
}

static void test_full(void **state)
{
	struct harness *h = make("{\"flows\": 10}");

	(void)state;
	for (uint16_t i = 0; i < 30; i++) {
		struct craft c = packet(4, IPPROTO_UDP, (uint16_t)(i % 15), 1);

		feed(h, &c);
	}
	assert_int_equal(harness_counter(h, "not-recorded"), 10);
	assert_int_equal(harness_counter(h, "new-flows"), 10);
	harness_free(h);
}

/* A million flows, begun and aged: each is exported once, and none is lost on the way. */
static void test_million(void **state)
{
	static uint8_t bufs[BURST_MAX][CRAFT_MAX];
	struct harness *h = make(EDGE ", \"flows\": 1000000}");
	struct harness_packet p[BURST_MAX];
	struct seen all = {0};

	(void)state;
	for (unsigned int i = 0; i < 1000000; i++) {
		struct craft c = packet(4, IPPROTO_UDP, (uint16_t)(i % 50000), 4);
		unsigned int at = i % BURST_MAX;

		c.dst[3] = (uint8_t)(i / 50000);
		p[at] = (struct harness_packet){bufs[at], craft_build(&c, bufs[at]), 0};
		if (at == BURST_MAX - 1) {
			harness_run(h, NF_FORWARD, BURST_MAX, p, BURST_MAX);
			harness_forget(h);
		}
	}
	assert_int_equal(harness_counter(h, "new-flows"), 1000000);
	for (unsigned int ms = 0; ms < 6000; ms++) {
		struct seen s;

		harness_advance(h, 1000000);
		s = read_exports(h, all.records);
		all.records += s.records;
		all.packets += s.packets;
		harness_forget(h);
	}
	assert_int_equal(harness_counter(h, "messages-lost"), 0);
	assert_int_equal(all.records, 1000000);
	assert_int_equal(all.packets, all.records);
	assert_int_equal(harness_counter(h, "flows"), 0);
	harness_free(h);
}

static void test_bursts_and_zoo(void **state)
{
	struct craft_list list = {0};
	struct err err;
	struct harness *h;

	(void)state;
	craft_zoo(&list);
	h = harness_run_all("monitor", NULL, NULL, NF_FORWARD, list.packets, list.n, &err);
	assert_non_null(h);
	assert_int_equal(h->n_out + h->counts.aborted, list.n);
	harness_free(h);
	craft_list_free(&list);
}

static void refused(const char *params, const char *path)
{
	struct err err = {0};

	assert_null(harness_new("monitor", params, NULL, &err));
	assert_string_equal(err.path, path);
}

static void test_bad_params(void **state)
{
	(void)state;
	refused("{\"export\": \"socket\"}", "params.collector");
	refused("{\"export\": \"edge\", \"collector\": \"::1\"}", "params.collector");
	refused("{\"export\": \"edge\", \"collector\": \"10.0.0.1\"}", "params.exporter");
	refused("{\"export\": \"sctp\"}", "params.export");
}

/* A UDP port of the loopback that nobody has. */
static uint16_t free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	return ntohs(a.sin_port);
}

static bool is_bound(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool bound = bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0;

	close(fd);
	return bound;
}

static pid_t start_collector(uint16_t port, const char *dir)
{
	char port_text[8];
	const char *argv[] = {"nfcapd", "-b", "127.0.0.1", "-p", port_text, "-w", dir, "-t", "60", NULL};
	pid_t pid;

	snprintf(port_text, sizeof(port_text), "%u", port);
	if (posix_spawnp(&pid, "nfcapd", NULL, NULL, (char **)(uintptr_t)argv, environ))
		return -1;
	for (int i = 0; i < 100 && !is_bound(port); i++)
		usleep(50000);
	return pid;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

struct summary {
	unsigned long flows, octets, packets;
};

/* Records with source port 5 are looked at one by one, the rest in sum. */
static struct summary ask_nfdump(const char *dir, const char *filter)
{
	char command[256], line[512];
	struct summary s = {0};
	FILE *f;

	snprintf(command, sizeof(command),
		 "nfdump -R %s -q -N -o 'fmt:%%sa|%%da|%%sp|%%dp|%%pr|%%pkt|%%byt' '%s'", dir, filter);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long packets, octets;
		char *last = strrchr(line, '|'), *one = last;

		if (!last)
			continue;
		while (one > line && *--one != '|')
			;
		packets = strtoul(one + 1, NULL, 10);
		octets = strtoul(last + 1, NULL, 10);
		s.flows++;
		s.packets += packets;
		s.octets += octets;
	}
	pclose(f);
	return s;
}

/* A real collector, nfcapd of nfdump, reads what we export, both families. */
static void test_real_collector(void **state)
{
	char dir[] = "/tmp/headrace-nfcapd-XXXXXX", params[256];
	uint16_t port = free_port();
	unsigned long octets[2] = {0, 0};
	struct harness *h;
	struct summary s;
	pid_t pid;

	(void)state;
	if (system("command -v nfcapd nfdump > /dev/null 2>&1")) {
		print_message("skipped: nfcapd and nfdump (Debian's nfdump) are not installed\n");
		skip();
	}
	assert_non_null(mkdtemp(dir));
	pid = start_collector(port, dir);
	assert_true(pid > 0);
	snprintf(params, sizeof(params),
		 "{\"export\": \"socket\", \"collector\": \"127.0.0.1\", \"port\": %u}", port);
	h = make(params);
	for (unsigned int i = 0; i < 900; i++) {
		struct craft c = packet(i % 3 ? 4 : 6, i % 2 ? IPPROTO_TCP : IPPROTO_UDP,
					(uint16_t)(i % 90 + 1), (uint16_t)(i % 70));
		uint8_t buf[CRAFT_MAX];

		octets[i % 3 == 0] += craft_build(&c, buf) - 14;
		feed(h, &c);
	}
	harness_free(h); /* the rest is exported at the end */
	usleep(500000);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);

	s = ask_nfdump(dir, "ipv4");
	assert_int_equal(s.flows, 60);
	assert_int_equal(s.packets, 600);
	assert_int_equal(s.octets, octets[0]);
	s = ask_nfdump(dir, "ipv6");
	assert_int_equal(s.flows, 30);
	assert_int_equal(s.packets, 300);
	assert_int_equal(s.octets, octets[1]);
	s = ask_nfdump(dir, "src host 10.0.0.5 and dst host 198.51.100.9 and src port 5 and dst port 53 "
			    "and proto udp");
	assert_int_equal(s.flows, 1);
	assert_int_equal(s.packets, 10);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),	       cmocka_unit_test(test_fields),
		cmocka_unit_test(test_active),	       cmocka_unit_test(test_full),
		cmocka_unit_test(test_million),	       cmocka_unit_test(test_bursts_and_zoo),
		cmocka_unit_test(test_bad_params),
		cmocka_unit_test(test_real_collector),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
