/* SPDX-License-Identifier: Apache-2.0 */
/* The load generator of load.h. One thread. */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "latency.h"

enum {
    HEAD_BYTES = 512,
    LINE_BYTES = BENCH_RECORD_MAX + 1,
    ANSWER_BYTES = 8192,
    EVENTS_AT_ONCE = 64,
    ANSWERED_ONE = 201,
    ANSWERED_MANY = 200,
    KEYS = 10000,
    WAIT_MS = 30000
};

struct connection {
    int socket;
    size_t sent;
    size_t request_len;
    size_t answer_len;
    double began;
    struct bench_event event;
    char *request;
    char answer[ANSWER_BYTES];
};

struct load {
    int epoll;
    int status;
    unsigned count;
    unsigned events;  /* of a request */
    unsigned waiting; /* requests without an answer */
    uint64_t key;
    uint64_t answers;
    struct latency latency;
    struct connection connections[];
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    if (fd >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return fd;
}

double load_quantile_us(const struct load *load, double q)
{
    return latency_quantile_us(&load->latency, q);
}

/* Sends what is left of the request; a socket that takes no more is waited for with epoll. */
static void send_rest(struct load *load, struct connection *c)
{
    ssize_t n = send(c->socket, c->request + c->sent, c->request_len - c->sent,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        bench_die("a connection broke: %s", strerror(errno));
    }
    c->sent += n > 0 ? (size_t)n : 0;
    if (c->sent < c->request_len) {
        struct epoll_event want = {.events = EPOLLIN | EPOLLOUT, .data = {.ptr = c}};
        (void)epoll_ctl(load->epoll, EPOLL_CTL_MOD, c->socket, &want);
    }
}

static void send_next(struct load *load, struct connection *c)
{
    size_t body = c->event.event.record.len * load->events + (load->events > 1 ? load->events : 0);
    int len = snprintf(c->request, HEAD_BYTES,
                       "POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                       "Content-Type: application/%s\r\nContent-Length: %zu\r\n\r\n",
                       load->events > 1 ? "x-ndjson" : "json", body);
    c->request_len = (size_t)len;
    for (unsigned i = 0; i < load->events; i++) {
        bench_event_next(&c->event, load->key++ % KEYS);
        const struct daybook_bytes *record = &c->event.event.record;
        memcpy(c->request + c->request_len, record->data, record->len);
        c->request_len += record->len;
        if (load->events > 1) {
            c->request[c->request_len++] = '\n';
        }
    }
    c->sent = 0;
    c->answer_len = 0;
    c->began = bench_now_s();
    load->waiting++;
    send_rest(load, c);
}

/* Bytes of a whole answer, 0 while it is not whole; *ret_status. */
static size_t whole_answer(const char *answer, int *ret_status)
{
    static const char name[] = "Content-Length:";
    const char *end = strstr(answer, "\r\n\r\n");
    if (end == NULL || strncmp(answer, "HTTP/1.1 ", 9) != 0) {
        return 0;
    }
    *ret_status = (int)strtol(answer + 9, NULL, 10);
    for (const char *line = strstr(answer, "\r\n"); line != NULL && line < end;
         line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, sizeof name - 1) == 0) {
            size_t body = (size_t)strtoul(line + 2 + sizeof name - 1, NULL, 10);
            return (size_t)(end - answer) + 4 + body;
        }
    }
    bench_die("an answer without a length: %.200s", answer);
}

/* True: the answer is whole. */
static bool receive(struct load *load, struct connection *c)
{
    int status = 0;
    ssize_t n =
        recv(c->socket, c->answer + c->answer_len, ANSWER_BYTES - 1 - c->answer_len, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        bench_die("the server closed a connection");
    }
    c->answer_len += n > 0 ? (size_t)n : 0;
    c->answer[c->answer_len] = '\0';
    size_t whole = whole_answer(c->answer, &status);
    if (whole == 0 || c->answer_len < whole) {
        return false;
    }
    if (status != load->status) {
        bench_die("answered %.*s", (int)c->answer_len, c->answer);
    }
    load->waiting--;
    load->answers++;
    latency_add(&load->latency, (bench_now_s() - c->began) * 1e6);
    return true;
}

double load_run(void *user, double seconds)
{
    struct load *load = user;
    double began = bench_now_s();
    double until = began + seconds;
    uint64_t before = load->answers;

    for (unsigned i = 0; i < load->count; i++) {
        send_next(load, &load->connections[i]);
    }
    while (load->waiting > 0) {
        struct epoll_event ready[EVENTS_AT_ONCE];
        int n = epoll_wait(load->epoll, ready, EVENTS_AT_ONCE, WAIT_MS);
        if (n == 0) {
            bench_die("no answer within %d s", WAIT_MS / 1000);
        }
        for (int i = 0; i < n; i++) {
            struct connection *c = ready[i].data.ptr;
            if (c->sent < c->request_len && (ready[i].events & EPOLLOUT) != 0) {
                struct epoll_event want = {.events = EPOLLIN, .data = {.ptr = c}};
                (void)epoll_ctl(load->epoll, EPOLL_CTL_MOD, c->socket, &want);
                send_rest(load, c);
            }
            if ((ready[i].events & ~(uint32_t)EPOLLOUT) != 0 && receive(load, c) &&
                bench_now_s() < until) {
                send_next(load, c);
            }
        }
    }
    return (double)((load->answers - before) * load->events) / (bench_now_s() - began);
}

uint64_t load_events(const struct load *load)
{
    return load->answers * load->events;
}

struct load *load_open(uint16_t port, unsigned connections, unsigned events, uint64_t seed)
{
    struct load *load = calloc(1, sizeof *load + connections * sizeof load->connections[0]);
    if (load == NULL || (load->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) {
        bench_die("no memory for %u connections", connections);
    }
    load->count = connections;
    load->events = events;
    load->status = events > 1 ? ANSWERED_MANY : ANSWERED_ONE;
    for (unsigned i = 0; i < connections; i++) {
        struct connection *c = &load->connections[i];
        struct epoll_event want = {.events = EPOLLIN, .data = {.ptr = c}};
        bench_event_init(&c->event, BENCH_EVENT_BYTES, seed + ((uint64_t)i << 32));
        c->request = malloc(HEAD_BYTES + (size_t)events * LINE_BYTES);
        c->socket = connect_to(port);
        if (c->request == NULL || c->socket < 0 ||
            epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->socket, &want) != 0) {
            bench_die("port %u: no connection", port);
        }
    }
    return load;
}

void load_close(struct load *load)
{
    for (unsigned i = 0; i < load->count; i++) {
        (void)close(load->connections[i].socket);
        free(load->connections[i].request);
    }
    (void)close(load->epoll);
    free(load);
}

int load_get(uint16_t port, const char *path, char *ret_answer, size_t room)
{
    char request[256];
    size_t len = 0;
    ssize_t n = 0;
    int fd = connect_to(port);

    ret_answer[0] = '\0';
    if (fd < 0) {
        return -1;
    }
    int request_len =
        snprintf(request, sizeof request,
                 "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
    if (send(fd, request, (size_t)request_len, MSG_NOSIGNAL) == request_len) {
        while (len < room - 1 && (n = recv(fd, ret_answer + len, room - 1 - len, 0)) > 0) {
            len += (size_t)n;
        }
    }
    ret_answer[len] = '\0';
    (void)close(fd);
    return len > 9 ? (int)strtol(ret_answer + 9, NULL, 10) : -1;
}
