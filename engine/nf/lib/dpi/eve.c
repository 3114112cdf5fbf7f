/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rights/helper.h"
#include "eve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <rte_cycles.h>

#include "rule.h"

#define PAUSE_NS 5000000 /* between looks into empty rings */
#define RETRY_S 1        /* between attempts to reach a socket's listener */
#define TEXT_BYTES 65536
#define LINE_BYTES 8192
#define STRING_MAX 500 /* characters: two of them fit into a line, whatever they are */

struct eve {
	struct eve_conf conf;
	pthread_t thread;
	pthread_mutex_t lock; /* of the list of rings */
	struct eve_ring *rings;
	_Atomic bool stop;
	_Atomic uint64_t lost;
	int fd;
	time_t retry_at;
	/* Wall-clock time of one TSC stamp; all others are taken from it. */
	uint64_t anchor_tsc, anchor_ns;
	/* Text not yet written. */
	size_t len, lines;
	char text[TEXT_BYTES];
};

static uint64_t wall_ns(const struct eve *e, uint64_t tsc)
{
	int64_t cycles = (int64_t)(tsc - e->anchor_tsc);

	return e->anchor_ns + (uint64_t)(int64_t)((double)cycles * 1e9 / (double)rte_get_tsc_hz());
}

static void put_time(FILE *f, const struct eve *e, uint64_t tsc)
{
	uint64_t ns = wall_ns(e, tsc);
	time_t seconds = (time_t)(ns / 1000000000);
	char text[32];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(f, "\"%s.%06u+0000\"", text, (unsigned int)(ns % 1000000000 / 1000));
}

/*
 * JSON allows UTF-8 only, but a rule's text may be anything: what is neither is written as Latin-1.
 * Texts without end are cut.
 */
static bool is_utf8(const char *text)
{
	json_t *made = json_string(text); /* NULL when it is not */

	json_decref(made);
	return made && strlen(text) < STRING_MAX;
}

