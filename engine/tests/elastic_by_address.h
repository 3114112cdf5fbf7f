/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * For elastic_test.c: functions "by-src" and "by-dst", which let so many packets of each address pass and no
 * more, and "of-all", which cannot be in an elastic segment. How many addresses they were shown, by a set
 * of all that no bucket has a part in; 0: by-src.
 */
size_t by_address_known(unsigned int which);
