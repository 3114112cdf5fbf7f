/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry point; it declares none itself. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