static void put_string(FILE *f, const char *text)
{
	bool utf8 = is_utf8(text);

	fputc('"', f);
	for (unsigned int i = 0; text[i] && i < STRING_MAX; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || (c > 0x7e && !utf8))
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

static void put_proto(FILE *f, const struct eve_event *v)
{
	switch (v->proto) {
	case IPPROTO_TCP:
		fputs("\"TCP\"", f);
		return;
	case IPPROTO_UDP:
		fputs("\"UDP\"", f);
		return;
	case IPPROTO_SCTP:
		fputs("\"SCTP\"", f);
		return;
	case IPPROTO_ICMP:
		fputs("\"ICMP\"", f);
		return;
	case IPPROTO_ICMPV6:
		fputs("\"IPv6-ICMP\"", f);
		return;
	}
	fprintf(f, "\"%03u\"", v->proto);
}

static void put_flow(FILE *f, const struct eve *e, const struct eve_event *v)
{
	fprintf(f,
		",\"flow\":{\"pkts_toserver\":%lu,\"pkts_toclient\":%lu,\"bytes_toserver\":%lu,"
		"\"bytes_toclient\":%lu,\"start\":",
		v->packets[0], v->packets[1], v->bytes[0], v->bytes[1]);
	put_time(f, e, v->start_tsc);
	fputc('}', f);
}

static void put_alert(FILE *f, const struct eve *e, const struct eve_event *v)
{
	const struct rule *r = &e->conf.rules->items[v->rule];
	bool blocked = e->conf.drops && v->action == RULE_DROP;

	fprintf(f, ",\"alert\":{\"action\":\"%s\",\"gid\":%u,\"signature_id\":%u,\"rev\":%u,",
		blocked ? "blocked" : "allowed", r->gid, r->sid, r->rev);
	fputs("\"signature\":", f);
	put_string(f, r->msg ? r->msg : "");
	fputs(",\"category\":", f);
	put_string(f, r->classtype ? r->classtype : "");
	fprintf(f, ",\"severity\":%u},\"direction\":\"%s\"", r->priority,
		v->to_server ? "to_server" : "to_client");
}

static void put_label(FILE *f, const struct eve *e, const struct eve_event *v)
{
	char buf[64];

	if (!e->conf.label || (!v->label[0] && !v->label[1]))
		return;
	fputs(",\"app_proto\":", f);
	put_string(f, e->conf.label(e->conf.label_arg, v->label, buf, sizeof(buf)));
}

static void put_event(FILE *f, const struct eve *e, const struct eve_event *v)
{
	int family = v->family == 4 ? AF_INET : AF_INET6;
	char src[INET6_ADDRSTRLEN], dst[INET6_ADDRSTRLEN];

	fputs("{\"timestamp\":", f);
	put_time(f, e, v->tsc);
	fprintf(f, ",\"flow_id\":%lu,\"event_type\":\"%s\",\"src_ip\":\"%s\"", v->flow_id,
		v->kind == EVE_ALERT ? "alert" : "flow",
		inet_ntop(family, v->src, src, sizeof(src)));
	if (v->sport || v->dport)
		fprintf(f, ",\"src_port\":%u", v->sport);
	fprintf(f, ",\"dest_ip\":\"%s\"", inet_ntop(family, v->dst, dst, sizeof(dst)));
	if (v->sport || v->dport)
		fprintf(f, ",\"dest_port\":%u", v->dport);
	fputs(",\"proto\":", f);
	put_proto(f, v);
	if (v->kind == EVE_ALERT)
		put_alert(f, e, v);
	put_label(f, e, v);
	put_flow(f, e, v);
	fputs("}\n", f);
}

static bool output_ready(struct eve *e)
{
	time_t now = time(NULL);

	if (e->fd >= 0 || !e->conf.socket)
		return e->fd >= 0;
	if (now < e->retry_at)
		return false;
	e->retry_at = now + RETRY_S;
	e->fd = helper_connect(e->conf.socket, SOCK_STREAM | SOCK_NONBLOCK);
	return e->fd >= 0;
}

static ssize_t output(const struct eve *e, const char *text, size_t len)
{
	if (e->conf.socket)
		return send(e->fd, text, len, MSG_NOSIGNAL);
	return write(e->fd, text, len);
}

static unsigned int lines_in(const char *text, size_t len)
{
	unsigned int n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

/* A stream that took half a line is given up: what follows would not be a line. */
static void flush(struct eve *e)
{
	size_t done = 0;

	while (output_ready(e) && done < e->len) {
		ssize_t n = output(e, e->text + done, e->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (e->conf.socket &&
			    (errno != EAGAIN || (done && e->text[done - 1] != '\n'))) {
				close(e->fd);
				e->fd = -1;
			}
			break;
		}
		done += (size_t)n;
	}
	atomic_fetch_add(&e->lost, lines_in(e->text + done, e->len - done));
	e->len = 0;
}

static void write_event(struct eve *e, const struct eve_event *v)
{
	char line[LINE_BYTES];
	FILE *f;
	long len;

	if (e->len + sizeof(line) > sizeof(e->text))
		flush(e);
	f = fmemopen(line, sizeof(line), "w");
	if (!f) {
		atomic_fetch_add(&e->lost, 1);
		return;
	}
	put_event(f, e, v);
	len = ferror(f) ? -1 : ftell(f);
	if (fclose(f) || len <= 0 || line[len - 1] != '\n') {
		atomic_fetch_add(&e->lost, 1);
		return;
	}
	memcpy(e->text + e->len, line, (size_t)len);
	e->len += (size_t)len;
}

static bool drain(struct eve *e, struct eve_ring *r)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
	bool any = head != tail;

	while (tail != head) {
		write_event(e, &r->events[tail & r->mask]);
		atomic_store_explicit(&r->tail, ++tail, memory_order_release);
	}
	return any;
}

static bool drain_all(struct eve *e)
{
	bool any = false;

	pthread_mutex_lock(&e->lock);
	for (struct eve_ring *r = e->rings; r; r = r->next)
		any |= drain(e, r);
	pthread_mutex_unlock(&e->lock);
	if (e->len)
		flush(e);
	return any;
}

static void *eve_run(void *arg)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	struct eve *e = arg;

	while (!atomic_load(&e->stop))
		if (!drain_all(e))
			nanosleep(&pause, NULL);
	drain_all(e);
	return NULL;
}

static int unwritable(const char *file, int code, struct err *err)
{
	return err_set(err, code, "params.eve_file", "\"%.150s\" cannot be written: %s", file,
		       strerror(code));
}

/* Whoever starts an engine is often root: what was put there in the file's place is not followed. */
static int check_kind(const char *file, const struct stat *st, struct err *err)
{
	if (S_ISLNK(st->st_mode))
		return unwritable(file, ELOOP, err);
	if (S_ISDIR(st->st_mode))
		return unwritable(file, EISDIR, err);
	if (S_ISREG(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3)))
		return 0; /* the latter is /dev/null */
	return err_set(err, EINVAL, "params.eve_file", "\"%.150s\" is no regular file", file);
}

