/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/*
 * Events as JSON lines, in the form of Suricata's EVE output, to a file or a Unix socket. Workers
 * put records of fixed size into rings of their own; a thread off the packet path turns them into
 * text and may block on the file for as long as it likes. A ring that is full loses the event,
 * which the worker counts; what a socket does not take is lost and counted by the thread.
 */
enum eve_kind {
	EVE_ALERT,
	EVE_FLOW,
};

struct eve_event {
	uint64_t tsc;
	uint64_t flow_id;
	uint8_t kind; /* enum eve_kind */
	uint8_t family, proto, action;
	uint8_t to_server; /* alert: the packet's direction */
	uint16_t sport, dport;
	uint32_t rule;     /* alert: index of the rule */
	uint16_t label[2]; /* application, as nDPI numbers it: master and application */
	uint8_t src[16], dst[16];
	/* Flow, or an alert's flow until then: by direction, to the server first. */
	uint64_t packets[2], bytes[2];
	uint64_t start_tsc;
};

/* Single producer, single consumer. */
struct eve_ring {
	_Alignas(64) _Atomic uint32_t head; /* producer's */
	_Alignas(64) _Atomic uint32_t tail; /* consumer's */
	_Alignas(64) uint32_t mask;
	struct eve_ring *next; /* the thread's list */
	struct eve_event events[];
};

struct rules;
struct eve;

struct eve_conf {
	const char *file, *socket; /* one of them */
	const struct rules *rules;
	/* Name of a label, into buf; NULL: there are none. */
	const char *(*label)(void *arg, const uint16_t label[2], char *buf, unsigned int size);
	void *label_arg;
	bool drops; /* a rule's drop does drop: "blocked" in the output */
};

/* What eve_start would refuse of an output, which is left alone; whether somebody listens is not asked. */
int eve_check(const struct eve_conf *conf, struct err *err);
/* Opens the output and starts the thread. -errno with err filled, path "params.eve_file" or so. */
int eve_start(const struct eve_conf *conf, struct eve **out, struct err *err);
/* Writes what is left in the rings and ends the thread; NULL does nothing. */
void eve_stop(struct eve *e);
/* Events that the output did not take. */
uint64_t eve_lost(const struct eve *e);

/* Control thread. A ring of so many events, a power of two; NULL: out of memory. */
struct eve_ring *eve_ring_add(struct eve *e, uint32_t events);

/* Worker: false when it is full. */
static inline bool eve_put(struct eve_ring *r, const struct eve_event *event)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (head - atomic_load_explicit(&r->tail, memory_order_acquire) > r->mask)
		return false;
	r->events[head & r->mask] = *event;
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	return true;
}
