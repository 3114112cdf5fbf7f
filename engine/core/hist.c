/* SPDX-License-Identifier: Apache-2.0 */
#include "hist.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <rte_byteorder.h>

#define V2_COOKIE (0x1c849303 | 0x10)
#define V2_COMPRESSED_COOKIE (0x1c849304 | 0x10)
#define SIGNIFICANT_DIGITS 3
#define HIST_MAX ((1ull << HIST_MAX_BITS) - 1)

struct v2_header {
	uint32_t cookie, payload_length, normalizing_offset, digits;
	uint64_t lowest, highest, ratio;
} __attribute__((packed));

void hist_reset(struct hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

static void add_sums(struct hist *to, const struct hist *from)
{
	to->count += from->count;
	to->sum += from->sum;
	to->saturated += from->saturated;
	if (from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
}

void hist_add(struct hist *to, const struct hist *from)
{
	add_sums(to, from);
	for (unsigned int i = 0; i < HIST_SLOTS; i++)
		to->slots[i] += from->slots[i];
}

/* The largest value that falls into a slot. */
static uint64_t slot_top(unsigned int i)
{
	unsigned int bucket = i < 2 * HIST_HALF ? 0 : (i >> HIST_HALF_BITS) - 1;
	uint64_t sub = bucket ? (i & (HIST_HALF - 1)) + HIST_HALF : i;

	return ((sub + 1) << bucket) - 1;
}

/* How many values the percentile has at or below it. */
static uint64_t wanted(const struct hist *h, double share)
{
	uint64_t want = (uint64_t)(share * (double)h->count + 0.5);

	return want < 1 ? 1 : want;
}

uint64_t hist_percentile(const struct hist *h, double share)
{
	uint64_t want = wanted(h, share), seen = 0;

	if (!h->count)
		return 0;
	for (unsigned int i = 0; i < HIST_SLOTS; i++) {
		seen += h->slots[i];
		if (seen >= want)
			return slot_top(i) < h->max ? slot_top(i) : h->max;
	}
	return h->max;
}

void hist_move(struct hist *to, struct hist *from, const double *shares, uint64_t *values, unsigned int n)
{
	uint64_t seen = 0, max = from->max;
	unsigned int last = hist_index(max < HIST_MAX ? max : HIST_MAX), k = 0;

	memset(values, 0, n * sizeof(*values));
	if (!from->count)
		return;
	for (unsigned int i = hist_index(from->min); i <= last; i++) {
		seen += from->slots[i];
		to->slots[i] += from->slots[i];
		from->slots[i] = 0;
		for (; k < n && seen >= wanted(from, shares[k]); k++)
			values[k] = slot_top(i) < max ? slot_top(i) : max;
	}
	add_sums(to, from);
	from->count = from->sum = from->max = from->saturated = 0;
	from->min = UINT64_MAX;
}

/* ZigZag LEB128 with a ninth byte of eight bits, as HdrHistogram's V2 has it. */
static size_t put_varint(uint8_t *p, int64_t value)
{
	uint64_t v = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
	size_t n = 0;

	while (v >= 0x80 && n < 8) {
		p[n++] = v | 0x80;
		v >>= 7;
	}
	p[n++] = v;
	return n;
}

static size_t encode_counts(const struct hist *h, uint8_t *out)
{
	unsigned int last = HIST_SLOTS;
	size_t n = 0;

	while (last && !h->slots[last - 1])
		last--;
	for (unsigned int i = 0; i < last;) {
		unsigned int zeros = 0;

		while (i + zeros < last && !h->slots[i + zeros])
			zeros++;
		if (zeros) {
			n += put_varint(out + n, -(int64_t)zeros);
			i += zeros;
		} else {
			n += put_varint(out + n, h->slots[i++]);
		}
	}
	return n;
}

static char *base64(const uint8_t *in, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *out = malloc((n + 2) / 3 * 4 + 1), *p = out;

	for (size_t i = 0; out && i < n; i += 3) {
		uint32_t v = in[i] << 16 | (i + 1 < n ? in[i + 1] << 8 : 0) |
			     (i + 2 < n ? in[i + 2] : 0);

		*p++ = digits[v >> 18];
		*p++ = digits[v >> 12 & 63];
		*p++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
		*p++ = i + 2 < n ? digits[v & 63] : '=';
	}
	if (out)
		*p = '\0';
	return out;
}

static size_t encode_plain(const struct hist *h, uint8_t *out)
{
	struct v2_header head = {
		.cookie = rte_cpu_to_be_32(V2_COOKIE),
		.digits = rte_cpu_to_be_32(SIGNIFICANT_DIGITS),
		.lowest = rte_cpu_to_be_64(1),
		.highest = rte_cpu_to_be_64(HIST_MAX),
		.ratio = rte_cpu_to_be_64(0x3ff0000000000000), /* 1.0 */
	};
	size_t n = encode_counts(h, out + sizeof(head));

	head.payload_length = rte_cpu_to_be_32(n);
	memcpy(out, &head, sizeof(head));
	return sizeof(head) + n;
}

char *hist_encode(const struct hist *h)
{
	size_t plain_max = sizeof(struct v2_header) + 9 * (size_t)HIST_SLOTS, plain;
	uLongf packed = compressBound(plain_max);
	uint8_t *buf = malloc(plain_max), *out = malloc(8 + packed);
	char *text = NULL;
	uint32_t be;

	if (buf && out) {
		plain = encode_plain(h, buf);
		if (compress2(out + 8, &packed, buf, plain, 1) == Z_OK) {
			be = rte_cpu_to_be_32(V2_COMPRESSED_COOKIE);
			memcpy(out, &be, 4);
			be = rte_cpu_to_be_32(packed);
			memcpy(out + 4, &be, 4);
			text = base64(out, 8 + packed);
		}
	}
	free(buf);
	free(out);
	return text;
}

json_t *hist_json(const struct hist *h)
{
	char *hdr = h->count ? hist_encode(h) : NULL;
	json_t *j;

	j = json_pack("{s:s*, s:I, s:I, s:f, s:I, s:I}", "hdr", hdr, "count",
		      (json_int_t)h->count, "min_ns", (json_int_t)(h->count ? h->min : 0), "mean_ns",
		      h->count ? (double)h->sum / (double)h->count : 0.0, "max_ns",
		      (json_int_t)h->max, "saturated", (json_int_t)h->saturated);
	free(hdr);
	return j;
}
