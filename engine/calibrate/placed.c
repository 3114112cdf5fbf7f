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
#define BATCH 8 /* lines that are put somewhere at once: the last does not wait long */
#define PAUSES 8
#define FLUSHED 64
#define NEAR_PAGES 512
#define STRIPE (NEAR_PAGES / BATCH)
#define APART_LINES 8
#define FAR_BYTES ((size_t)64 << 20)
/*
 * Lines of one offset in a page: a first-level cache holds its ways, 8 or 12; a second-level cache
 * of 512 KB to 2 MB 128 to 512, a last level some thousands.
 */
static const struct eviction from_l1 = {.pages = 32, .turns = 4};
static const struct eviction from_l2 = {.pages = 2048, .turns = 1};

struct place {
	const char *name;
	uint32_t counts[LOCATE_DISTURBED + 1];
};

static void note(struct place *p, const volatile void *line)
{
	p->counts[locate_load(line)]++;
}

/*
 * The translation of a line's address is the core's, as a packet's is whose neighbours it reads all
 * the time: another line of its page is read before, too far away for prefetchers of adjacent
 * lines, at no fixed distance, lest others learn it.
 */
static void note_near(struct place *p, const struct region *near, const uint8_t *line,
		      uint64_t *random)
{
	size_t page = (size_t)(line - near->addr) / PAGE * PAGE;
	size_t apart = (APART_LINES + random_next(random) % (PAGE / LINE - 2 * APART_LINES)) * LINE;

	(void)*(volatile uint8_t *)(near->addr + page +
				    ((size_t)(line - near->addr) + apart) % PAGE);
	/* As in the engine, at no fixed part of the clock's step. */
	for (uint64_t k = random_next(random) % PAUSES; k; k--)
		rte_pause();
	note(p, line);
}

/*
 * Lines in the level that those next to be evicted go to; `e` NULL: where they are written. They
 * are changed, as a packet's are: what is clean, a last level that holds what others evict may
 * forget.
 */
static void put(const struct region *near, const struct evictor *e, uint8_t **lines,
		uint64_t *random)
{
	size_t offset = random_next(random) % PAGE / LINE * LINE;

	for (unsigned int i = 0; i < BATCH; i++) {
		/* No page twice, lest its line be timed twice; no stride, lest a prefetcher follow. */
		size_t page = i * STRIPE + random_next(random) % STRIPE;

		if (!e)
			offset = random_next(random) % PAGE / LINE * LINE;
		lines[i] = near->addr + page * PAGE + offset;
		(*(volatile uint8_t *)lines[i])++;
	}
	if (e)
		evict(e, offset);
}

static int in_cache(struct place *p, const struct eviction *how, struct err *err)
{
	uint64_t random = 0x9e3779b97f4a7c15u;
	struct evictor e = {0};
	struct region near = {0};
	uint8_t *lines[BATCH];
	int rc = region_map(&near, NEAR_PAGES * PAGE, -1, err);

	if (!rc && how)
		rc = evictor_map(&e, how, err);
	for (unsigned int i = 0; !rc && i < SAMPLES; i += BATCH) {
		put(&near, how ? &e : NULL, lines, &random);
		for (unsigned int j = 0; j < BATCH; j++)
			note_near(p, &near, lines[j], &random);
	}
	region_unmap(&near);
	region_unmap(&e.region);
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

	/* As in the engine, what was interrupted says nothing of a place. */
	for (uint32_t i = 0; i < LOCATE_DISTURBED; i++)
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
		rc = in_cache(&places[OWN_L1], NULL, err);
	if (!rc)
		rc = in_cache(&places[OWN_L2], &from_l1, err);
	/* A last level hardly larger than the second has no room for what that one evicts. */
	if (!rc && o->llc_bytes >= 2 * o->l2_bytes)
		rc = in_cache(&places[LLC], &from_l2, err);
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
