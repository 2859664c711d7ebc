/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what is left of a damaged directory: every group and every frame whose own checksums hold,
 * on both sides of what does not, in the order of the log. For `dump` and `repair`; an opening never
 * reads like this (scan.h). Reads only, takes no lock. Threads: owner.
 *
 * What stands behind the end of a segment, as the LINK of its successor says it, is no part of the log
 * and is not given: it was never answered, and later segments may hold the same positions again.
 */
#ifndef DBK_ENGINES_LOG_SALVAGE_H
#define DBK_ENGINES_LOG_SALVAGE_H

#include <daybook/log.h>

#include "base/os.h"
#include "engines/log/format.h"

struct dbk_salvage_segment {
    uint32_t segment_no;
    uint32_t size_bytes;    /* of the file */
    uint32_t segment_bytes; /* as its header says; of the file where that is damaged */
    uint64_t salt;
    bool header_good;
    bool foreign; /* intact, and of another journal: left out */
    bool salted;  /* the salt is known; else nothing in it can be checked, and it is left out */
    bool linked;
    struct dbk_link_frame link;
    uint64_t first_group_no; /* UINT64_MAX: it holds no group */
    uint32_t end;            /* of what belongs to the log */
    uint64_t end_group_no;   /* groups from this number on do not belong to it */
};

enum dbk_salvage_kind {
    DBK_SALVAGE_SEGMENT, /* a segment begins */
    DBK_SALVAGE_GROUP,   /* a group header that holds; its frames follow */
    DBK_SALVAGE_FRAME,   /* a frame that holds, but for records */
    DBK_SALVAGE_DAMAGE,  /* bytes that are not what was written, or that cannot be read */
    DBK_SALVAGE_BEHIND   /* bytes behind the end of the segment's part of the log */
};

struct dbk_salvage_item {
    enum dbk_salvage_kind kind;
    const struct dbk_salvage_segment *segment;
    uint64_t offset;
    uint64_t end;
    const struct dbk_group_header *group; /* GROUP */
    enum dbk_body_check check;            /* GROUP, of its body */
    struct dbk_frame
        frame;           /* FRAME; DAMAGE: of type 0, or its header holds and its body does not */
    bool record_damaged; /* FRAME, an EVENT: of at least one entry */
    const char *what;    /* DAMAGE: for people */
};
/* Not OK ends the walk with that code. What it points to stands for the call. */
typedef enum daybook_code dbk_salvage_visit(void *user, const struct dbk_salvage_item *item,
                                            struct daybook_error *err);

struct dbk_salvage {
    const struct dbk_os *os;
    const char *path;
    struct dbk_identity identity; /* what FORMAT says, else the uuid of the first intact header */
    bool has_identity;            /* FORMAT holds */
    struct dbk_salvage_segment *segments; /* ascending */
    uint32_t count;
    uint32_t room;
    uint8_t *bytes; /* a whole segment */
    size_t bytes_room;
};

/* Lists the directory and looks at each segment. Damage is no error here. Not OK: NOT_FOUND (no such
 * directory, or nothing of a journal in it), NEWER_FORMAT, BACKEND (it cannot be listed), NO_MEMORY. */
enum daybook_code dbk_salvage_open(struct dbk_salvage *salvage, const struct dbk_os *os,
                                   const char *path, struct daybook_error *err);
void dbk_salvage_release(struct dbk_salvage *salvage);
enum daybook_code dbk_salvage_walk(struct dbk_salvage *salvage, dbk_salvage_visit *visit,
                                   void *user, struct daybook_error *err);

/* A salt under which this group header validates at its place: only 32 bits of a salt count, and they
 * can be told from any header. For a segment whose own header is damaged. */
uint64_t dbk_salvage_salt(const uint8_t header[DBK_GROUP_HEADER_BYTES], uint64_t lsn);

#endif
