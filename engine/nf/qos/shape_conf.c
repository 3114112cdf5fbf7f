/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"
#include "shape_rate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

/* Parameters of the shaper, and rte_sched made of them. */

#define QUEUE_PACKETS 64
#define QUEUES_MAX (1u << 22) /* per worker and direction: 64 Mi pointers at 16 packets each */
/*
 * A traffic class loses what is left of its period's credit, with so many frames 1 % at most; and the
 * time between a period's end and the poll that sees it.
 */
#define PERIOD_FRAMES 100
#define PERIOD_MIN_MS 40
#define PERIOD_MAX_MS 100000
#define BURST_MIN_BYTES 65536
#define BURST_S 0.01
#define LINE_BURST_S 0.002
#define RATE_MAX 400e9
/*
 * rte_sched takes elapsed cycles as 24 bits: between two dequeues must lie less. A line that takes
 * longer for a frame would slow its clock down.
 */
#define DEQUEUE_CYCLES (1u << 23)

static const char *const directions[] = {"both", "forward", "reverse", NULL};
static const char *const pipe_bys[] = {"none", "src", "dst", "flow", NULL};

#define LIMITS(owner)                                                                              \
	{.name = "rate_bps", .type = PARAM_UINT, .max = 1e13, .unit = "bit/s",                      \
	 .offset = offsetof(owner, limits.rate_bps), .doc = "0: the port's"},                       \
	{.name = "burst_bytes", .type = PARAM_UINT, .max = 1e10, .unit = "bytes",                   \
	 .offset = offsetof(owner, limits.burst_bytes),                                             \
	 .doc = "depth of the token bucket: what may leave at once after a pause. A traffic class gets "  \
		"no more than its rate in each period (period_ms), however full the bucket is, so "  \
		"that a pause longer than a period is lost. At least the largest frame; 0: 64 KiB, " \
		"or 10 ms of the rate if that is more"},                                             \
	{.name = "tc_rate_bps", .type = PARAM_UINT, .list = true, .min = 1, .max = 1e13,            \
	 .unit = "bit/s", .offset = offsetof(owner, limits.tc_rate_bps),                            \
	 .doc = "upper limits of traffic classes 0 to 12; those that are not given have the rate"}, \
	{.name = "period_ms", .type = PARAM_UINT, .max = PERIOD_MAX_MS, .unit = "ms",               \
	 .offset = offsetof(owner, limits.period_ms),                                               \
	 .doc = "how often traffic classes get their share; 0: so that 100 of the largest frames " \
		"fit into the smallest"}

static const struct param subport_params[] = {
	LIMITS(struct shape_subport_params),
	{.name = "pipes", .type = PARAM_UINT, .min = 1, .max = 65536, .def = "1", .unit = "pipes",
	 .offset = offsetof(struct shape_subport_params, pipes), .doc = "subscribers; a power of two"},
	{.name = "profile", .type = PARAM_UINT, .max = 255,
	 .offset = offsetof(struct shape_subport_params, profile),
	 .doc = "position in pipe_profiles: the limits of each of its pipes"},
	{0},
};

static const struct param profile_params[] = {
	LIMITS(struct shape_profile_params),
	{.name = "weights", .type = PARAM_UINT, .list = true, .min = 1, .max = 255,
	 .offset = offsetof(struct shape_profile_params, weights),
	 .doc = "of the four queues of traffic class 12, one each by default"},
	{0},
};

