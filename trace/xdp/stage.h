/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <linux/types.h>
#include <stdbool.h>

#include "lpm.h"
#include "problem.h"

struct bpf_map;

/* A function of a chain, for one direction, loaded: a program that hands on to the next one. */
struct stage {
	const char *name;         /* the function's in its chain */
	int program, next;        /* descriptors; `next` is the map of the next program */
	int counts;               /* map */
	const char *const *count; /* names, up to a NULL */
	void *own;                /* the skeleton, which has all of the above */
	void (*close)(void *own);
	const struct stage *other; /* the same function in the direction before, or NULL */
};

/*
 * Loads what the object `conf` of the configuration describes. -EINVAL: it is not valid, others:
 * the kernel refused it; both with the problem.
 */
int acl_load(struct stage *s, const json_t *conf, struct problem *p);
int l2fwd_load(struct stage *s, const json_t *conf, struct problem *p);
int lb_load(struct stage *s, const json_t *conf, struct problem *p);
int nat_load(struct stage *s, const json_t *conf, struct problem *p);
int l3fwd_load(struct stage *s, const json_t *conf, struct problem *p);

/* What stages share. */
int stage_text(const json_t *conf, const char *key, const char **to, struct problem *p);
int stage_mac(const json_t *conf, const char *key, __u8 *mac, struct problem *p);
bool stage_is(const json_t *conf, const char *key, const char *value);
int stage_refused(int rc, const char *what, struct problem *p);
/* Copies a whole array into a map that can be mapped into memory (BPF_F_MMAPABLE). */
int stage_copy(const struct bpf_map *map, const void *from, size_t bytes, struct problem *p);
int stage_copy_lpm(const struct bpf_map *map, const struct lpm *t, struct problem *p);
