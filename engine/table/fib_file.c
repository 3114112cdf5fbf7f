/* SPDX-License-Identifier: Apache-2.0 */
/* Routes from files of `prefix next-hop` lines; # begins a comment; plain or gzip. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "fib.h"

#define LINE_BYTES 512
#define READ_BUFFER_BYTES (1u << 18)
#define READ_BUFFER_LEAST (1u << 13)

struct reader {
	struct fib *f;
	const char *file;
	const struct fib_resolve *resolve;
	uint64_t line;
	/* The routes read so far, in the form that fib_load takes, and where they stood. */
	uint8_t *keys, *lens;
	uint16_t *nhs;
	uint32_t *lines;
	uint64_t n, room;
};

static int fail(const struct reader *r, uint64_t line, int code, const char *what, const char *word,
		struct err *err)
{
	char place[sizeof(err->path)];

	snprintf(place, sizeof(place), "%s:%llu", r->file, (unsigned long long)line);
	return err_set(err, code, place, "%s%s%s%s", what, word ? " \"" : "", word ? word : "",
		       word ? "\"" : "");
}

/* The array, larger; the old one when there is no memory for that. */
static void *grow_one(void *array, size_t size, bool *ok)
{
	void *bigger = realloc(array, size);

	*ok = *ok && bigger;
	return bigger ? bigger : array;
}

static int grow(struct reader *r, struct err *err)
{
	uint64_t room = r->room ? r->room * 2 : 1024;
	bool ok = true;

	if (r->n < r->room)
		return 0;
	r->keys = grow_one(r->keys, room * fib_key_bytes(r->f->conf.key), &ok);
	r->lens = grow_one(r->lens, room, &ok);
	r->nhs = grow_one(r->nhs, room * sizeof(*r->nhs), &ok);
	r->lines = grow_one(r->lines, room * sizeof(*r->lines), &ok);
	if (!ok)
		return fail(r, r->line, ENOMEM, "not enough memory for this many routes", NULL,
			    err);
	r->room = room;
	return 0;
}

static int parse_next_hop(const struct reader *r, const char *word, uint16_t *nh, struct err *err)
{
	char *end, what[64];
	unsigned long v;
	int rc;

	if (r->resolve) {
		rc = r->resolve->next_hop(r->resolve->ctx, word, nh, err);
		if (rc)
			snprintf(err->path, sizeof(err->path), "%s:%llu", r->file,
				 (unsigned long long)r->line);
		return rc;
	}
	v = strtoul(word, &end, 10);
	if (word[0] >= '0' && word[0] <= '9' && !*end && v <= r->f->conf.max_next_hop) {
		*nh = v;
		return 0;
	}
	snprintf(what, sizeof(what), "next hop must be 0..%u, not", r->f->conf.max_next_hop);
	return fail(r, r->line, EINVAL, what, word, err);
}

static int parse_line(struct reader *r, char *line, struct err *err)
{
	char *save, *prefix, *hop, *more, *hash = strchr(line, '#'), what[64];
	size_t key_bytes = fib_key_bytes(r->f->conf.key);
	struct fib_route route;
	int rc;

	if (hash)
		*hash = 0;
	prefix = strtok_r(line, " \t\r\n", &save);
	if (!prefix)
		return 0;
	hop = strtok_r(NULL, " \t\r\n", &save);
	if (!hop)
		return fail(r, r->line, EINVAL, "no next hop after", prefix, err);
	more = strtok_r(NULL, " \t\r\n", &save);
	if (more)
		return fail(r, r->line, EINVAL, "nothing may follow the next hop, found", more,
			    err);
	if (fib_route_parse(r->f->conf.key, prefix, &route)) {
		snprintf(what, sizeof(what),
			 "not a prefix or address of kind %s:", fib_key_name(r->f->conf.key));
		return fail(r, r->line, EINVAL, what, prefix, err);
	}
	if (r->f->conf.kind == FIB_EXACT && route.len != fib_key_bits(r->f->conf.key))
		return fail(r, r->line, EINVAL, "an exact-match table takes no prefixes:", prefix,
			    err);
	rc = grow(r, err);
	if (rc)
		return rc;
	rc = parse_next_hop(r, hop, &r->nhs[r->n], err);
	if (rc)
		return rc;
	memcpy(r->keys + r->n * key_bytes, route.key, key_bytes);
	r->lens[r->n] = route.len;
	r->lines[r->n] = r->line;
	r->n++;
	return 0;
}

static int parse_file(struct reader *r, gzFile gz, struct err *err)
{
	char line[LINE_BYTES];
	int rc = 0, code;

	while (!rc && gzgets(gz, line, sizeof(line))) {
		r->line++;
		if (strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n')
			return fail(r, r->line, EINVAL, "line longer than 510 characters", NULL,
				    err);
		rc = parse_line(r, line, err);
	}
	if (rc)
		return rc;
	/* Without the end-of-file test a truncated gzip file reads as a shorter table. */
	gzerror(gz, &code);
	if (code == Z_ERRNO)
		return err_set(err, errno, r->file, "cannot read: %s", strerror(errno));
	if (code != Z_OK && code != Z_STREAM_END)
		return fail(r, r->line + 1, EIO, "damaged or truncated gzip file", NULL, err);
	return 0;
}

static int load(struct reader *r, struct err *err)
{
	struct fib_route route = {0};
	size_t key_bytes = fib_key_bytes(r->f->conf.key);
	char text[FIB_TEXT_BYTES];
	uint64_t bad = 0;
	int rc = fib_load(r->f, r->keys, r->lens, r->nhs, r->n, &bad);

	if (!rc)
		return 0;
	memcpy(route.key, r->keys + bad * key_bytes, key_bytes);
	route.len = r->lens[bad];
	return fail(r, r->lines[bad], -rc, fib_strerror(rc),
		    fib_route_format(r->f->conf.key, &route, text), err);
}

/* Room for three times as much is made and given back: little for a short file. */
static unsigned int buffer_bytes(const char *file)
{
	struct stat st;
	uint64_t bytes = stat(file, &st) || !S_ISREG(st.st_mode) ? READ_BUFFER_BYTES : (uint64_t)st.st_size;

	return bytes < READ_BUFFER_LEAST ? READ_BUFFER_LEAST
	       : bytes > READ_BUFFER_BYTES ? READ_BUFFER_BYTES : (unsigned int)bytes;
}

int fib_load_file(struct fib *f, const char *file, const struct fib_resolve *resolve,
		  uint64_t *loaded, struct err *err)
{
	struct reader r = {.f = f, .file = file, .resolve = resolve};
	gzFile gz = gzopen(file, "rb");
	int rc;

	if (!gz)
		return err_set(err, errno ? errno : ENOMEM, file, "cannot open: %s",
			       strerror(errno ? errno : ENOMEM));
	gzbuffer(gz, buffer_bytes(file));
	rc = parse_file(&r, gz, err);
	gzclose(gz);
	if (!rc && r.n)
		rc = load(&r, err);
	if (!rc && loaded)
		*loaded = r.n;
	free(r.keys);
	free(r.lens);
	free(r.nhs);
	free(r.lines);
	return rc;
}
