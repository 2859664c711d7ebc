/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request ids of the form uuidv7: `req_` and a UUID of RFC 9562 in lower case. Threads: any.
 */
#include "event/request_id.h"

#include <daybook/event.h>

#include <string.h>

#define PREFIX "req_"
#define PREFIX_BYTES 4u
#define UUID_BYTES 16u

/* Whether a dash stands before byte `i` of the UUID. */
static bool dash_before(unsigned i)
{
    return i == 4 || i == 6 || i == 8 || i == 10;
}

void daybook_request_id_from(uint64_t unix_ms, const uint8_t random[10], char *ret_id)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t uuid[UUID_BYTES];
    for (unsigned i = 0; i < 6; i++) {
        uuid[i] = (uint8_t)(unix_ms >> (40 - 8 * i));
    }
    memcpy(uuid + 6, random, 10);
    uuid[6] = (uint8_t)(0x70 | (uuid[6] & 0x0f)); /* version 7 */
    uuid[8] = (uint8_t)(0x80 | (uuid[8] & 0x3f)); /* variant 10 */
    memcpy(ret_id, PREFIX, PREFIX_BYTES);
    char *at = ret_id + PREFIX_BYTES;
    for (unsigned i = 0; i < UUID_BYTES; i++) {
        if (dash_before(i)) {
            *at++ = '-';
        }
        *at++ = digits[uuid[i] >> 4];
        *at++ = digits[uuid[i] & 15];
    }
    *at = '\0';
}

static bool is_lower_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool dbk_request_id_is_uuidv7(struct daybook_bytes id)
{
    if (id.len != DAYBOOK_REQUEST_ID_MINTED_BYTES || memcmp(id.data, PREFIX, PREFIX_BYTES) != 0) {
        return false;
    }
    const char *at = id.data + PREFIX_BYTES;
    char version = at[14];
    char variant = at[19];
    for (unsigned i = 0; i < UUID_BYTES; i++) {
        if (dash_before(i) && *at++ != '-') {
            return false;
        }
        if (!is_lower_hex(at[0]) || !is_lower_hex(at[1])) {
            return false;
        }
        at += 2;
    }
    return version == '7' && (variant == '8' || variant == '9' || variant == 'a' || variant == 'b');
}
