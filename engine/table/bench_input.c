/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and routes for the benchmark: made, or from a file of prefixes. */
#include "bench_fib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

/* Multiplication by an odd number permutes the numbers of so many bits. */
void bench_key(enum fib_key key, uint64_t i, void *out)
{
	const uint64_t odd = 0x9e3779b97f4a7c15u;
	uint64_t w[2] = {i * odd, i};
	uint32_t u32 = (uint32_t)i * (uint32_t)odd;

	if (key == FIB_KEY_MAC)
		w[0] &= MAC_MASK;
	if (key == FIB_KEY_IPV4)
		memcpy(out, &u32, 4);
	else
		memcpy(out, w, key == FIB_KEY_IPV6 ? 16 : 8);
}

uint16_t bench_next_hop(uint64_t i)
{
	return i % 1009; /* fits in 15 bits, which DIR-24-8 with 2-byte entries has */
}

static int alloc(struct bench_input *in, uint64_t n, struct err *err)
{
	in->keys = malloc(n * in->stride);
	in->nhs = malloc(n * sizeof(*in->nhs));
	in->lens = in->kind == FIB_LPM ? malloc(n) : NULL;
	if (in->keys && in->nhs && (in->lens || in->kind == FIB_EXACT))
		return 0;
	bench_input_free(in);
	return err_set(err, ENOMEM, "--entries", "no memory for the input of %llu entries",
		       (unsigned long long)n);
}

/* What most of the Internet's table is: /24s below 224.0.0.0, /48s in 2000::/3. */
static void lpm_route(struct bench_input *in, uint64_t i)
{
	uint8_t *key = in->keys + i * in->stride;
	uint32_t u32 = ((uint32_t)i * 0x9e3779b1u >> 8) % 14680064 << 8;
	uint64_t top = i * 0x9e3779b97f4a7c15u;

	if (in->key == FIB_KEY_IPV4) {
		memcpy(key, &u32, 4);
		in->lens[i] = 24;
		return;
	}
	memset(key, 0, 16);
	for (int b = 0; b < 6; b++)
		key[b] = top >> (56 - 8 * b);
	key[0] = 0x20 | (key[0] & 0x1f);
	in->lens[i] = 48;
}

/* Without duplicates: the made prefixes may repeat. */
static void lpm_unique(struct bench_input *in)
{
	uint64_t n = 0, size = 1;
	uint64_t *seen;

	while (size < 4 * in->n)
		size *= 2;
	seen = calloc(size, sizeof(*seen));
	for (uint64_t i = 0; seen && i < in->n; i++) {
		uint64_t w = 0, at;

		memcpy(&w, in->keys + i * in->stride, in->stride < 8 ? in->stride : 8);
		w = w << 8 | in->lens[i];
		for (at = w * 0x9e3779b97f4a7c15u & (size - 1); seen[at] && seen[at] != w;)
			at = (at + 1) & (size - 1);
		if (seen[at] == w)
			continue;
		seen[at] = w;
		memmove(in->keys + n * in->stride, in->keys + i * in->stride, in->stride);
		in->lens[n] = in->lens[i];
		in->nhs[n++] = in->nhs[i];
	}
	in->n = n;
	free(seen);
}

static uint64_t count_lines(gzFile gz)
{
	char line[512];
	uint64_t n = 0;

	while (gzgets(gz, line, sizeof(line)))
		n++;
	gzrewind(gz);
	return n;
}

/* Prefixes of the other address family are passed over; a next hop need not be there. */
static int read_routes(struct bench_input *in, gzFile gz, const char *file, struct err *err)
{
	char line[512], place[192];
	struct fib_route route;

	for (uint64_t number = 1; gzgets(gz, line, sizeof(line)); number++) {
		bool v6 = strchr(line, ':');

		line[strcspn(line, " \t\r\n#")] = 0;
		if (!*line || v6 != (in->key == FIB_KEY_IPV6))
			continue;
		if (fib_route_parse(in->key, line, &route)) {
			snprintf(place, sizeof(place), "%s:%llu", file, (unsigned long long)number);
			return err_set(err, EINVAL, place, "not a prefix: \"%s\"", line);
		}
		memcpy(in->keys + in->n * in->stride, route.key, in->stride);
		in->lens[in->n] = route.len;
		in->nhs[in->n] = bench_next_hop(in->n);
		in->n++;
	}
	return in->n ? 0
		     : err_set(err, EINVAL, file, "no %s prefixes in it", fib_key_name(in->key));
}

static int from_file(struct bench_input *in, const char *file, struct err *err)
{
	gzFile gz = gzopen(file, "rb");
	int rc;

	if (!gz)
		return err_set(err, errno ? errno : ENOMEM, file, "cannot open: %s",
			       strerror(errno));
	rc = alloc(in, count_lines(gz) + 1, err);
	if (!rc)
		rc = read_routes(in, gz, file, err);
	gzclose(gz);
	return rc;
}

int bench_input_make(struct bench_input *in, const struct bench_options *o, uint64_t n,
		     struct err *err)
{
	int rc;

	*in = (struct bench_input){.kind = o->kind, .key = o->key, .stride = fib_key_bytes(o->key)};
	if (o->routes)
		return from_file(in, o->routes, err);
	rc = alloc(in, n, err);
	if (rc)
		return rc;
	in->n = n;
	for (uint64_t i = 0; i < n; i++) {
		in->nhs[i] = bench_next_hop(i);
		if (o->kind == FIB_LPM)
			lpm_route(in, i);
		else
			bench_key(o->key, i, in->keys + i * in->stride);
	}
	if (o->kind == FIB_LPM)
		lpm_unique(in);
	return 0;
}

void bench_input_free(struct bench_input *in)
{
	free(in->keys);
	free(in->lens);
	free(in->nhs);
	in->keys = in->lens = NULL;
	in->nhs = NULL;
}

static uint64_t below(uint64_t random, uint64_t n)
{
	return (unsigned __int128)random * n >> 64;
}

/* An address in a random prefix of the table. */
static void in_prefix(const struct bench_input *in, uint64_t random, uint8_t *out)
{
	uint64_t i = below(random, in->n), rest = random * 0x9e3779b97f4a7c15u;
	uint8_t len = in->lens[i];
	uint32_t u32;

	memcpy(out, in->keys + i * in->stride, in->stride);
	if (in->key == FIB_KEY_IPV4) {
		memcpy(&u32, out, 4);
		u32 |= len < 32 ? (uint32_t)(rest >> 32) >> len : 0;
		memcpy(out, &u32, 4);
		return;
	}
	for (unsigned int b = (len + 7) / 8; b < 16; b++)
		out[b] = rest >> (b % 8 * 8);
}

void bench_hit(const struct bench_input *in, uint64_t random, void *out)
{
	if (in->kind == FIB_LPM)
		in_prefix(in, random, out);
	else
		bench_key(in->key, below(random, in->n), out);
}

/* Keys numbered from n up to 2^32 are in no table; for prefixes, any address. */
void bench_miss(const struct bench_input *in, uint64_t random, void *out)
{
	uint64_t w[2] = {random, random * 0x9e3779b97f4a7c15u};

	if (in->kind == FIB_LPM)
		memcpy(out, w, in->stride);
	else
		bench_key(in->key, in->n + below(random, (UINT64_C(1) << 32) - in->n), out);
}
