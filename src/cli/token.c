/* SPDX-License-Identifier: Apache-2.0 */
/* The token of token.h. */
#include "cli/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* The whole file, or as much of it as shows that it is too long. Returns the bytes, -1 with errno. */
static ssize_t read_small_file(const char *path, char *buf, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = 0;
    ssize_t n = fd >= 0 ? 1 : -1;
    while (n > 0 && (size_t)len < room) {
        n = read(fd, buf + len, room - (size_t)len);
        if (n < 0 && errno == EINTR) {
            n = 1;
        } else if (n > 0) {
            len += n;
        }
    }
    int why = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = why;
    return n < 0 ? -1 : len;
}

/* What is wrong with the text of a token file, or NULL; *ret_len is the token's length. */
static const char *token_fault(const char *text, size_t len, size_t *ret_len)
{
    if (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    if (len > 0 && text[len - 1] == '\r') {
        len--;
    }
    if (len == 0) {
        return "is empty: write the token into it, one line";
    }
    if (memchr(text, '\n', len) != NULL) {
        return "has several lines: leave the one that is the token";
    }
    if (len > CLI_TOKEN_BYTES_MAX) {
        return "is longer than a token can be: is it another file?";
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= 0x20 || text[i] >= 0x7F) {
            return "holds what no token has (a blank, a control character, or no ASCII): write the "
                   "token alone";
        }
    }
    *ret_len = len;
    return NULL;
}

enum daybook_code cli_token_read(const char *path, char *ret, struct daybook_error *err)
{
    char text[CLI_TOKEN_BYTES_MAX + 3]; /* a line break of two bytes, and one byte too many */
    size_t token_len = 0;
    ssize_t len = read_small_file(path, text, sizeof text);
    if (len < 0) {
        return dbk_fail(err, DAYBOOK_BAD_ARGUMENT,
                        "the token file %.200s cannot be read: %s: name another with --token-file "
                        "or DAYBOOK_TOKEN_FILE",
                        path, strerror(errno));
    }
    const char *fault = token_fault(text, (size_t)len, &token_len);
    if (fault == NULL) {
        memcpy(ret, text, token_len);
        ret[token_len] = '\0';
    }
    explicit_bzero(text, sizeof text);
    return fault == NULL
               ? DAYBOOK_OK
               : dbk_fail(err, DAYBOOK_BAD_ARGUMENT, "the token file %.200s %s", path, fault);
}
