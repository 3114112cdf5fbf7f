/* SPDX-License-Identifier: Apache-2.0 */
/* Meters in checkpoints: each class that has one is a record, and its buckets are as full as they were. */
#include <string.h>

#include <rte_cycles.h>

#include "qos.h"

#define LASTS (1u << 30) /* in flow_now() units: days; a class has no end of its own */

/* A meter's two buckets: since when, how full, and how full at most. */
struct buckets {
	uint64_t time[2], tokens[2], most[2];
};

static struct buckets buckets_of(const struct qos_class *c, const union qos_state *s)
{
	const union qos_profile *p = &c->profile;

	if (c->meter == METER_SRTCM)
		return (struct buckets){{s->srtcm.time, s->srtcm.time}, {s->srtcm.tc, s->srtcm.te},
					{p->srtcm.cbs, p->srtcm.ebs}};
	if (c->meter == METER_TRTCM)
		return (struct buckets){{s->trtcm.time_tc, s->trtcm.time_tp}, {s->trtcm.tc, s->trtcm.tp},
					{p->trtcm.cbs, p->trtcm.pbs}};
	return (struct buckets){{s->trtcm_4115.time_tc, s->trtcm_4115.time_te},
				{s->trtcm_4115.tc, s->trtcm_4115.te},
				{p->trtcm_4115.cbs, p->trtcm_4115.ebs}};
}

static struct flow_table *table(struct nf_worker *w, unsigned int i, bool *v6)
{
	struct qos_worker *qw = w->state;

	*v6 = false;
	return i ? NULL : qw->kept;
}

static unsigned int class_of(const struct flow *f)
{
	struct flow_key4 key;

	memcpy(&key, f->key, sizeof(key));
	return key.src;
}

static bool save(struct nf_worker *w, unsigned int i, struct flow *f, void *own, uint32_t *expires)
{
	const struct qos_worker *qw = w->state;
	struct qos_meter_state m = qw->meters[class_of(f)];

	(void)i;
	/* As it is by now, without a packet: its time is then never long ago, nor its record's at an end. */
	qos_meter(&m, &qw->qos->classes[class_of(f)], qw->now, 0);
	*expires = flow_now(m.newest) + LASTS;
	memcpy(own, &m.state, sizeof(m.state));
	return true;
}

/* No bucket holds more than it can, and none was filled later than now. */
static bool sound(const struct qos_class *c, const union qos_state *s, const struct nf_kept *kept)
{
	struct buckets b = buckets_of(c, s);

	for (unsigned int i = 0; i < 2; i++)
		if (b.tokens[i] > b.most[i] || (int32_t)(kept->now - flow_now(b.time[i])) < 0)
			return false;
	return true;
}

/* What `sound` has not looked at of a time are its bits above those of flow_now(): they are `now`'s. */
static uint64_t near(uint64_t time, uint64_t now)
{
	return now + (uint64_t)((int64_t)((time - now) << 12) >> 12);
}

static void set_times(const struct qos_class *c, union qos_state *s, uint64_t now)
{
	if (c->meter == METER_SRTCM) {
		s->srtcm.time = near(s->srtcm.time, now);
	} else if (c->meter == METER_TRTCM) {
		s->trtcm.time_tc = near(s->trtcm.time_tc, now);
		s->trtcm.time_tp = near(s->trtcm.time_tp, now);
	} else {
		s->trtcm_4115.time_tc = near(s->trtcm_4115.time_tc, now);
		s->trtcm_4115.time_te = near(s->trtcm_4115.time_te, now);
	}
}

static struct flow *restore(struct nf_worker *w, unsigned int i, const struct nf_kept *kept)
{
	struct qos_worker *qw = w->state;
	struct qos_meter_state *m;
	const struct qos_class *c;
	struct flow_key4 key;
	union qos_state state;
	struct buckets b;
	struct flow *f;

	(void)i;
	memcpy(&key, kept->key, sizeof(key));
	memcpy(&state, kept->own, sizeof(state));
	f = flow_find(qw->kept, &key);
	if (!f)
		return NULL;
	c = &qw->qos->classes[class_of(f)];
	m = &qw->meters[class_of(f)];
	if (kept->user != c->meter || !sound(c, &state, kept))
		return NULL;
	set_times(c, &state, m->newest);
	m->state = state;
	b = buckets_of(c, &state);
	m->newest = RTE_MAX(m->newest, RTE_MAX(b.time[0], b.time[1]));
	return f;
}

int qos_keep(struct nf_worker *w, struct qos_worker *qw, struct err *err)
{
	const struct qos *qos = qw->qos;
	struct flow_conf conf = {.family = FLOW_IPV4, .capacity = QOS_CLASSES_MAX, .socket_id = w->socket_id};
	int rc = w->owners ? 0 : flow_create(&conf, &qw->kept, err);

	for (unsigned int i = 0; qw->kept && i < qos->n_classes; i++) {
		struct flow_key4 key = {.src = i};
		struct flow *f = qos->classes[i].meter == METER_NONE ? NULL : flow_insert(qw->kept, &key);

		if (!f)
			continue;
		f->user = qos->classes[i].meter;
		f->expires = flow_now(rte_rdtsc()) + LASTS;
	}
	return rc;
}

const struct nf_keeps qos_keeps = {
	.bytes = sizeof(union qos_state),
	.records = 1,
	.table = table,
	.save = save,
	.restore = restore,
};
