/* SPDX-License-Identifier: Apache-2.0 */
/* Before the fuzzer begins: the function is as the engine has it when it loads the shared object. */
#include "core/object.h"

extern const struct nf_object headrace_function;

__attribute__((constructor)) static void add(void)
{
	nf_register(headrace_function.ops);
}
