/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and prefixes as text. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fib.h"

static const struct {
	const char *name;
	uint8_t bytes, bits;
} keys[FIB_KEYS] = {
	[FIB_KEY_IPV4] = {"ipv4", 4, 32},
	[FIB_KEY_IPV6] = {"ipv6", 16, 128},
	[FIB_KEY_MAC] = {"mac", 8, 48},
	[FIB_KEY_VRF_IPV4] = {"vrf-ipv4", 8, 64},
};

size_t fib_key_bytes(enum fib_key key)
{
	return keys[key].bytes;
}

unsigned int fib_key_bits(enum fib_key key)
{
	return keys[key].bits;
}

const char *fib_key_name(enum fib_key key)
{
	return keys[key].name;
}

/* Decimal digits only: no sign, no space, no leading nothing. */
static int parse_number(const char *text, uint64_t max, uint64_t *n)
{
	uint64_t v = 0;

	if (!*text || strlen(text) > 10)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		v = v * 10 + (*text - '0');
	}
	*n = v;
	return v <= max ? 0 : -EINVAL;
}

static int parse_ipv4(const char *text, uint32_t *addr)
{
	struct in_addr a;

	if (inet_pton(AF_INET, text, &a) != 1)
		return -EINVAL;
	*addr = ntohl(a.s_addr);
	return 0;
}

static int parse_mac(const char *text, uint64_t *mac)
{
	unsigned int b[6];
	int end = 0;

	if (strlen(text) != 17 ||
	    sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", b, b + 1, b + 2, b + 3, b + 4, b + 5, &end) !=
		    6 ||
	    end != 17)
		return -EINVAL;
	*mac = 0;
	for (int i = 0; i < 6; i++)
		*mac = *mac << 8 | b[i];
	return 0;
}

static int parse_vrf_ipv4(char *text, uint64_t *key)
{
	char *colon = strchr(text, ':');
	uint64_t vrf;
	uint32_t addr;

	if (!colon)
		return -EINVAL;
	*colon = 0;
	if (parse_number(text, UINT32_MAX, &vrf) || parse_ipv4(colon + 1, &addr))
		return -EINVAL;
	*key = vrf << 32 | addr;
	return 0;
}

static int parse_key(enum fib_key key, char *text, uint8_t *out)
{
	uint32_t u32 = 0;
	uint64_t u64 = 0;
	int rc;

	switch (key) {
	case FIB_KEY_IPV4:
		rc = parse_ipv4(text, &u32);
		memcpy(out, &u32, 4);
		return rc;
	case FIB_KEY_IPV6:
		return inet_pton(AF_INET6, text, out) == 1 ? 0 : -EINVAL;
	case FIB_KEY_MAC:
		rc = parse_mac(text, &u64);
		break;
	case FIB_KEY_VRF_IPV4:
		rc = parse_vrf_ipv4(text, &u64);
		break;
	default:
		return -EINVAL;
	}
	memcpy(out, &u64, 8);
	return rc;
}

/* No bit below the prefix length may be set: it is a typing error more often than not. */
static bool prefix_clean(enum fib_key key, const struct fib_route *r)
{
	uint32_t addr;

	if (key == FIB_KEY_IPV4) {
		memcpy(&addr, r->key, 4);
		return r->len == 32 || !(addr & (UINT32_MAX >> r->len));
	}
	if (key != FIB_KEY_IPV6)
		return true;
	for (unsigned int bit = r->len; bit < 128; bit++)
		if (r->key[bit / 8] & (0x80 >> bit % 8))
			return false;
	return true;
}

int fib_route_parse(enum fib_key key, const char *text, struct fib_route *route)
{
	char buf[FIB_TEXT_BYTES], *slash;
	uint64_t len = fib_key_bits(key);

	if (strlen(text) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, text);
	slash = strchr(buf, '/');
	if (slash) {
		*slash = 0;
		if (parse_number(slash + 1, len, &len))
			return -EINVAL;
	}
	memset(route->key, 0, sizeof(route->key));
	if (parse_key(key, buf, route->key))
		return -EINVAL;
	route->len = len;
	return prefix_clean(key, route) ? 0 : -EINVAL;
}

const char *fib_route_format(enum fib_key key, const struct fib_route *route, char *buf)
{
	char addr[INET6_ADDRSTRLEN];
	uint64_t u64 = 0;
	uint32_t u32 = 0;

	memcpy(&u64, route->key, 8);
	memcpy(&u32, route->key, 4);
	u32 = htonl(key == FIB_KEY_VRF_IPV4 ? (uint32_t)u64 : u32);
	switch (key) {
	case FIB_KEY_IPV4:
		inet_ntop(AF_INET, &u32, addr, sizeof(addr));
		snprintf(buf, FIB_TEXT_BYTES, "%s/%u", addr, route->len);
		break;
	case FIB_KEY_IPV6:
		inet_ntop(AF_INET6, route->key, addr, sizeof(addr));
		snprintf(buf, FIB_TEXT_BYTES, "%s/%u", addr, route->len);
		break;
	case FIB_KEY_MAC:
		snprintf(buf, FIB_TEXT_BYTES, "%02x:%02x:%02x:%02x:%02x:%02x",
			 (int)(u64 >> 40 & 0xff), (int)(u64 >> 32 & 0xff), (int)(u64 >> 24 & 0xff),
			 (int)(u64 >> 16 & 0xff), (int)(u64 >> 8 & 0xff), (int)(u64 & 0xff));
		break;
	default:
		inet_ntop(AF_INET, &u32, addr, sizeof(addr));
		snprintf(buf, FIB_TEXT_BYTES, "%" PRIu64 ":%s", u64 >> 32, addr);
	}
	return buf;
}
