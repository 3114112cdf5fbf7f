/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines put on purpose where a packet may be, timed one by one with the engine's own method
 * (core/locate.h): from the distributions the lab takes the limits that tell the places apart, and
 * states how often they err.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_pause.h>

#include "calibrate.h"
#include "core/locate.h"
#include "place.h"

#define SAMPLES 4000
#define BATCH 32 /* lines that are put somewhere at once; few beside what a cache holds */
#define PAUSES 8
#define FLUSHED 64
#define FAR_BYTES ((size_t)64 << 20)

struct place {
	const char *name;
	uint32_t counts[LOCATE_DISTURBED + 1];
};

static void note(struct place *p, const volatile void *line)
{
	p->counts[locate_load(line)]++;
}

/* Loads in the order of a stride prime to their number: all of it, and no prefetcher follows. */
static void sweep(const volatile uint8_t *from, size_t bytes)
{
	size_t lines = bytes / LINE;

	for (size_t i = 0, at = 0; i < lines; i++, at = (at + 7919) % lines)
		(void)from[at * LINE];
}

/*
 * Lines that were read last before `evict_bytes` of others: what is more than the levels nearer
 * have room for, and less than the level that is meant. Going round in a walk does not do that: its
 * lines stay in the nearer level in part, as no cache evicts strictly the least recently used.
 */
static int in_cache(struct place *p, size_t evict_bytes, struct err *err)
{
	uint64_t random = 0x9e3779b97f4a7c15u;
	const volatile uint8_t *lines[BATCH];
	struct region near = {0}, others = {0};
	int rc = region_map(&near, FAR_BYTES / 16, -1, err);

	if (!rc)
		rc = region_map(&others, RTE_MAX(evict_bytes, (size_t)LINE), -1, err);
	for (unsigned int i = 0; !rc && i < SAMPLES; i += BATCH) {
		for (unsigned int j = 0; j < BATCH; j++) {
			lines[j] = near.addr + random_next(&random) % near.bytes / LINE * LINE;
			(void)*lines[j];
		}
		for (unsigned int turn = 0; evict_bytes && turn < 2; turn++)
			sweep(others.addr, evict_bytes);
		for (unsigned int j = 0; j < BATCH; j++) {
			/* As in the engine, at no fixed part of the clock's step. */
			for (uint64_t k = random_next(&random) % PAUSES; k; k--)
				rte_pause();
			note(p, lines[j]);
		}
	}
	region_unmap(&near);
	region_unmap(&others);
	return rc;
}

/* At random places far apart, so that no prefetcher brings them back. */
static int in_memory(struct place *p, int node, struct err *err)
{
	const volatile uint8_t *lines[FLUSHED];
	uint64_t random = 0x9e3779b97f4a7c15u;
	struct region r = {0};
	int rc = region_map(&r, FAR_BYTES, node, err);

	for (unsigned int i = 0; !rc && i < SAMPLES; i += FLUSHED) {
		for (unsigned int j = 0; j < FLUSHED; j++) {
			lines[j] = r.addr + random_next(&random) % r.bytes / LINE * LINE;
			line_flush(lines[j]);
		}
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		for (unsigned int j = 0; j < FLUSHED; j++)
			note(p, lines[j]);
	}
	region_unmap(&r);
	return rc;
}

static void note_all(struct place *p, const struct placed *placed)
{
	for (unsigned int i = 0; i < PLACED_LINES; i++)
		note(p, placed->lines[i]);
}

static int in_other_core(struct place *clean, struct place *modified, unsigned int cpu,
			 struct err *err)
{
	struct placed placed = {0};
	struct partner p;
	int rc = placed_map(&placed, -1, err);

	if (!rc)
		rc = partner_start(&p, cpu, err);
	for (unsigned int i = 0; !rc && i < SAMPLES; i += PLACED_LINES) {
		partner_run(&p, placed_modify, &placed);
		note_all(modified, &placed);
		if (!placed_flush(&placed))
			continue;
		partner_run(&p, placed_read, &placed);
		note_all(clean, &placed);
	}
	if (!rc)
		partner_stop(&p);
	region_unmap(&placed.region);
	return rc;
}

static json_t *place_json(const struct place *p)
{
	json_t *counts = json_array();

	for (uint32_t i = 0; i <= LOCATE_DISTURBED; i++)
		if (p->counts[i])
			json_array_append_new(counts, json_pack("[I, I]", (json_int_t)i,
								(json_int_t)p->counts[i]));
	return json_pack("{s:s, s:o}", "place", p->name, "counts", counts);
}

enum { OWN_L1, OWN_L2, LLC, OTHER_CLEAN, OTHER_MODIFIED, MEMORY, REMOTE_MEMORY, PLACES };

static const char *const names[PLACES] = {
	"l1", "l2", "llc", "other-clean", "other-modified", "memory", "remote-memory"};

static int measure_all(const struct options *o, struct place *places, struct err *err)
{
	int rc = pin_to(o->cpus[0], err);

	if (!rc)
		rc = in_cache(&places[OWN_L1], 0, err);
	if (!rc)
		rc = in_cache(&places[OWN_L2], RTE_MIN(o->l2_bytes / 2, 4 * o->l1_bytes), err);
	/* Six times the second level and no more: of a shared last level neighbours leave little.
	 */
	if (!rc && o->llc_bytes >= 8 * o->l2_bytes)
		rc = in_cache(&places[LLC], 6 * o->l2_bytes, err);
	if (!rc && o->n_cpus > 1)
		rc = in_other_core(&places[OTHER_CLEAN], &places[OTHER_MODIFIED], o->cpus[1], err);
	if (!rc)
		rc = in_memory(&places[MEMORY], o->n_nodes ? (int)o->nodes[0] : -1, err);
	if (!rc && o->n_nodes > 1)
		rc = in_memory(&places[REMOTE_MEMORY], (int)o->nodes[1], err);
	return rc;
}

json_t *measure_placed(const struct options *o, struct err *err)
{
	struct place *places = calloc(PLACES, sizeof(*places));
	json_t *list = NULL;

	if (!places) {
		err_set(err, ENOMEM, "", "out of memory");
		return NULL;
	}
	for (unsigned int i = 0; i < PLACES; i++)
		places[i].name = names[i];
	/* In turn, so that a disturbance of a second is not one place's alone. */
	for (unsigned int round = 0; round < o->rounds; round++)
		if (measure_all(o, places, err))
			goto out;
	list = json_array();
	for (unsigned int i = 0; i < PLACES; i++)
		json_array_append_new(list, place_json(&places[i]));
out:
	free(places);
	return list;
}
