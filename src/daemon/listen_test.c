/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets that the daemon listens on. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/listen.h"

enum { SOCKETS = 2, CLIENTS = 200, LEAST = 40, URL_ROOM = 128 };

static struct dbk_config_address address_of(const char *text)
{
    struct dbk_config_address address;
    struct daybook_error err = {0};
    assert_int_equal(dbk_address_parse(text, &address, &err), DAYBOOK_OK);
    return address;
}

static void close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
}

/* Connects to the port that stands at the end of `url`. */
static int connect_to(const char *url)
{
    struct dbk_config_address address = address_of(url + strlen("http://"));
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address.storage, address.length), 0);
    return fd;
}

/* How many connections wait at a socket, which never blocks; they are closed. */
static unsigned take_all(int fd)
{
    unsigned count = 0;
    for (int peer; (peer = accept(fd, NULL, NULL)) >= 0; count++) {
        (void)close(peer);
    }
    return count;
}

static void test_connections_are_spread_over_the_sockets(void **state)
{
    (void)state;
    struct dbk_config_address address = address_of("127.0.0.1:0");
    struct daybook_error err = {0};
    char url[URL_ROOM];
    int fds[SOCKETS];
    int clients[CLIENTS];
    assert_int_equal(dbk_listen_tcp(&address, "127.0.0.1:0", fds, SOCKETS, url, sizeof url, &err),
                     DAYBOOK_OK);
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = connect_to(url);
    }
    unsigned first = take_all(fds[0]);
    unsigned second = take_all(fds[1]);
    assert_int_equal(first + second, CLIENTS);
    /* By chance: 40 of 200 or fewer would come once in more than 10^17 runs. */
    assert_in_range(first, LEAST, CLIENTS - LEAST);
    close_all(clients, CLIENTS);
    close_all(fds, SOCKETS);
}

static void test_nobody_else_listens_there(void **state)
{
    (void)state;
    struct dbk_config_address address = address_of("127.0.0.1:0");
    struct daybook_error err = {0};
    char url[URL_ROOM];
    int fds[SOCKETS];
    int others[SOCKETS];
    assert_int_equal(dbk_listen_tcp(&address, "127.0.0.1:0", fds, SOCKETS, url, sizeof url, &err),
                     DAYBOOK_OK);
    address = address_of(url + strlen("http://"));
    assert_int_equal(dbk_listen_tcp(&address, "there", others, SOCKETS, url, sizeof url, &err),
                     DAYBOOK_BUSY);
    assert_non_null(strstr(err.message, "there is in use"));
    close_all(fds, SOCKETS);
    assert_int_equal(dbk_listen_tcp(&address, "there", others, SOCKETS, url, sizeof url, &err),
                     DAYBOOK_OK);
    for (unsigned i = 0; i < SOCKETS; i++) {
        assert_true((fcntl(others[i], F_GETFD) & FD_CLOEXEC) != 0);
        assert_true((fcntl(others[i], F_GETFL) & O_NONBLOCK) != 0);
    }
    close_all(others, SOCKETS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_are_spread_over_the_sockets),
        cmocka_unit_test(test_nobody_else_listens_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