const struct param shape_params[] = {
	{.name = "rate_bps", .type = PARAM_UINT, .max = RATE_MAX, .unit = "bit/s",
	 .offset = offsetof(struct shape_params, rate_bps), .doc = "of the port; 0: nothing is shaped"},
	{.name = "direction", .type = PARAM_ENUM, .choices = directions, .def = "\"both\"",
	 .offset = offsetof(struct shape_params, directions),
	 .doc = "what is shaped; each direction is a port of its own"},
	{.name = "mtu_bytes", .type = PARAM_UINT, .min = 64, .max = 65535, .def = "1518",
	 .unit = "bytes", .offset = offsetof(struct shape_params, mtu_bytes),
	 .doc = "the largest frame, without FCS; larger ones are dropped (queue-full)"},
	{.name = "queue_packets", .type = PARAM_UINT, .list = true, .min = 2, .max = 32768,
	 .unit = "packets", .offset = offsetof(struct shape_params, queue_packets),
	 .doc = "length of each pipe's queues of traffic classes 0 to 12, powers of two; 64 where not "
		"given. One less is used: rte_sched frees a queue that is full to the brim only in part"},
	{.name = "subports", .type = PARAM_OBJECT, .list = true, .fields = subport_params,
	 .fields_size = sizeof(struct shape_subport_params),
	 .offset = offsetof(struct shape_params, subports),
	 .doc = "a power of two; absent: one with one pipe"},
	{.name = "pipe_profiles", .type = PARAM_OBJECT, .list = true, .fields = profile_params,
	 .fields_size = sizeof(struct shape_profile_params),
	 .offset = offsetof(struct shape_params, profiles), .doc = "absent: one of the port's rate"},
	{.name = "pipe_by", .type = PARAM_ENUM, .choices = pipe_bys, .def = "\"none\"",
	 .offset = offsetof(struct shape_params, pipe_by),
	 .doc = "a packet's pipe in its subport: src and dst: the last bits of that address; flow: a "
		"hash; none: the first"},
	{0},
};

/* What is there when a list is absent. */
static const struct shape_subport_params one_subport = {.pipes = 1};
static const struct shape_profile_params one_profile;

static const struct shape_subport_params *subport_at(const struct shape_params *p, unsigned int i)
{
	return p->subports.count ? (const struct shape_subport_params *)p->subports.items + i
				 : &one_subport;
}

static const struct shape_profile_params *profile_at(const struct shape_params *p, uint64_t i)
{
	return p->profiles.count ? (const struct shape_profile_params *)p->profiles.items + i
				 : &one_profile;
}

static unsigned int or_one(const struct param_list *list)
{
	return list->count ? (unsigned int)list->count : 1;
}

unsigned int shape_subports(const struct shape_params *p)
{
	return or_one(&p->subports);
}

bool shape_wanted(const struct shape_params *p, enum nf_direction dir)
{
	return p->rate_bps && p->directions != (dir == NF_FORWARD ? SHAPE_REVERSE : SHAPE_FORWARD);
}

static uint16_t queue_packets(const struct shape_params *p, unsigned int tc)
{
	const uint64_t *list = p->queue_packets.items;

	return tc < p->queue_packets.count ? (uint16_t)list[tc] : QUEUE_PACKETS;
}

/* Limits in rte_sched's units: bytes per second of one worker, and bytes. */
struct limits {
	uint64_t rate, burst, period_ms, tc_rate[SHAPE_TCS];
};

static struct limits limits_of(const struct shape_params *p, const struct shape_limits *from,
			       uint32_t overhead, unsigned int workers)
{
	const uint64_t *tc = from->tc_rate_bps.items, frame = p->mtu_bytes + overhead;
	struct limits l = {.rate = (from->rate_bps ? from->rate_bps : p->rate_bps) / 8 / workers};
	uint64_t least = l.rate;

	for (unsigned int i = 0; i < SHAPE_TCS; i++) {
		l.tc_rate[i] = i < from->tc_rate_bps.count ? tc[i] / 8 / workers : l.rate;
		least = RTE_MIN(least, l.tc_rate[i]);
	}
	l.burst = from->burst_bytes;
	if (!l.burst)
		l.burst = RTE_MAX((uint64_t)BURST_MIN_BYTES, (uint64_t)((double)l.rate * BURST_S));
	l.period_ms = from->period_ms;
	if (!l.period_ms && least)
		l.period_ms = RTE_MAX((uint64_t)PERIOD_MIN_MS, frame * PERIOD_FRAMES * 1000 / least + 1);
	return l;
}

