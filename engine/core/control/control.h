/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/err.h"
#include "core/setup/engine.h"

/*
 * Control socket. Once open the path is this engine's; a client can connect when it listens,
 * which says that the links are up. Serves until `quit` or a signal sets *stop.
 */
struct control {
	const char *path;
	int fd, claim;
	bool device; /* not a socket: its other end is the one client, without which nobody is left */
	bool with_client; /* ends when the first client goes, as if it had said `quit` */
};

int control_open(struct control *c, const char *path, struct err *err);
int control_listen(const struct control *c, struct err *err);
void control_serve(struct engine *e, const struct control *c, const atomic_bool *stop);
void control_close(struct control *c);

/* One request, as a line of the socket has it; *quit is set when it asks for the end. */
int command_run(struct engine *e, const json_t *req, json_t **reply, bool *quit, struct err *err);

/* DPDK's telemetry socket; NULL: nothing is served any more. */
int telemetry_register(struct engine *e);
/* Its thread reads what a command may change: one waits for the other. */
void telemetry_pause(void);
void telemetry_resume(void);

/* Start every named sender at one instant; stop all. */
int trial_start(struct engine *e, const json_t *sources, json_t **reply, struct err *err);
void trial_stop(struct engine *e);

/* So many packets of each sender through a plan of rings, in this thread; EAL must be up. */
int dry_run(struct plan *plan, uint64_t packets, json_t **reading, struct err *err);

/* Buckets of an elastic segment to one of its replicas; whose they are, and how many packets each had. */
int elastic_cmd_move(struct engine *e, const json_t *req, json_t **reply, struct err *err);
int elastic_cmd_buckets(struct engine *e, const json_t *req, json_t **reply, struct err *err);
/* The link that a request names. */
int command_link(struct engine *e, const json_t *req, struct link **out, struct err *err);
/* A link's peer is replaced (handover.c). Behind `leave` the engine is to end. */
int handover_cmd_hold(struct engine *e, const json_t *req, json_t **reply, struct err *err);
int handover_cmd_release(struct engine *e, const json_t *req, json_t **reply, struct err *err);
int handover_cmd_leave(struct engine *e, const json_t *req, json_t **reply, struct err *err);
/* In what `read` says of a replica, and of a writer's output. */
json_t *elastic_json(const struct elastic *elastic, unsigned int replica, bool rests);
json_t *elastic_way_json(const struct elastic_way *way);

/* All counters, as docs/design/contracts.md has them. */
json_t *stats_read(struct engine *e);
json_t *stats_segment(struct engine *e, unsigned int segment);
json_t *stats_link(struct engine *e, unsigned int link);
json_t *stats_workers(struct engine *e);
/* What replicas did in slices of time (core/loop/slices.h) between two TSCs, at most so many of each. */
json_t *stats_slices(struct engine *e, uint64_t since, uint64_t until, unsigned int most);
json_t *stats_info(struct engine *e);
char *stats_prometheus(struct engine *e);
