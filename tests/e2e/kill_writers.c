/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writers of kill.py: each owns its keys and sends the next event after the answer to the last one, or
 * after repeating it until there is one. In between they send what has to be refused.
 *
 *   kill-writers PORT WRITERS KEYS OUT
 *
 * OUT gets a line `KEY REQUEST_ID` for each answered event, within a key in the order sent. At the end of
 * standard input everything that was begun is repeated until it is answered; then the counts are printed. An
 * answer that must not be ends the program with status 1.
 *
 * Threads: main; one a writer, which shares the file, the counts and `ending` with the others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    WRITERS_MAX = 256,
    BODY_MAX = 512,
    REQUEST_MAX = 1024,
    ANSWER_MAX = 8192,
    REFUSED_EVERY = 50,
    PATIENCE_S = 30,
    PAUSE_NS = 5000000,
};

/* No answer: what was sent may be there or not. */
enum { NO_ANSWER = 0 };

static struct sockaddr_in server = {.sin_family = AF_INET};
static unsigned keys_each;
static FILE *out;
static atomic_bool ending;
static atomic_ulong accepted;
static atomic_ulong already_present;
static atomic_ulong refused;
static atomic_ulong repeats;

struct writer {
    pthread_t thread;
    unsigned number;
    int fd; /* -1: not connected */
};

static void hang_up(struct writer *w)
{
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    w->fd = -1;
}

static bool call(struct writer *w)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int one = 1;

    w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->fd < 0) {
        return false;
    }
    (void)setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return connect(w->fd, (const struct sockaddr *)&server, sizeof server) == 0;
}

/* Reads one answer whole; returns its status. */
static int read_answer(int fd)
{
    char answer[ANSWER_MAX];
    size_t len = 0;
    size_t whole = 0; /* 0: the head is not there yet */
    int status = NO_ANSWER;

    while (whole == 0 || len < whole) {
        if (len == sizeof answer - 1) {
            return NO_ANSWER;
        }
        ssize_t n = recv(fd, answer + len, sizeof answer - 1 - len, 0);
        if (n <= 0) {
            return NO_ANSWER;
        }
        len += (size_t)n;
        answer[len] = '\0';
        const char *head_end = strstr(answer, "\r\n\r\n");
        if (whole == 0 && head_end != NULL) {
            const char *length = strcasestr(answer, "\r\nContent-Length:");
            if (length == NULL || length > head_end) {
                return NO_ANSWER;
            }
            whole = (size_t)(head_end - answer) + 4 +
                    (size_t)strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
            status = (int)strtol(answer + strlen("HTTP/1.1 "), NULL, 10);
        }
    }
    return status;
}

/* Sends one event, once. */
static int ask(struct writer *w, const char *body)
{
    char request[REQUEST_MAX];

    if (w->fd < 0 && !call(w)) {
        hang_up(w);
        return NO_ANSWER;
    }
    int len = snprintf(request, sizeof request,
                       "POST /v1/events HTTP/1.1\r\nHost: localhost\r\n"
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       strlen(body), body);
    if (send(w->fd, request, (size_t)len, MSG_NOSIGNAL) != len) {
        hang_up(w);
        return NO_ANSWER;
    }
    int status = read_answer(w->fd);
    if (status == NO_ANSWER) {
        hang_up(w);
    }
    return status;
}

/* Sends one event until there is an answer that says what became of it, which has to be one of two. */
static int send_until_answered(struct writer *w, const char *body, int wanted, int also_wanted)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int status = ask(w, body);

    while (status == NO_ANSWER || status == 503) {
        atomic_fetch_add(&repeats, 1);
        (void)nanosleep(&pause, NULL);
        status = ask(w, body);
    }
    if (status != wanted && status != also_wanted) {
        (void)fprintf(stderr, "answered %d, not %d: %s\n", status, wanted, body);
        exit(1);
    }
    return status;
}

static void send_refused(struct writer *w, const char *key, const char *id)
{
    char body[BODY_MAX];

    (void)snprintf(body, sizeof body, "{\"request_id\":\"%s-bad\",\"subject\":\"%s\"}", id, key);
    (void)send_until_answered(w, body, 422, 422);
    (void)snprintf(body, sizeof body,
                   "{\"request_id\":\"%s\",\"namespace\":\"team\",\"subject\":\"%s\",\"n\":-1}", id,
                   key);
    (void)send_until_answered(w, body, 409, 409);
    atomic_fetch_add(&refused, 2);
}

static void send_next(struct writer *w, const char *key, unsigned long count)
{
    char id[64];
    char body[BODY_MAX];

    (void)snprintf(id, sizeof id, "%s-%lu", key, count);
    (void)snprintf(body, sizeof body,
                   "{\"request_id\":\"%s\",\"namespace\":\"team\",\"subject\":\"%s\",\"n\":%lu,"
                   "\"model\":\"example\",\"input_tokens\":%lu,\"cost_microdollars\":%lu}",
                   id, key, count, count % 1000, count % 777);
    int status = send_until_answered(w, body, 201, 200);
    atomic_fetch_add(status == 201 ? &accepted : &already_present, 1);
    (void)fprintf(out, "%s %s\n", key, id);
    if (count % REFUSED_EVERY == 0) {
        send_refused(w, key, id);
    }
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    char key[32];

    for (unsigned long count = 1; !atomic_load(&ending); count++) {
        (void)snprintf(key, sizeof key, "w%u-k%lu", w->number, count % keys_each);
        send_next(w, key, count);
    }
    hang_up(w);
    return NULL;
}

/* Returns when nobody holds the other end of standard input any more. */
static void wait_for_end(void)
{
    char c;

    while (read(STDIN_FILENO, &c, 1) > 0) {
    }
}

int main(int argc, char **argv)
{
    static struct writer writers[WRITERS_MAX];

    if (argc != 5) {
        (void)fprintf(stderr, "usage: kill-writers PORT WRITERS KEYS OUT\n");
        return 2;
    }
    unsigned long count = strtoul(argv[2], NULL, 10);
    keys_each = (unsigned)strtoul(argv[3], NULL, 10);
    server.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out = fopen(argv[4], "we");
    if (out == NULL || count == 0 || count > WRITERS_MAX || keys_each == 0) {
        (void)fprintf(stderr, "kill-writers: a wrong argument, or %s cannot be written\n", argv[4]);
        return 2;
    }
    for (unsigned i = 0; i < count; i++) {
        writers[i].number = i;
        writers[i].fd = -1;
        if (pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]) != 0) {
            return 2;
        }
    }
    wait_for_end();
    atomic_store(&ending, true);
    for (unsigned i = 0; i < count; i++) {
        (void)pthread_join(writers[i].thread, NULL);
    }
    printf("%lu %lu %lu %lu\n", atomic_load(&accepted), atomic_load(&already_present),
           atomic_load(&refused), atomic_load(&repeats));
    return fclose(out) == 0 ? 0 : 1;
}