/* Without making the file: whether its directory would have it. */
static int check_file(const char *file, struct err *err)
{
	const char *slash = strrchr(file, '/');
	char folder[PATH_MAX] = ".";
	struct stat st;
	int rc;

	if (!lstat(file, &st)) {
		rc = check_kind(file, &st, err);
		if (rc)
			return rc;
		return access(file, W_OK) ? unwritable(file, errno, err) : 0;
	}
	if (errno != ENOENT || (slash && (size_t)(slash + 1 - file) >= sizeof(folder)))
		return unwritable(file, errno == ENOENT ? ENAMETOOLONG : errno, err);
	if (slash)
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash + 1 - file), file);
	return access(folder, W_OK | X_OK) ? unwritable(file, errno, err) : 0;
}

/* A pipe without a reader is not waited for. */
static int open_file(const char *file, struct err *err)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
		      0644);
	struct stat st;
	int rc;

	if (fd < 0)
		return unwritable(file, errno, err);
	rc = fstat(fd, &st) ? unwritable(file, errno, err) : check_kind(file, &st, err);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int check_socket(const char *path, struct err *err)
{
	size_t room = sizeof(((struct sockaddr_un *)0)->sun_path);

	if (*path && strlen(path) < room)
		return 0;
	return err_set(err, EINVAL, "params.eve_socket",
		       "a path of %zu characters; allowed: 1 to %zu", strlen(path), room - 1);
}

int eve_check(const struct eve_conf *c, struct err *err)
{
	return c->file ? check_file(c->file, err) : check_socket(c->socket, err);
}

static int output_open(struct eve *e, struct err *err)
{
	const struct eve_conf *c = &e->conf;
	int rc;

	if (c->file) {
		e->fd = open_file(c->file, err);
		return RTE_MIN(e->fd, 0);
	}
	rc = check_socket(c->socket, err);
	if (rc)
		return rc;
	helper_note(c->socket);
	e->fd = helper_connect(c->socket, SOCK_STREAM | SOCK_NONBLOCK);
	return e->fd >= 0 ? 0
			  : err_set(err, -e->fd, "params.eve_socket", "nobody listens on \"%.150s\": %s",
				    c->socket, strerror(-e->fd));
}

/* Signals are the engine's main thread's. */
static int thread_start(struct eve *e)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&e->thread, NULL, eve_run, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		pthread_setname_np(e->thread, "headrace-eve");
	return rc;
}

int eve_start(const struct eve_conf *conf, struct eve **out, struct err *err)
{
	struct eve *e = calloc(1, sizeof(*e));
	struct timespec now;
	int rc;

	if (!e)
		return err_set(err, ENOMEM, "params", "out of memory");
	e->conf = *conf;
	clock_gettime(CLOCK_REALTIME, &now);
	e->anchor_tsc = rte_rdtsc();
	e->anchor_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	pthread_mutex_init(&e->lock, NULL);
	rc = output_open(e, err);
	if (!rc && thread_start(e)) {
		close(e->fd);
		rc = err_set(err, EAGAIN, "params", "no thread for events");
	}
	if (rc) {
		pthread_mutex_destroy(&e->lock);
		free(e);
		return rc;
	}
	*out = e;
	return 0;
}

void eve_stop(struct eve *e)
{
	if (!e)
		return;
	atomic_store(&e->stop, true);
	pthread_join(e->thread, NULL);
	if (e->fd >= 0)
		close(e->fd);
	while (e->rings) {
		struct eve_ring *r = e->rings;

		e->rings = r->next;
		free(r);
	}
	pthread_mutex_destroy(&e->lock);
	free(e);
}

uint64_t eve_lost(const struct eve *e)
{
	return atomic_load(&e->lost);
}

struct eve_ring *eve_ring_add(struct eve *e, uint32_t events)
{
	size_t bytes = sizeof(struct eve_ring) + events * sizeof(struct eve_event);
	struct eve_ring *r = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!r)
		return NULL;
	memset(r, 0, sizeof(*r));
	r->mask = events - 1;
	pthread_mutex_lock(&e->lock);
	r->next = e->rings;
	e->rings = r;
	pthread_mutex_unlock(&e->lock);
	return r;
}
