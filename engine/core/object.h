/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_version.h>

#include "err.h"
#include "nf.h"

/*
 * A network function in a shared object of its own, outside of the engine's tree (docs/functions.md).
 * It has `NF_OBJECT(ops);` at file scope, and is loaded before the plan that names it is read.
 *
 * What both were built against has to be the same: inline functions and structs are in both. NF_ABI
 * grows with each change of what a function sees; the sizes below do not let that be forgotten.
 */
#define NF_ABI 5
#define NF_DPDK (RTE_VERSION >> 16) /* year and month, within which DPDK's structs stay */

static_assert(sizeof(struct nf_ops) == 224 && sizeof(struct nf) == 88 &&
		      sizeof(struct nf_worker) == 320 && sizeof(struct burst) == 592 &&
		      sizeof(struct param) == 88 && sizeof(struct nf_flow_action) == 40,
	      "a struct that functions see has changed: NF_ABI must grow, then these sizes");

struct nf_object {
	uint32_t abi, dpdk; /* the first two are read before all else */
	const struct nf_ops *ops;
};

#define NF_OBJECT_SYMBOL "headrace_function"
#define NF_OBJECT(nf_ops)                                                                          \
	extern const struct nf_object headrace_function;                                           \
	__attribute__((visibility("default"))) const struct nf_object headrace_function = {        \
		NF_ABI, NF_DPDK, &(nf_ops)}

/*
 * Load the function in `file` and register it; one that is loaded already stays as it is. The engine's
 * own rights must still be those of its user: the object's constructors run. `path` is what errors name.
 */
int nf_object_load(const char *file, const char *path, struct err *err);
bool nf_object_loaded(const char *file);
