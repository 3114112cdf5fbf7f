/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

int problem_is(struct problem *p, int rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->text, sizeof(p->text), format, args);
	va_end(args);
	return rc;
}

int stage_text(const json_t *conf, const char *key, const char **to, struct problem *p)
{
	*to = json_string_value(json_object_get(conf, key));
	return *to ? 0 : problem_is(p, -EINVAL, "%s: missing; allowed: a text", key);
}

int stage_mac(const json_t *conf, const char *key, __u8 *mac, struct problem *p)
{
	const char *text;
	int used = 0, rc = stage_text(conf, key, &text, p);

	if (rc)
		return rc;
	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx%n", &mac[0], &mac[1], &mac[2], &mac[3],
		   &mac[4], &mac[5], &used) != 6 ||
	    text[used])
		return problem_is(p, -EINVAL, "%s: \"%s\"; allowed: a MAC address", key, text);
	return 0;
}

bool stage_is(const json_t *conf, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(conf, key));

	return text && !strcmp(text, value);
}

int stage_refused(int rc, const char *what, struct problem *p)
{
	if (rc == -EPERM || rc == -EACCES)
		return problem_is(
			p, rc,
			"%s: this kernel or user may not load it (CAP_BPF and CAP_NET_ADMIN are "
			"needed; HEADRACE_TRACE_DEBUG=1 shows what the kernel says)",
			what);
	return problem_is(p, rc, "%s: %s", what, strerror(-rc));
}

int stage_copy(const struct bpf_map *map, const void *from, size_t bytes, struct problem *p)
{
	void *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	if (to == MAP_FAILED)
		return stage_refused(-errno, bpf_map__name(map), p);
	memcpy(to, from, bytes);
	munmap(to, bytes);
	return 0;
}

int stage_copy_lpm(const struct bpf_map *map, const struct lpm *t, struct problem *p)
{
	return stage_copy(map, t->blocks, t->n * sizeof(*t->blocks), p);
}
