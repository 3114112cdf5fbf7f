/* SPDX-License-Identifier: Apache-2.0 */
/* Trials (core/trial.h): senders and meters begin together. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include <rte_cycles.h>

#include "control.h"

/*
 * Senders start 1/25 s after they are told: by then this thread and the client that asked sleep
 * again. On a machine with no CPU to spare they would otherwise take a worker's for a scheduler
 * tick, and cost the trial its first packets.
 */
#define START_DELAY_HZ 25
#define RATE_MAX_PPS 1e10
#define DURATION_MAX_S 86400.0

static int find_sender(struct engine *e, const char *name, struct link **out, struct err *err)
{
	for (unsigned int i = 0; i < e->n_links; i++) {
		if (strcmp(e->links[i].name, name))
			continue;
		if (!e->links[i].ops->sends)
			return err_set(err, EINVAL, name, "is a %s link, which makes no packets",
				       e->links[i].ops->name);
		*out = &e->links[i];
		return 0;
	}
	return err_set(err, EINVAL, name, "there is no link of this name");
}

struct start_conf {
	double rate_pps, duration_s;
	uint64_t packets;
};

static const struct param start_params[] = {
	{.name = "rate_pps", .type = PARAM_DOUBLE, .offset = offsetof(struct start_conf, rate_pps),
	 .max = RATE_MAX_PPS, .def = "0.0", .unit = "packets/s", .doc = "0: as fast as possible"},
	{.name = "duration_s", .type = PARAM_DOUBLE,
	 .offset = offsetof(struct start_conf, duration_s), .max = DURATION_MAX_S, .def = "0.0",
	 .unit = "s", .doc = "how long; 0: until the packets are sent"},
	{.name = "packets", .type = PARAM_UINT, .offset = offsetof(struct start_conf, packets),
	 .max = 1ull << 53, .def = "0", .doc = "how many; 0: as many as the duration gives"},
	{0},
};

static int parse_run(const char *name, const json_t *obj, struct send_run *run, struct err *err)
{
	struct start_conf c = {0};
	double hz = rte_get_tsc_hz();
	int rc = param_parse(start_params, obj, name, &c, err);

	if (rc)
		return rc;
	if (c.duration_s <= 0 && !c.packets)
		return err_set(err, EINVAL, name, "duration_s or packets must be given");
	run->rate_pps = c.rate_pps;
	run->counted = c.packets;
	run->packets = c.packets ? c.packets : UINT64_MAX;
	if (!c.packets && c.rate_pps > 0)
		run->packets = llround(c.rate_pps * c.duration_s);
	if (c.duration_s > 0)
		run->duration = c.duration_s * hz;
	else
		run->duration = (c.rate_pps > 0 ? c.packets / c.rate_pps : DURATION_MAX_S) * hz;
	return 0;
}

/* Senders that do not begin now say nothing: what is left of their last trial would count in this one. */
static int start_meters(struct engine *e, struct link *const *senders, unsigned int n, uint64_t duration,
			struct err *err)
{
	struct trial trial = {.epoch = e->epoch, .duration = duration, .blind = true,
			      .links = e->links, .n_links = e->n_links};
	int rc = 0;

	for (unsigned int i = 0; i < n; i++)
		senders[i]->ops->sends->announce(senders[i], &trial);
	for (unsigned int i = 0; i < e->n_links && !rc; i++)
		if (e->links[i].ops->measures)
			rc = e->links[i].ops->measures->start(&e->links[i], &trial, err);
	return rc;
}

static bool busy(const struct link *l)
{
	return l->ops->sends && l->ops->sends->busy(l);
}

static int check_idle(struct engine *e, struct err *err)
{
	for (unsigned int i = 0; i < e->n_links; i++)
		if (busy(&e->links[i]))
			return err_set(err, EBUSY, e->links[i].name,
				       "is still sending; stop it or wait for state \"done\"");
	return 0;
}

int trial_start(struct engine *e, const json_t *sources, json_t **reply, struct err *err)
{
	struct send_run *runs;
	struct link **links;
	const char *name;
	uint64_t duration = 0;
	unsigned int n = 0;
	json_t *v;
	int rc = check_idle(e, err);

	if (rc)
		return rc;
	if (!json_is_object(sources) || !json_object_size(sources))
		return err_set(err, EINVAL, "sources", "must be an object: source -> rate and time");
	runs = calloc(json_object_size(sources), sizeof(*runs));
	links = calloc(json_object_size(sources), sizeof(*links));
	if (!runs || !links)
		rc = err_set(err, ENOMEM, "sources", "out of memory");
	json_object_foreach((json_t *)sources, name, v) {
		if (rc)
			break;
		rc = find_sender(e, name, &links[n], err);
		if (!rc)
			rc = parse_run(name, v, &runs[n++], err);
	}
	if (!rc) {
		e->epoch++;
		for (unsigned int i = 0; i < n; i++) {
			links[i]->ops->sends->prepare(links[i]);
			duration = RTE_MAX(duration, runs[i].duration);
		}
		rc = start_meters(e, links, n, duration, err);
	}
	atomic_store(&e->window.end, 0); /* nobody looks while it changes */
	for (unsigned int i = 0; i < n && !rc; i++) {
		runs[i].epoch = e->epoch;
		runs[i].start_tsc = (i ? runs[0].start_tsc
				       : rte_rdtsc() + rte_get_tsc_hz() / START_DELAY_HZ);
		links[i]->ops->sends->start(links[i], &runs[i]);
	}
	if (!rc) {
		atomic_store(&e->window.start, runs[0].start_tsc);
		atomic_store(&e->window.end, runs[0].start_tsc + duration);
	}
	if (!rc)
		*reply = json_pack("{s:b, s:i, s:I}", "ok", 1, "epoch", e->epoch, "start_tsc",
				   (json_int_t)runs[0].start_tsc);
	free(runs);
	free(links);
	return rc;
}

void trial_stop(struct engine *e)
{
	for (unsigned int i = 0; i < e->n_links; i++)
		if (busy(&e->links[i]))
			e->links[i].ops->sends->stop(&e->links[i]);
}