static int check_limits(const struct shape_params *p, const struct shape_limits *from,
			uint32_t overhead, unsigned int workers, const char *path, struct err *err)
{
	struct limits l = limits_of(p, from, overhead, workers);
	uint64_t frame = p->mtu_bytes + overhead;

	if (from->tc_rate_bps.count > SHAPE_TCS)
		return err_set(err, EINVAL, path, "\"tc_rate_bps\" has %zu rates; at most %d are allowed",
			       from->tc_rate_bps.count, SHAPE_TCS);
	if (l.rate > p->rate_bps / 8 / workers)
		return err_set(err, EINVAL, path, "\"rate_bps\" is %llu, above the port's, %llu",
			       (unsigned long long)from->rate_bps, (unsigned long long)p->rate_bps);
	if (l.burst < frame)
		return err_set(err, EINVAL, path, "\"burst_bytes\" is %llu; the largest frame takes %llu",
			       (unsigned long long)l.burst, (unsigned long long)frame);
	for (unsigned int i = 0; i < SHAPE_TCS; i++) {
		if (!l.tc_rate[i] || l.tc_rate[i] > l.rate)
			return err_set(err, EINVAL, path,
				       "the rate of traffic class %u must be from 1 byte/s per replica to "
				       "the whole rate", i);
		if (l.tc_rate[i] * l.period_ms / 1000 < frame)
			return err_set(err, EINVAL, path,
				       "traffic class %u gets %llu bytes in %llu ms, less than the "
				       "largest frame takes, %llu: a longer period_ms is wanted", i,
				       (unsigned long long)(l.tc_rate[i] * l.period_ms / 1000),
				       (unsigned long long)l.period_ms, (unsigned long long)frame);
	}
	return 0;
}

static int check_subport(const struct shape_params *p, unsigned int i, uint32_t overhead,
			 unsigned int workers, const char *path, struct err *err)
{
	const struct shape_subport_params *s = subport_at(p, i);

	if (!rte_is_power_of_2((uint32_t)s->pipes))
		return err_set(err, EINVAL, path, "%llu pipes; a power of two is wanted",
			       (unsigned long long)s->pipes);
	if (s->profile >= or_one(&p->profiles))
		return err_set(err, EINVAL, path, "\"profile\" is %llu; there are %u pipe_profiles",
			       (unsigned long long)s->profile, or_one(&p->profiles));
	return check_limits(p, &s->limits, overhead, workers, path, err);
}

static uint32_t pipes_max(const struct shape_params *p)
{
	uint64_t most = 1;

	for (unsigned int i = 0; i < shape_subports(p); i++)
		most = RTE_MAX(most, subport_at(p, i)->pipes);
	return (uint32_t)most;
}

static int check_sizes(const struct shape_params *p, const char *path, struct err *err)
{
	if (p->queue_packets.count > SHAPE_TCS)
		return err_set(err, EINVAL, path, "\"queue_packets\" has %zu sizes; at most %d are allowed",
			       p->queue_packets.count, SHAPE_TCS);
	for (unsigned int i = 0; i < SHAPE_TCS; i++)
		if (!rte_is_power_of_2(queue_packets(p, i)))
			return err_set(err, EINVAL, path,
				       "\"queue_packets\" of traffic class %u is %u; a power of two is "
				       "wanted", i, queue_packets(p, i));
	if (!rte_is_power_of_2(shape_subports(p)))
		return err_set(err, EINVAL, path, "%u subports; a power of two is wanted",
			       shape_subports(p));
	if ((uint64_t)shape_subports(p) * pipes_max(p) * RTE_SCHED_QUEUES_PER_PIPE > QUEUES_MAX)
		return err_set(err, EINVAL, path, "%u subports of %u pipes; at most %u queues, 16 for each "
			       "pipe, are allowed", shape_subports(p), pipes_max(p), QUEUES_MAX);
	return 0;
}

/* Do the subports together get more than the port has? */
static bool has_line(const struct shape_params *p)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < shape_subports(p); i++) {
		uint64_t rate = subport_at(p, i)->limits.rate_bps;

		sum += rate ? rate : p->rate_bps;
	}
	return sum > p->rate_bps;
}

