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

#include "calibrate.h"
#include "core/locate.h"
#include "place.h"

#define SAMPLES 4000
#define EVERY 8 /* of a walk's lines one is timed, as in the engine where others lie between */
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

/* A walk round and round: what does not fit into a cache has left it when its turn comes again. */
static int in_cache(struct place *p, size_t bytes, struct err *err)
{
	size_t n = bytes / LINE;
	struct region r = {0};
	struct line *at;
	int rc = region_map(&r, bytes, -1, err);

	if (!rc)
		rc = lines_shuffle((struct line *)r.addr, n, err);
	at = (struct line *)r.addr;
	if (!rc)
		at = lines_walk(at, 3 * n);
	for (unsigned int i = 0; !rc && i < SAMPLES; i++) {
		at = lines_walk(at, EVERY);
		/* The walk's last load has brought the address of the next line, not the line. */
		note(p, at);
	}
	region_unmap(&r);
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

static int in_other_core(struct place *clean, struct place *modified, unsigned int cpu, struct err *err)
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

static const char *const names[PLACES] = {"l1", "l2", "llc", "other-clean", "other-modified", "memory",
					  "remote-memory"};

static int measure_all(const struct options *o, struct place *places, struct err *err)
{
	int rc = pin_to(o->cpus[0], err);

	if (!rc)
		rc = in_cache(&places[OWN_L1], o->l1_bytes / 4, err);
	if (!rc)
		rc = in_cache(&places[OWN_L2], o->l2_bytes / 2, err);
	/* Little more than the second level's size: of a shared last level neighbours leave little. */
	if (!rc && o->llc_bytes > 4 * o->l2_bytes)
		rc = in_cache(&places[LLC], RTE_MIN(o->llc_bytes / 4, 3 * o->l2_bytes), err);
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
