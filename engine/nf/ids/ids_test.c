/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/packets.h"

#define RULES                                                                                      \
	"\"rules\": [\"drop udp any any -> any 53 (msg:\\\"an \\\\\\\"evil\\\\\\\" \xc3\xa9\\\"; " \
	"content:\\\"evil\\\"; classtype:bad-unknown; sid:7; rev:2; priority:1;)\"]"

static struct harness *make(const char *params)
{
	struct err err = {0};
	struct harness *h = harness_new("ids", params, NULL, &err);

	if (!h)
		fail_msg("%s: %s: %s", params, err.path, err.msg);
	return h;
}

static void datagram(struct harness *h, uint8_t family, uint16_t port, const char *text)
{
	struct craft c = {.proto = IPPROTO_UDP,
			  .sport = port,
			  .dport = 53,
			  .payload = (uint16_t)strlen(text)};
	uint8_t buf[CRAFT_MAX];
	struct harness_packet p = {buf, 0};

	craft_addrs(&c, family == 4 ? "10.0.0.1" : "2001:db8::1",
		    family == 4 ? "192.0.2.1" : "2001:db8:1::2");
	p.len = craft_build(&c, buf);
	memcpy(buf + p.len - c.payload, text, c.payload);
	harness_run(h, NF_FORWARD, 1, &p, 1);
	assert_int_equal(h->verdicts[h->n_verdicts - 1], NF_CONSUME);
}

static void check_text(const json_t *event, const char *key, const char *value)
{
	const char *is = json_string_value(json_object_get(event, key));

	assert_non_null(is);
	assert_string_equal(is, value);
}

static int64_t number(const json_t *event, const char *key)
{
	assert_true(json_is_integer(json_object_get(event, key)));
	return json_integer_value(json_object_get(event, key));
}

static void check_alert(const char *line, uint8_t family)
{
	json_t *event = json_loads(line, 0, NULL), *alert;

	assert_non_null(event);
	check_text(event, "event_type", "alert");
	check_text(event, "src_ip", family == 4 ? "10.0.0.1" : "2001:db8::1");
	check_text(event, "dest_ip", family == 4 ? "192.0.2.1" : "2001:db8:1::2");
	check_text(event, "proto", "UDP");
	check_text(event, "direction", "to_server");
	assert_int_equal(number(event, "src_port"), 4000);
	assert_int_equal(number(event, "dest_port"), 53);
	alert = json_object_get(event, "alert");
	check_text(alert, "action", "allowed");
	check_text(alert, "category", "bad-unknown");
	check_text(alert, "signature", "an \"evil\" \xc3\xa9");
	assert_int_equal(number(alert, "signature_id"), 7);
	assert_int_equal(number(alert, "rev"), 2);
	assert_int_equal(number(alert, "severity"), 1);
	json_decref(event);
}

static void test_file(void **state)
{
	char path[] = "/tmp/headrace-ids-XXXXXX", params[1024], line[4096];
	int fd = mkstemp(path);
	struct harness *h;
	json_t *event;
	FILE *f;

	assert_true(fd >= 0);
	close(fd);
	snprintf(params, sizeof(params), "{" RULES ", \"eve_flows\": true, \"eve_file\": \"%s\"}",
		 path);
	h = make(params);
	datagram(h, 4, 4000, "fine");
	datagram(h, 4, 4000, "evil");
	datagram(h, 6, 4000, "evil");
	harness_free(h); /* which writes what there is */
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	check_alert(line, 4);
	assert_non_null(fgets(line, sizeof(line), f));
	check_alert(line, 6);
	assert_non_null(fgets(line, sizeof(line), f));
	event = json_loads(line, 0, NULL);
	check_text(event, "event_type", "flow");
	assert_int_equal(number(json_object_get(event, "flow"), "pkts_toserver"), 2);
	assert_int_equal(number(json_object_get(event, "flow"), "bytes_toserver"), 64);
	json_decref(event);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_null(fgets(line, sizeof(line), f));
	fclose(f);
	unlink(path);
}