static int check_line(const struct shape_params *p, uint32_t overhead, unsigned int workers,
		      const char *path, struct err *err)
{
	double frame = (double)(p->mtu_bytes + overhead);
	double least = frame * 8 * workers * (double)rte_get_tsc_hz() / DEQUEUE_CYCLES;

	if (!has_line(p) || (double)p->rate_bps >= least)
		return 0;
	return err_set(err, EINVAL, path,
		       "\"rate_bps\" is %llu, less than the subports' together; for that it must be %.0f or "
		       "more", (unsigned long long)p->rate_bps, least);
}

int shape_check(const struct shape_params *p, uint32_t overhead, unsigned int workers,
		const char *path, struct err *err)
{
	char place[96];
	int rc;

	if (!p->rate_bps)
		return 0;
	rc = check_sizes(p, path, err);
	if (!rc)
		rc = check_line(p, overhead, workers, path, err);
	for (unsigned int i = 0; i < or_one(&p->profiles) && !rc; i++) {
		const struct shape_profile_params *profile = profile_at(p, i);

		snprintf(place, sizeof(place), "%s.pipe_profiles[%u]", path, i);
		rc = check_limits(p, &profile->limits, overhead, workers, place, err);
		if (!rc && profile->weights.count && profile->weights.count != 4)
			rc = err_set(err, EINVAL, place, "%zu weights; four are wanted",
				     profile->weights.count);
	}
	for (unsigned int i = 0; i < shape_subports(p) && !rc; i++) {
		snprintf(place, sizeof(place), "%s.subports[%u]", path, i);
		rc = check_subport(p, i, overhead, workers, place, err);
	}
	return rc;
}

/* As rte_sched is told it: no traffic class may have more than its bucket. */
static struct limits told(struct limits l, uint64_t clock)
{
	l.rate = shape_bucket_rate(l.rate, clock);
	for (unsigned int i = 0; i < SHAPE_TCS; i++)
		l.tc_rate[i] = RTE_MIN(l.tc_rate[i], l.rate);
	return l;
}

static struct rte_sched_pipe_params pipe_params(const struct shape_params *p, unsigned int i,
						uint32_t overhead, unsigned int workers,
						uint64_t clock)
{
	const struct shape_profile_params *profile = profile_at(p, i);
	const uint64_t *weights = profile->weights.items;
	struct limits l = told(limits_of(p, &profile->limits, overhead, workers), clock);
	struct rte_sched_pipe_params out = {
		.tb_rate = l.rate, .tb_size = l.burst, .tc_period = l.period_ms, .tc_ov_weight = 1};

	memcpy(out.tc_rate, l.tc_rate, sizeof(l.tc_rate));
	for (unsigned int q = 0; q < RTE_SCHED_BE_QUEUES_PER_PIPE; q++)
		out.wrr_weights[q] = weights ? (uint8_t)weights[q] : 1;
	return out;
}

static struct rte_sched_subport_profile_params subport_profile(const struct shape_params *p,
							       unsigned int i, uint32_t overhead,
							       unsigned int workers, uint64_t clock)
{
	struct limits l = told(limits_of(p, &subport_at(p, i)->limits, overhead, workers), clock);
	struct rte_sched_subport_profile_params out = {
		.tb_rate = l.rate, .tb_size = l.burst, .tc_period = l.period_ms};

	memcpy(out.tc_rate, l.tc_rate, sizeof(l.tc_rate));
	return out;
}

static void make_line(struct shaper *s, const struct shape_params *p, unsigned int workers)
{
	double rate = (double)p->rate_bps / 8 / workers; /* bytes/s */

	s->has_line = has_line(p);
	s->bytes_per_cycle = rate / (double)rte_get_tsc_hz();
	s->burst = RTE_MAX(rate * LINE_BURST_S, 2.0 * (double)s->frame_max);
}

