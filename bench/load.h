/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small load generator for HTTP: one thread, epoll, connections that are kept alive, one event or many lines in each
 * POST, the next one as soon as the answer is there.
 */
#ifndef DBK_BENCH_LOAD_H
#define DBK_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

struct load;

/* Connects to 127.0.0.1, for requests of so many events: 1, sent by itself and answered 201, or more, as lines and
 * answered 200. Owned: release with load_close. */
struct load *load_open(uint16_t port, unsigned connections, unsigned events, uint64_t seed);
/* Sends for so long, then waits for the last answers. Returns events a second; ends the process at an
 * answer with another status. `user` is a load: of the shape of bench_side.run. */
double load_run(void *user, double seconds);
/* The q-th part (0 to 1) of all answers took no longer, in microseconds; to a part in sixteen. */
double load_quantile_us(const struct load *load, double q);
/* Events that were sent and answered. */
uint64_t load_events(const struct load *load);
void load_close(struct load *load);

/* One GET on a connection of its own, of at most `room` - 1 bytes with its head; NUL-terminated. Returns
 * the status, or -1 when nobody answers. */
int load_get(uint16_t port, const char *path, char *ret_answer, size_t room);

#endif
