/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#pragma once

#include <linux/types.h>

/* What the BPF programs and the user-space part of the shortcut share. */

#define SHORTCUT_PORTS_MAX 64

struct station {
	__u8 mac[6];
	__u8 pad[2];
};

enum shortcut_count {
	SHORTCUT_REDIRECTED,
	SHORTCUT_LEFT, /* to the bridge */
	SHORTCUT_COUNTS,
};