static int make_subport(struct shaper *s, const struct shape_params *p, unsigned int i,
			struct rte_sched_pipe_params *profiles)
{
	const struct shape_subport_params *from = subport_at(p, i);
	struct rte_sched_subport_params params = {
		.n_pipes_per_subport_enabled = (uint32_t)from->pipes,
		.pipe_profiles = profiles,
		.n_pipe_profiles = or_one(&p->profiles),
		.n_max_pipe_profiles = or_one(&p->profiles),
	};
	int rc;

	memcpy(params.qsize, s->queue_packets, sizeof(params.qsize));
	s->pipes[i] = (uint32_t)from->pipes - 1;
	rc = rte_sched_subport_config(s->port, i, &params, i);
	for (uint32_t pipe = 0; pipe < from->pipes && !rc; pipe++)
		rc = rte_sched_pipe_config(s->port, i, pipe, (int32_t)from->profile);
	return rc;
}

static int make_port(struct shaper *s, const struct shape_params *p, const struct nf_worker *w,
		     struct rte_sched_subport_profile_params *subports,
		     struct rte_sched_pipe_params *profiles)
{
	unsigned int n = shape_subports(p), workers = w->count ? w->count : 1;
	uint64_t clock = shape_clock_rate(p->rate_bps / 8 / workers);
	struct rte_sched_port_params port = {
		.name = w->nf->name,
		.socket = w->socket_id < 0 ? 0 : w->socket_id,
		.rate = clock,
		.mtu = (uint32_t)p->mtu_bytes,
		.frame_overhead = s->overhead,
		.n_subports_per_port = n,
		.subport_profiles = subports,
		.n_subport_profiles = n,
		.n_max_subport_profiles = n,
		.n_pipes_per_subport = pipes_max(p),
	};
	int rc = 0;

	for (unsigned int i = 0; i < n; i++)
		subports[i] = subport_profile(p, i, s->overhead, workers, clock);
	for (unsigned int i = 0; i < or_one(&p->profiles); i++)
		profiles[i] = pipe_params(p, i, s->overhead, workers, clock);
	s->port = rte_sched_port_config(&port);
	for (unsigned int i = 0; s->port && i < n && !rc; i++)
		rc = make_subport(s, p, i, profiles);
	return s->port ? rc : -ENOMEM;
}

int shape_create(struct shaper **out, const struct shape_params *p, const struct nf_worker *w,
		 uint32_t overhead, struct err *err)
{
	unsigned int n = shape_subports(p);
	struct rte_sched_subport_profile_params *subports = calloc(n, sizeof(*subports));
	struct rte_sched_pipe_params *profiles = calloc(or_one(&p->profiles), sizeof(*profiles));
	struct shaper *s = calloc(1, sizeof(*s));
	int rc = -ENOMEM;

	if (s) {
		s->overhead = overhead;
		s->frame_max = (uint32_t)p->mtu_bytes + overhead;
		s->pipe_by = p->pipe_by;
		for (unsigned int i = 0; i < SHAPE_TCS; i++)
			s->queue_packets[i] = queue_packets(p, i);
		s->pipes = calloc(n, sizeof(*s->pipes));
		s->queued = calloc((size_t)n * pipes_max(p) * RTE_SCHED_QUEUES_PER_PIPE,
				   sizeof(*s->queued));
	}
	if (s && s->pipes && s->queued && subports && profiles)
		rc = make_port(s, p, w, subports, profiles);
	if (!rc)
		make_line(s, p, w->count ? w->count : 1);
	free(subports);
	free(profiles);
	if (rc) {
		shape_free(s);
		return err_set(err, -rc, "params.shaper",
			       "rte_sched does not take it: %s (more engine.memory_mb may help)",
			       strerror(-rc));
	}
	*out = s;
	return 0;
}

void shape_free(struct shaper *s)
{
	if (!s)
		return;
	for (unsigned int i = 0; i < s->n_ready; i++)
		rte_pktmbuf_free(s->ready[i]);
	rte_sched_port_free(s->port); /* with what it has queued */
	free(s->queued);
	free(s->pipes);
	free(s);
}