static int listener(struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	*at = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(at->sun_path, sizeof(at->sun_path), "/tmp/headrace-ids-%d.sock", getpid());
	unlink(at->sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void test_socket(void **state)
{
	char params[1024], line[4096];
	struct sockaddr_un at;
	int server = listener(&at), reader;
	struct harness *h;
	FILE *f;

	snprintf(params, sizeof(params), "{" RULES ", \"eve_socket\": \"%s\"}", at.sun_path);
	h = make(params);
	reader = accept(server, NULL, NULL);
	datagram(h, 4, 4000, "evil");
	f = fdopen(reader, "r");
	assert_non_null(fgets(line, sizeof(line), f));
	check_alert(line, 4);
	/* The reader goes away: nothing waits for it. */
	fclose(f);
	close(server);
	unlink(at.sun_path);
	for (unsigned int i = 0; i < 100; i++)
		datagram(h, 4, 4000, "evil");
	assert_int_equal(harness_counter(h, "alerts"), 101);
	harness_free(h);
}

/* A reader that does not read: alerts are lost and counted, packets are not. */
static void test_slow_reader(void **state)
{
	char params[1024];
	struct sockaddr_un at;
	int server = listener(&at);
	json_t *reply = NULL;
	uint64_t lost;
	struct err err;
	struct harness *h;

	snprintf(params, sizeof(params), "{" RULES ", \"eve_events\": 16, \"eve_socket\": \"%s\"}",
		 at.sun_path);
	h = make(params);
	for (unsigned int i = 0; i < 20000; i++)
		datagram(h, 4, 4000, "evil");
	usleep(50000);
	assert_int_equal(h->counts.consumed, 20000);
	assert_int_equal(harness_update(h, "{\"show\": \"events\"}", &reply, &err), 0);
	lost = harness_counter(h, "alerts-lost") + (uint64_t)number(reply, "not-taken");
	json_decref(reply);
	assert_true(lost > 0);
	assert_int_equal(harness_counter(h, "alerts"), 20000);
	harness_free(h);
	close(server);
	unlink(at.sun_path);
}

static void test_zoo(void **state)
{
	struct craft_list zoo = {0};
	struct err err = {0};
	struct harness *h;

	craft_zoo(&zoo);
	h = harness_run_all("ids", "{" RULES ", \"eve_file\": \"/dev/null\"}", NULL, NF_FORWARD,
			    zoo.packets, zoo.n, &err);
	assert_non_null(h);
	assert_int_equal(h->counts.consumed + h->counts.aborted, zoo.n);
	assert_int_equal(h->n_out, 0);
	harness_free(h);
	craft_list_free(&zoo);
}

static void check_bad(const char *params, const char *path, const char *message)
{
	struct err err = {0};

	assert_null(harness_new("ids", params, NULL, &err));
	assert_string_equal(err.path, path);
	if (!strstr(err.msg, message))
		fail_msg("\"%s\" says nothing of \"%s\"", err.msg, message);
}

/* What somebody put in the file's place is not followed, by a check neither. */
static void test_no_other_file(void **state)
{
	char folder[] = "/tmp/headrace-ids-XXXXXX", params[1024], link[64], pipe[64], victim[64];
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s/link", folder);
	snprintf(pipe, sizeof(pipe), "%s/pipe", folder);
	snprintf(victim, sizeof(victim), "%s/victim", folder);
	assert_int_equal(symlink(victim, link), 0);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	snprintf(params, sizeof(params), "{" RULES ", \"eve_file\": \"%s\"}", link);
	check_bad(params, "params.eve_file", "symbolic links");
	assert_int_equal(stat(victim, &st), -1);
	snprintf(params, sizeof(params), "{" RULES ", \"eve_file\": \"%s\"}", pipe);
	check_bad(params, "params.eve_file", "cannot be written");
	check_bad("{" RULES ", \"eve_file\": \"/dev/full\"}", "params.eve_file", "no regular file");
	unlink(link);
	unlink(pipe);
	assert_int_equal(rmdir(folder), 0);
}

static void test_bad(void **state)
{
	check_bad("{" RULES "}", "params.eve_file", "needed");
	check_bad("{" RULES ", \"eve_file\": \"a\", \"eve_socket\": \"b\"}", "params.eve_socket",
		  "one of");
	check_bad("{" RULES ", \"eve_socket\": \"/tmp/headrace-nobody\"}", "params.eve_socket",
		  "nobody");
	check_bad("{" RULES ", \"dscp\": 1, \"eve_file\": \"a\"}", "params", "dscp");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),        cmocka_unit_test(test_socket),
		cmocka_unit_test(test_slow_reader), cmocka_unit_test(test_zoo),
		cmocka_unit_test(test_no_other_file),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
