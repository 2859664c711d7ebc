/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets of listen.h. */
#include "daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

#define BACKLOG 1024

/* SOCK_STREAM, closed on exec, never blocking. */
static int stream_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void write_url(int fd, char *url, size_t room)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    char host[INET6_ADDRSTRLEN] = "";
    (void)getsockname(fd, (struct sockaddr *)&bound, &len);
    if (bound.ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, &bound, sizeof v6);
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
        (void)snprintf(url, room, "http://[%s]:%u", host, ntohs(v6.sin6_port));
    } else {
        struct sockaddr_in v4;
        memcpy(&v4, &bound, sizeof v4);
        (void)inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
        (void)snprintf(url, room, "http://%s:%u", host, ntohs(v4.sin_port));
    }
}

/* One more socket beside `first`, which listens. Where the system has none, both threads share that one. */
static int listen_beside(int first)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    int one = 1;
    int fd = -1;
    if (getsockname(first, (struct sockaddr *)&bound, &len) == 0 &&
        setsockopt(first, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0) {
        fd = stream_socket(bound.ss_family);
    }
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0 &&
        bind(fd, (const struct sockaddr *)&bound, len) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return fcntl(first, F_DUPFD_CLOEXEC, 0);
}

enum daybook_code dbk_listen_tcp(const struct dbk_config_address *address, const char *name,
                                 int *ret_fds, unsigned count, char *url, size_t url_room,
                                 struct daybook_error *err)
{
    int one = 1;
    int fd = stream_socket(address->storage.ss_family);
    if (fd < 0) {
        return dbk_fail_os(err, DAYBOOK_BACKEND, errno, "no socket for %s", name);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)&address->storage, address->length) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int failure = errno;
        (void)close(fd);
        if (failure == EADDRINUSE) {
            return dbk_fail(err, DAYBOOK_BUSY,
                            "%s is in use: stop what listens there, or set listen.address", name);
        }
        return dbk_fail_os(err, DAYBOOK_BACKEND, failure, "cannot listen on %s", name);
    }
    write_url(fd, url, url_room);
    ret_fds[0] = fd;
    for (unsigned i = 1; i < count; i++) {
        ret_fds[i] = listen_beside(fd);
        if (ret_fds[i] < 0) {
            int failure = errno;
            while (i > 0) {
                (void)close(ret_fds[--i]);
            }
            return dbk_fail_os(err, DAYBOOK_BACKEND, failure, "no socket for %s", name);
        }
    }
    return DAYBOOK_OK;
}

/* Whether a daemon answers on the socket. */
static bool is_served(const struct sockaddr_un *address)
{
    int fd = stream_socket(AF_UNIX);
    if (fd < 0) {
        return true;
    }
    bool served =
        connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN;
    (void)close(fd);
    return served;
}

enum daybook_code dbk_listen_unix(const char *path, int *ret_fd, struct daybook_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    size_t len = strlen(path);
    if (len >= sizeof address.sun_path) {
        return dbk_fail(err, DAYBOOK_BAD_CONFIG, "listen.unix: %s is too long: shorten it", path);
    }
    memcpy(address.sun_path, path, len);
    if (lstat(path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode) || is_served(&address)) {
            return dbk_fail(err, DAYBOOK_BUSY,
                            "%s is in use: stop what listens there, or set listen.unix", path);
        }
        (void)unlink(path);
    }
    int fd = stream_socket(AF_UNIX);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int failure = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return dbk_fail_os(err, DAYBOOK_BACKEND, failure, "cannot listen on %s", path);
    }
    *ret_fd = fd;
    return DAYBOOK_OK;
}
