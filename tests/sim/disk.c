/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated disk, see disk.h. One thread at a time per disk. */
#include "disk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define NAME_BYTES_MAX 96u
#define PATH_BYTES_MAX 1024u
#define BLOCK_BYTES 4096u
#define INJECTIONS_MAX 8u
#define ROOT 0u

/* Bytes of a file as one side has them; what lies between size and room is zero. */
struct image {
    uint8_t *bytes;
    uint64_t size;
    uint64_t room;
};

/* A change of a file that is not synced yet: data at a place, or only a new size. */
struct unsynced {
    uint64_t order; /* among all changes of the disk */
    uint64_t offset;
    size_t len;    /* 0: only the size */
    uint8_t *data; /* owned */
    bool resizes;
    uint64_t size_after;
};

struct inode {
    enum dbk_file_kind kind;
    struct image medium;
    struct image cache;
    struct unsynced *unsynced;
    size_t unsynced_count;
    size_t unsynced_room;
    uint64_t allocated_bytes;
    int64_t modified_us;
    bool locked;
};

struct name {
    uint32_t dir;
    uint32_t inode;
    char text[NAME_BYTES_MAX];
};

struct names {
    struct name *list;
    size_t count;
    size_t room;
};

enum name_change { NAME_ADDED, NAME_REMOVED, NAME_RENAMED };

struct unsynced_name {
    uint64_t order;
    enum name_change change;
    uint32_t dir;
    uint32_t inode;
    char from[NAME_BYTES_MAX]; /* removed, renamed */
    char to[NAME_BYTES_MAX];   /* added, renamed */
};

struct handle {
    bool open;
    bool writable;
    bool direct; /* whole blocks only */
    bool holds_lock;
    uint32_t inode;
};

struct sim_store {
    struct inode *inodes;
    size_t inode_count;
    size_t inode_room;
    size_t forgotten; /* inodes in front of it have neither bytes nor a name */
    struct names medium;
    struct names cache;
    struct unsynced_name *unsynced_names;
    size_t unsynced_name_count;
    size_t unsynced_name_room;
    struct handle *handles;
    size_t handle_count;
    size_t handle_room;
    struct sim_injection injections[INJECTIONS_MAX];
    size_t injection_count;
    uint64_t entropy;
    uint64_t changes; /* so far: the order of the next one */
};

static const char *const call_names[SIM_CALL_COUNT] = {
    "any",    "open",      "close",     "pwrite",    "pread",      "fdatasync",
    "fsync",  "fsync_dir", "fallocate", "ftruncate", "drop_cache", "rename",
    "unlink", "mkdir",     "list",      "stat",      "statfs",     "lock"};

static _Noreturn void wrong(const char *what, const char *detail)
{
    fprintf(stderr, "simulated disk: %s: %s\n", what, detail);
    abort();
}

static void *grown(void *list, size_t *room, size_t needed, size_t item_bytes)
{
    if (needed <= *room) {
        return list;
    }
    size_t more = *room * 2 > needed ? *room * 2 : needed + 8;
    void *p = realloc(list, more * item_bytes);
    if (p == NULL) {
        wrong("out of memory", "list");
    }
    *room = more;
    return p;
}

static void *copied(const void *from, size_t count, size_t item_bytes)
{
    if (count == 0) {
        return NULL;
    }
    void *p = malloc(count * item_bytes);
    if (p == NULL) {
        wrong("out of memory", "copy");
    }
    memcpy(p, from, count * item_bytes);
    return p;
}

uint64_t sim_draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- images -------------------------------------------------------------------------------------- */

static void image_resize(struct image *image, uint64_t size)
{
    if (size > image->room) {
        uint64_t room = dbk_round_up(size, BLOCK_BYTES);
        room = room > image->room * 2 ? room : image->room * 2;
        uint8_t *bytes = room > 0 ? realloc(image->bytes, room) : NULL;
        if (bytes == NULL) {
            wrong("out of memory", "image");
        }
        memset(bytes + image->room, 0, room - image->room);
        image->bytes = bytes;
        image->room = room;
    } else if (size < image->size) {
        memset(image->bytes + size, 0, image->size - size);
    }
    image->size = size;
}

/* Writes inside the size only. */
static void image_put(struct image *image, uint64_t offset, const uint8_t *data, size_t len)
{
    if (offset >= image->size) {
        return;
    }
    uint64_t rest = image->size - offset;
    if (len > 0) {
        memcpy(image->bytes + offset, data, len < rest ? len : (size_t)rest);
    }
}

static struct image image_copy(const struct image *image)
{
    return (struct image){copied(image->bytes, image->room, 1), image->size, image->room};
}

static void image_assign(struct image *image, const struct image *from)
{
    image_resize(image, 0);
    image_resize(image, from->size);
    image_put(image, 0, from->bytes, from->size);
}

static void image_apply(struct image *image, const struct unsynced *u)
{
    if (u->resizes) {
        image_resize(image, u->size_after);
    }
    image_put(image, u->offset, u->data, u->len);
}

/* ---- inodes -------------------------------------------------------------------------------------- */

static uint32_t inode_new(struct sim_store *s, enum dbk_file_kind kind)
{
    s->inodes = grown(s->inodes, &s->inode_room, s->inode_count + 1, sizeof *s->inodes);
    s->inodes[s->inode_count] = (struct inode){.kind = kind};
    return (uint32_t)s->inode_count++;
}

static void unsynced_clear(struct inode *n)
{
    for (size_t i = 0; i < n->unsynced_count; i++) {
        free(n->unsynced[i].data);
    }
    n->unsynced_count = 0;
}

static void unsynced_add(struct sim_store *s, struct inode *n, uint64_t offset, const void *data,
                         size_t len, uint64_t size_after)
{
    n->unsynced = grown(n->unsynced, &n->unsynced_room, n->unsynced_count + 1, sizeof *n->unsynced);
    struct unsynced *u = &n->unsynced[n->unsynced_count++];
    *u = (struct unsynced){.order = s->changes++,
                           .offset = offset,
                           .len = len,
                           .data = copied(data, len, 1),
                           .resizes = size_after != n->cache.size,
                           .size_after = size_after};
    image_apply(&n->cache, u);
}

static void inode_sync(struct inode *n)
{
    for (size_t i = 0; i < n->unsynced_count; i++) {
        image_apply(&n->medium, &n->unsynced[i]);
    }
    unsynced_clear(n);
}

/* What is clean is read from the medium again; what is not stays. */
static void inode_drop_cache(struct inode *n)
{
    image_assign(&n->cache, &n->medium);
    for (size_t i = 0; i < n->unsynced_count; i++) {
        image_apply(&n->cache, &n->unsynced[i]);
    }
}

/* How a subset is drawn: writes whole or in units, and how many of 8 are kept. */
struct draw {
    uint64_t state;
    bool whole_writes;
    unsigned kept_of_8;
    size_t unit_bytes; /* what is kept or lost as one */
    bool any_sizes;    /* size changes each for itself, not as a prefix */
    uint64_t cutoff;   /* SIM_KEEP_PREFIX: the first change that is lost, or torn */
};

static bool draw_keep(struct draw *draw)
{
    return sim_draw(&draw->state) % 8 < draw->kept_of_8;
}

static void apply_some_units(struct image *image, const struct unsynced *u, struct draw *draw)
{
    bool write_kept = draw_keep(draw);
    for (size_t done = 0; done < u->len;) {
        uint64_t at = u->offset + done;
        size_t piece = draw->unit_bytes - (size_t)(at % draw->unit_bytes);
        piece = piece < u->len - done ? piece : u->len - done;
        if (draw->whole_writes ? write_kept : draw_keep(draw)) {
            image_put(image, at, u->data + done, piece);
        }
        done += piece;
    }
}

/* Replays the unsynced changes onto the medium, keeping `sizes_kept` of the size changes. Data lies
 * beyond a size that was not kept for as long as a later size brings it back: so the image is held at
 * its largest size until the end. */
static void inode_keep_some(struct inode *n, enum sim_profile profile, struct draw *draw,
                            uint64_t sizes_kept)
{
    uint64_t size = n->medium.size;
    uint64_t largest = size;
    for (size_t i = 0; i < n->unsynced_count; i++) {
        uint64_t end = n->unsynced[i].size_after;
        largest = end > largest ? end : largest;
    }
    image_resize(&n->medium, largest);
    for (size_t i = 0; i < n->unsynced_count; i++) {
        const struct unsynced *u = &n->unsynced[i];
        if (u->resizes && (draw->any_sizes ? draw_keep(draw) : sizes_kept > 0)) {
            sizes_kept -= draw->any_sizes ? 0 : 1;
            size = u->size_after;
            if (size < largest) { /* what was behind a truncation never comes back */
                memset(n->medium.bytes + size, 0, largest - size);
            }
        }
        if (profile != SIM_KEEP_LAST_WRITE) {
            apply_some_units(&n->medium, u, draw);
        } else if (i + 1 == n->unsynced_count) {
            image_put(&n->medium, u->offset, u->data, u->len);
        }
    }
    image_resize(&n->medium, size);
    unsynced_clear(n);
}

/* What was changed before the cutoff is there; of the write at the cutoff its first sectors are. */
static void inode_keep_prefix(struct inode *n, struct draw *draw)
{
    size_t kept = 0;
    while (kept < n->unsynced_count && n->unsynced[kept].order < draw->cutoff) {
        image_apply(&n->medium, &n->unsynced[kept++]);
    }
    if (kept < n->unsynced_count && n->unsynced[kept].order == draw->cutoff) {
        const struct unsynced *u = &n->unsynced[kept];
        size_t sectors = (u->len + SIM_SECTOR_BYTES - 1) / SIM_SECTOR_BYTES;
        size_t torn = SIM_SECTOR_BYTES * (size_t)(sim_draw(&draw->state) % (sectors + 1));
        image_put(&n->medium, u->offset, u->data, torn < u->len ? torn : u->len);
    }
    unsynced_clear(n);
}

static void inode_power_cut(struct inode *n, enum sim_profile profile, struct draw draw)
{
    uint64_t resizes = 0;
    for (size_t i = 0; i < n->unsynced_count; i++) {
        resizes += n->unsynced[i].resizes ? 1 : 0;
    }
    switch (profile) {
    case SIM_KEEP_NOTHING:
        unsynced_clear(n);
        break;
    case SIM_KEEP_ALL:
        inode_sync(n);
        break;
    case SIM_KEEP_LAST_WRITE:
        inode_keep_some(n, profile, &draw, resizes);
        break;
    case SIM_KEEP_PREFIX:
        inode_keep_prefix(n, &draw);
        break;
    case SIM_KEEP_SUBSET:
    case SIM_KEEP_PAGES:
    case SIM_KEEP_ANY: {
        static const unsigned kept_of_8[4] = {4, 4, 1, 7};
        draw.whole_writes = sim_draw(&draw.state) % 4 == 0;
        draw.kept_of_8 = kept_of_8[sim_draw(&draw.state) % 4];
        draw.unit_bytes = profile == SIM_KEEP_PAGES ? BLOCK_BYTES : SIM_SECTOR_BYTES;
        draw.any_sizes = profile == SIM_KEEP_ANY;
        inode_keep_some(n, profile, &draw, sim_draw(&draw.state) % (resizes + 1));
        break;
    }
    case SIM_PROFILE_COUNT:
        wrong("profile", "not one");
    }
    image_assign(&n->cache, &n->medium);
    n->allocated_bytes = dbk_round_up(n->cache.size, BLOCK_BYTES);
}

/* ---- names --------------------------------------------------------------------------------------- */

static struct name *names_find(const struct names *names, uint32_t dir, const char *text)
{
    for (size_t i = 0; i < names->count; i++) {
        if (names->list[i].dir == dir && strcmp(names->list[i].text, text) == 0) {
            return &names->list[i];
        }
    }
    return NULL;
}

static void names_remove(struct names *names, uint32_t dir, const char *text)
{
    struct name *n = names_find(names, dir, text);
    if (n != NULL) {
        *n = names->list[--names->count];
    }
}

static void names_add(struct names *names, uint32_t dir, const char *text, uint32_t inode)
{
    names->list = grown(names->list, &names->room, names->count + 1, sizeof *names->list);
    struct name *n = &names->list[names->count++];
    *n = (struct name){.dir = dir, .inode = inode};
    snprintf(n->text, sizeof n->text, "%s", text);
}

static void names_apply(struct names *names, const struct unsynced_name *u)
{
    if (u->change != NAME_ADDED) {
        names_remove(names, u->dir, u->from);
    }
    if (u->change != NAME_REMOVED) {
        names_remove(names, u->dir, u->to);
        names_add(names, u->dir, u->to, u->inode);
    }
}

static void name_change(struct sim_store *s, enum name_change change, uint32_t dir, uint32_t inode,
                        const char *from, const char *to)
{
    s->unsynced_names = grown(s->unsynced_names, &s->unsynced_name_room, s->unsynced_name_count + 1,
                              sizeof *s->unsynced_names);
    struct unsynced_name *u = &s->unsynced_names[s->unsynced_name_count++];
    *u =
        (struct unsynced_name){.order = s->changes++, .change = change, .dir = dir, .inode = inode};
    snprintf(u->from, sizeof u->from, "%s", from);
    snprintf(u->to, sizeof u->to, "%s", to);
    names_apply(&s->cache, u);
}

/* Which unsynced operations of a directory are kept. */
struct names_kept {
    size_t first;     /* so many */
    uint64_t before;  /* and those before this change of the disk */
    uint64_t *chosen; /* NULL; or those that this state draws */
};

/* Moves what is kept of a directory's unsynced operations to the medium, drops its others. */
static void dir_settle(struct sim_store *s, uint32_t dir, struct names_kept kept)
{
    size_t left = 0;
    for (size_t i = 0; i < s->unsynced_name_count; i++) {
        struct unsynced_name u = s->unsynced_names[i];
        if (u.dir != dir) {
            s->unsynced_names[left++] = u;
        } else if (kept.first > 0 || u.order < kept.before ||
                   (kept.chosen != NULL && sim_draw(kept.chosen) % 2 == 0)) {
            kept.first -= kept.first > 0 ? 1 : 0;
            names_apply(&s->medium, &u);
        }
    }
    s->unsynced_name_count = left;
}

static void dir_sync(struct sim_store *s, uint32_t dir)
{
    dir_settle(s, dir, (struct names_kept){.first = SIZE_MAX});
}

static size_t dir_unsynced_count(const struct sim_store *s, uint32_t dir)
{
    size_t count = 0;
    for (size_t i = 0; i < s->unsynced_name_count; i++) {
        count += s->unsynced_names[i].dir == dir ? 1 : 0;
    }
    return count;
}

/* The next component of a path, "" at its end. */
static int path_step(const char **path, char text[static NAME_BYTES_MAX])
{
    const char *p = *path + strspn(*path, "/");
    size_t len = strcspn(p, "/");
    if (len >= NAME_BYTES_MAX) {
        return -ENAMETOOLONG;
    }
    memcpy(text, p, len);
    text[len] = 0;
    *path = p + len;
    return 0;
}

/* Finds the directory of the last component, and that component ("" for the root itself). */
static int path_parent(const struct sim_store *s, const struct names *names, const char *path,
                       uint32_t *ret_dir, char text[static NAME_BYTES_MAX])
{
    uint32_t dir = ROOT;
    int rc = path_step(&path, text);
    while (rc == 0 && path[strspn(path, "/")] != 0) {
        const struct name *n = names_find(names, dir, text);
        if (n == NULL) {
            return -ENOENT;
        }
        if (s->inodes[n->inode].kind != DBK_FILE_DIRECTORY) {
            return -ENOTDIR;
        }
        dir = n->inode;
        rc = path_step(&path, text);
    }
    *ret_dir = dir;
    return rc;
}

static int path_find(const struct sim_store *s, const struct names *names, const char *path,
                     uint32_t *ret_inode)
{
    char text[NAME_BYTES_MAX];
    uint32_t dir = ROOT;
    int rc = path_parent(s, names, path, &dir, text);
    if (rc != 0) {
        return rc;
    }
    const struct name *n = names_find(names, dir, text);
    if (text[0] != 0 && n == NULL) {
        return -ENOENT;
    }
    *ret_inode = text[0] == 0 ? ROOT : n->inode;
    return 0;
}

/* ---- a step -------------------------------------------------------------------------------------- */

static const char *inode_name(const struct sim_store *s, uint32_t inode)
{
    for (size_t i = 0; i < s->cache.count; i++) {
        if (s->cache.list[i].inode == inode) {
            return s->cache.list[i].text;
        }
    }
    return "";
}

static bool trouble_matches(const struct sim_injection *t, enum sim_call call, const char *name)
{
    return (t->call == SIM_ANY || t->call == call) &&
           (t->name_part == NULL || strstr(name, t->name_part) != NULL);
}

/* Counts a step. Returns 0, or the error with which it must fail; *ret_short is what to leave out. */
static int step(struct sim_disk *d, enum sim_call call, const char *name, size_t *ret_short)
{
    struct sim_store *s = d->store_;
    *ret_short = 0;
    if (d->dead) {
        return -EIO;
    }
    if (d->beside) {
        return 0;
    }
    d->steps++;
    d->calls[call]++;
    d->dead = d->crash_at != 0 && d->steps >= d->crash_at;
    if (d->trace != NULL) {
        fprintf(d->trace, "%s%" PRIu64 " %s %s", d->dead ? "dead at " : "", d->steps,
                call_names[call], name);
    }
    if (d->dead) {
        if (d->trace != NULL) {
            fprintf(d->trace, "\n");
        }
        return -EIO;
    }
    int rc = 0;
    for (size_t i = 0; i < s->injection_count; i++) {
        struct sim_injection *t = &s->injections[i];
        if (!trouble_matches(t, call, name) || t->nth == 0) {
            continue;
        }
        t->nth--;
        if (t->nth == 0) {
            bool shorter = t->trouble == SIM_SHORT_ONCE || t->trouble == SIM_SHORT_STICKY;
            d->troubles++;
            t->nth = t->trouble == SIM_FAIL_STICKY || t->trouble == SIM_SHORT_STICKY ? 1 : 0;
            *ret_short = shorter ? t->short_bytes : 0;
            rc = shorter ? rc : -t->os_errno;
        }
    }
    return rc;
}

/* Prints how a step ended and passes its result on. */
static int64_t ended(const struct sim_disk *d, int64_t rc)
{
    if (d->trace != NULL && !d->dead && !d->beside) {
        fprintf(d->trace, " = %" PRId64 "\n", rc);
    }
    return rc;
}

static void detail(const struct sim_disk *d, uint64_t offset, uint64_t len)
{
    if (d->trace != NULL && !d->dead && !d->beside) {
        fprintf(d->trace, " at %" PRIu64 " len %" PRIu64, offset, len);
    }
}

static struct sim_disk *disk_of(const struct dbk_os *os)
{
    return os->user;
}

static struct handle *handle_get(struct sim_store *s, int file)
{
    if (file < 0 || (size_t)file >= s->handle_count || !s->handles[file].open) {
        wrong("file", "not open");
    }
    return &s->handles[file];
}

/* A step on an open file. The dead process may still hold files of before: they count as open. */
static int file_step(struct sim_disk *d, enum sim_call call, int file, struct inode **ret_inode,
                     size_t *ret_short)
{
    if (d->dead) {
        return -EIO;
    }
    struct handle *h = handle_get(d->store_, file);
    *ret_inode = &d->store_->inodes[h->inode];
    return step(d, call, inode_name(d->store_, h->inode), ret_short);
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static int path_step_begin(struct sim_disk *d, enum sim_call call, const char *path)
{
    size_t unused;
    return step(d, call, last_component(path), &unused);
}

static int handle_new(struct sim_store *s, uint32_t inode, bool writable)
{
    size_t i = 0;
    while (i < s->handle_count && s->handles[i].open) {
        i++;
    }
    if (i == s->handle_count) {
        s->handles = grown(s->handles, &s->handle_room, s->handle_count + 1, sizeof *s->handles);
        s->handle_count++;
    }
    s->handles[i] = (struct handle){.open = true, .writable = writable, .inode = inode};
    return (int)i;
}

/* ---- the seam ------------------------------------------------------------------------------------ */

static int file_create(struct sim_store *s, const char *path, uint32_t *ret_inode)
{
    char text[NAME_BYTES_MAX];
    uint32_t dir = ROOT;
    int rc = path_parent(s, &s->cache, path, &dir, text);
    if (rc != 0) {
        return rc;
    }
    if (text[0] == 0 || names_find(&s->cache, dir, text) != NULL) {
        return -EEXIST;
    }
    *ret_inode = inode_new(s, DBK_FILE_REGULAR);
    name_change(s, NAME_ADDED, dir, *ret_inode, "", text);
    return 0;
}

static int sim_open(const struct dbk_os *os, const char *path, enum dbk_open_mode mode)
{
    struct sim_disk *d = disk_of(os);
    struct sim_store *s = d->store_;
    uint32_t inode = ROOT;
    int rc = path_step_begin(d, SIM_OPEN, path);
    if (rc == 0) {
        rc = mode == DBK_OPEN_CREATE_EXCL ? file_create(s, path, &inode)
                                          : path_find(s, &s->cache, path, &inode);
    }
    if (rc == 0 && s->inodes[inode].kind != DBK_FILE_REGULAR) {
        rc = -EISDIR;
    }
    int file = rc != 0 ? rc : handle_new(s, inode, mode != DBK_OPEN_READ);
    if (file >= 0) {
        handle_get(s, file)->direct = mode == DBK_OPEN_WRITE_DIRECT;
    }
    return (int)ended(d, file);
}

static int sim_close(const struct dbk_os *os, int file)
{
    struct sim_disk *d = disk_of(os);
    struct inode *n;
    size_t unused;
    int rc = file_step(d, SIM_CLOSE, file, &n, &unused);
    if (d->dead) {
        return rc;
    }
    struct handle *h = handle_get(d->store_, file); /* closed even when it reports an error */
    n->locked = h->holds_lock ? false : n->locked;
    h->open = false;
    return (int)ended(d, rc);
}

static uint64_t used_bytes(const struct sim_store *s)
{
    uint64_t used = 0;
    for (size_t i = 0; i < s->inode_count; i++) {
        used += s->inodes[i].allocated_bytes;
    }
    return used;
}

static uint64_t free_bytes(const struct sim_disk *d)
{
    uint64_t used = used_bytes(d->store_);
    return used < d->space_bytes ? d->space_bytes - used : 0;
}

/* Takes blocks for a file that is to reach `end`. */
static int allocate(const struct sim_disk *d, struct inode *n, uint64_t end)
{
    uint64_t needed = dbk_round_up(end, BLOCK_BYTES);
    if (needed > n->allocated_bytes) {
        if (needed - n->allocated_bytes > free_bytes(d)) {
            return -ENOSPC;
        }
        n->allocated_bytes = needed;
    }
    return 0;
}

static int64_t sim_pwrite(const struct dbk_os *os, int file, const void *data, size_t len,
                          uint64_t offset)
{
    struct sim_disk *d = disk_of(os);
    struct inode *n;
    size_t left_out = 0;
    int rc = file_step(d, SIM_PWRITE, file, &n, &left_out);
    detail(d, offset, len);
    if (rc == 0 && !handle_get(d->store_, file)->writable) {
        rc = -EBADF;
    }
    if (rc == 0 && handle_get(d->store_, file)->direct && ((offset | len) % BLOCK_BYTES) != 0) {
        rc = -EINVAL;
    }
    len -= left_out < len ? left_out : len;
    if (rc == 0 && len > 0) {
        rc = allocate(d, n, offset + len);
    }
    if (rc != 0) {
        return ended(d, rc);
    }
    uint64_t end = offset + len;
    if (len > 0) {
        unsynced_add(d->store_, n, offset, data, len, end > n->cache.size ? end : n->cache.size);
        n->modified_us = d->realtime_us;
    }
    return ended(d, (int64_t)len);
}

static int64_t sim_pread(const struct dbk_os *os, int file, void *buf, size_t len, uint64_t offset)
{
    struct sim_disk *d = disk_of(os);
    struct inode *n;
    size_t left_out;
    int rc = file_step(d, SIM_PREAD, file, &n, &left_out);
    detail(d, offset, len);
    if (rc != 0) {
        return ended(d, rc);
    }
    uint64_t rest = offset < n->cache.size ? n->cache.size - offset : 0;
    len = len < rest ? len : (size_t)rest;
    /* Nothing would mean the end of the file: at least a byte is read. */
    if (len > 0) {
        len -= left_out < len ? left_out : len - 1;
    }
    if (len > 0) {
        memcpy(buf, n->cache.bytes + offset, len);
    }
    return ended(d, (int64_t)len);
}

static int sync_file(struct sim_disk *d, enum sim_call call, int file)
{
    struct inode *n;
    size_t unused;
    int rc = file_step(d, call, file, &n, &unused);
    if (rc == 0) {
        inode_sync(n);
    } else if (!d->dead && rc != -EINTR) {
        d->syncs_failed += n->unsynced_count > 0 ? 1 : 0;
        unsynced_clear(n); /* clean by name, on the medium by nothing */
        if (d->failed_sync_reverts) {
            image_assign(&n->cache, &n->medium);
        }
    }
    return (int)ended(d, rc);
}

static int sim_fdatasync(const struct dbk_os *os, int file)
{
    return sync_file(disk_of(os), SIM_FDATASYNC, file);
}

static int sim_fsync(const struct dbk_os *os, int file)
{
    return sync_file(disk_of(os), SIM_FSYNC, file);
}

static bool names_have(const struct names *names, uint32_t inode)
{
    for (size_t i = 0; i < names->count; i++) {
        if (names->list[i].inode == inode) {
            return true;
        }
    }
    return false;
}

static bool is_open(const struct sim_store *s, uint32_t inode)
{
    for (size_t i = 0; i < s->handle_count; i++) {
        if (s->handles[i].open && s->handles[i].inode == inode) {
            return true;
        }
    }
    return false;
}

/* Once no name is unsynced: the bytes of files that neither side has a name for and nobody has open are of no
 * use to anybody, and a test that lives for a month makes many. */
static void forget_removed(struct sim_store *s)
{
    bool all = true; /* so far */
    for (size_t i = s->forgotten; i < s->inode_count && s->unsynced_name_count == 0; i++) {
        struct inode *n = &s->inodes[i];
        uint32_t inode = (uint32_t)i;
        bool regular = i > ROOT && n->kind == DBK_FILE_REGULAR;
        if (regular && (n->cache.bytes != NULL || n->medium.bytes != NULL) &&
            !names_have(&s->cache, inode) && !names_have(&s->medium, inode) && !is_open(s, inode)) {
            unsynced_clear(n);
            free(n->medium.bytes);
            free(n->cache.bytes);
            n->medium = n->cache = (struct image){0};
        }
        all = all && (!regular || (n->cache.bytes == NULL && n->medium.bytes == NULL &&
                                   !names_have(&s->cache, inode)));
        s->forgotten = all ? i + 1 : s->forgotten;
    }
}

static int sim_fsync_dir(const struct dbk_os *os, const char *path)
{
    struct sim_disk *d = disk_of(os);
    uint32_t dir = ROOT;
    int rc = path_step_begin(d, SIM_FSYNC_DIR, path);
    if (rc == 0) {
        rc = path_find(d->store_, &d->store_->cache, path, &dir);
    }
    if (rc == 0 && d->store_->inodes[dir].kind != DBK_FILE_DIRECTORY) {
        rc = -ENOTDIR;
    }
    if (rc == 0) {
        dir_sync(d->store_, dir);
        forget_removed(d->store_);
    }
    return (int)ended(d, rc);
}

static int sim_fallocate(const struct dbk_os *os, int file, uint64_t len)
{
    struct sim_disk *d = disk_of(os);
    struct inode *n;
    size_t unused;
    int rc = file_step(d, SIM_FALLOCATE, file, &n, &unused);
    detail(d, 0, len);
    if (rc == 0) {
        rc = allocate(d, n, len);
    }
    if (rc == 0 && len > n->cache.size) {
        unsynced_add(d->store_, n, 0, NULL, 0, len);
    }
    return (int)ended(d, rc);
}

static int sim_ftruncate(const struct dbk_os *os, int file, uint64_t len)
{
    struct sim_disk *d = disk_of(os);
    struct inode *n;
    size_t unused;
    int rc = file_step(d, SIM_FTRUNCATE, file, &n, &unused);
    detail(d, 0, len);
    if (rc == 0 && len != n->cache.size) {
        unsynced_add(d->store_, n, 0, NULL, 0, len);
    }
    if (rc == 0 && dbk_round_up(len, BLOCK_BYTES) < n->allocated_bytes) {
        n->allocated_bytes = dbk_round_up(len, BLOCK_BYTES);
    }
    return (int)ended(d, rc);
}

static void sim_drop_cache(const struct dbk_os *os, int file)
{
    struct sim_disk *d = disk_of(os);
    struct inode *n;
    size_t unused;
    if (file_step(d, SIM_DROP_CACHE, file, &n, &unused) == 0) {
        inode_drop_cache(n);
    }
    ended(d, 0);
}

/* The blocks of a file without a name are free again (one that is open keeps its bytes). */
static void blocks_free(struct sim_store *s, uint32_t inode)
{
    s->inodes[inode].allocated_bytes = 0;
}

static int sim_rename(const struct dbk_os *os, const char *from, const char *to)
{
    struct sim_disk *d = disk_of(os);
    struct sim_store *s = d->store_;
    char from_text[NAME_BYTES_MAX];
    char to_text[NAME_BYTES_MAX];
    uint32_t from_dir = ROOT;
    uint32_t to_dir = ROOT;
    int rc = path_step_begin(d, SIM_RENAME, from);
    rc = rc != 0 ? rc : path_parent(s, &s->cache, from, &from_dir, from_text);
    rc = rc != 0 ? rc : path_parent(s, &s->cache, to, &to_dir, to_text);
    if (rc != 0) {
        return (int)ended(d, rc);
    }
    if (from_dir != to_dir) {
        return (int)ended(d, -EXDEV); /* two directories at once: not modelled */
    }
    const struct name *n = names_find(&s->cache, from_dir, from_text);
    if (n == NULL) {
        return (int)ended(d, -ENOENT);
    }
    uint32_t inode = n->inode;
    const struct name *replaced = names_find(&s->cache, to_dir, to_text);
    if (replaced != NULL && replaced->inode != inode) {
        blocks_free(s, replaced->inode);
    }
    name_change(s, NAME_RENAMED, from_dir, inode, from_text, to_text);
    return (int)ended(d, 0);
}

static int sim_unlink(const struct dbk_os *os, const char *path)
{
    struct sim_disk *d = disk_of(os);
    struct sim_store *s = d->store_;
    char text[NAME_BYTES_MAX];
    uint32_t dir = ROOT;
    int rc = path_step_begin(d, SIM_UNLINK, path);
    rc = rc != 0 ? rc : path_parent(s, &s->cache, path, &dir, text);
    if (rc != 0) {
        return (int)ended(d, rc);
    }
    const struct name *n = names_find(&s->cache, dir, text);
    if (n == NULL) {
        return (int)ended(d, -ENOENT);
    }
    if (s->inodes[n->inode].kind == DBK_FILE_DIRECTORY) {
        return (int)ended(d, -EISDIR);
    }
    uint32_t inode = n->inode;
    blocks_free(s, inode);
    name_change(s, NAME_REMOVED, dir, inode, text, "");
    return (int)ended(d, 0);
}

static int sim_mkdir(const struct dbk_os *os, const char *path)
{
    struct sim_disk *d = disk_of(os);
    struct sim_store *s = d->store_;
    char text[NAME_BYTES_MAX];
    uint32_t dir = ROOT;
    int rc = path_step_begin(d, SIM_MKDIR, path);
    rc = rc != 0 ? rc : path_parent(s, &s->cache, path, &dir, text);
    if (rc == 0 && (text[0] == 0 || names_find(&s->cache, dir, text) != NULL)) {
        rc = -EEXIST;
    }
    if (rc == 0) {
        name_change(s, NAME_ADDED, dir, inode_new(s, DBK_FILE_DIRECTORY), "", text);
    }
    return (int)ended(d, rc);
}

static int text_backwards(const void *a, const void *b)
{
    return strcmp(b, a);
}

/* From the last name to the first: an engine that relies on an order is wrong. */
static int sim_list(const struct dbk_os *os, const char *path, dbk_list_visit *visit, void *user)
{
    struct sim_disk *d = disk_of(os);
    struct sim_store *s = d->store_;
    uint32_t dir = ROOT;
    int rc = path_step_begin(d, SIM_LIST, path);
    rc = rc != 0 ? rc : path_find(s, &s->cache, path, &dir);
    if (rc == 0 && s->inodes[dir].kind != DBK_FILE_DIRECTORY) {
        rc = -ENOTDIR;
    }
    ended(d, rc);
    if (rc != 0) {
        return rc;
    }
    char(*texts)[NAME_BYTES_MAX] = malloc((s->cache.count + 1) * sizeof *texts);
    if (texts == NULL) {
        wrong("out of memory", "list");
    }
    size_t count = 0;
    for (size_t i = 0; i < s->cache.count; i++) {
        if (s->cache.list[i].dir == dir) {
            memcpy(texts[count++], s->cache.list[i].text, sizeof *texts);
        }
    }
    qsort(texts, count, sizeof *texts, text_backwards);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = visit(user, texts[i]);
    }
    free(texts);
    return rc;
}

static int sim_stat(const struct dbk_os *os, const char *path, struct dbk_stat *ret)
{
    struct sim_disk *d = disk_of(os);
    uint32_t inode = ROOT;
    int rc = path_step_begin(d, SIM_STAT, path);
    rc = rc != 0 ? rc : path_find(d->store_, &d->store_->cache, path, &inode);
    if (rc == 0) {
        const struct inode *n = &d->store_->inodes[inode];
        *ret = (struct dbk_stat){.kind = n->kind,
                                 .size_bytes = n->cache.size,
                                 .allocated_bytes = n->allocated_bytes,
                                 .inode = inode,
                                 .modified_us = n->modified_us};
    }
    return (int)ended(d, rc);
}

static int sim_statfs(const struct dbk_os *os, const char *path, struct dbk_statfs *ret)
{
    struct sim_disk *d = disk_of(os);
    uint32_t inode = ROOT;
    int rc = path_step_begin(d, SIM_STATFS, path);
    rc = rc != 0 ? rc : path_find(d->store_, &d->store_->cache, path, &inode);
    if (rc == 0) {
        *ret = (struct dbk_statfs){free_bytes(d)};
    }
    return (int)ended(d, rc);
}

static int sim_lock(const struct dbk_os *os, const char *path)
{
    struct sim_disk *d = disk_of(os);
    struct sim_store *s = d->store_;
    uint32_t inode = ROOT;
    int rc = path_step_begin(d, SIM_LOCK, path);
    if (rc == 0) {
        rc = path_find(s, &s->cache, path, &inode);
        rc = rc == -ENOENT ? file_create(s, path, &inode) : rc;
    }
    if (rc == 0 && s->inodes[inode].locked) {
        rc = -EWOULDBLOCK;
    }
    if (rc != 0) {
        return (int)ended(d, rc);
    }
    int file = handle_new(s, inode, true);
    s->handles[file].holds_lock = true;
    s->inodes[inode].locked = true;
    return (int)ended(d, file);
}

static int64_t sim_realtime_us(const struct dbk_os *os)
{
    return disk_of(os)->realtime_us;
}

static int64_t sim_monotonic_us(const struct dbk_os *os)
{
    return disk_of(os)->monotonic_us;
}

static int sim_random(const struct dbk_os *os, void *buf, size_t len)
{
    struct sim_store *s = disk_of(os)->store_;
    uint8_t *p = buf;
    for (size_t i = 0; i < len; i++) {
        p[i] = (uint8_t)sim_draw(&s->entropy);
    }
    return 0;
}

static void sim_sleep_us(const struct dbk_os *os, int64_t us)
{
    struct sim_disk *d = disk_of(os);
    d->realtime_us += us;
    d->monotonic_us += us;
}

/* ---- the disk ------------------------------------------------------------------------------------ */

static const struct dbk_os seam = {
    .open = sim_open,
    .close = sim_close,
    .pwrite = sim_pwrite,
    .pread = sim_pread,
    .fdatasync = sim_fdatasync,
    .fsync = sim_fsync,
    .fsync_dir = sim_fsync_dir,
    .fallocate = sim_fallocate,
    .ftruncate = sim_ftruncate,
    .drop_cache = sim_drop_cache,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .list = sim_list,
    .stat = sim_stat,
    .statfs = sim_statfs,
    .lock = sim_lock,
    .realtime_us = sim_realtime_us,
    .monotonic_us = sim_monotonic_us,
    .random = sim_random,
    .sleep_us = sim_sleep_us,
};

static struct sim_disk *disk_with_store(void)
{
    struct sim_disk *d = calloc(1, sizeof *d);
    struct sim_store *s = calloc(1, sizeof *s);
    if (d == NULL || s == NULL) {
        wrong("out of memory", "disk");
    }
    d->store_ = s;
    d->os = seam;
    d->os.user = d;
    return d;
}

struct sim_disk *sim_disk_new(uint64_t seed)
{
    struct sim_disk *d = disk_with_store();
    d->realtime_us = INT64_C(1767225600000000); /* 2026-01-01T00:00:00Z */
    d->monotonic_us = INT64_C(1000000);
    d->space_bytes = UINT64_C(1) << 40;
    d->store_->entropy = seed;
    (void)inode_new(d->store_, DBK_FILE_DIRECTORY);
    return d;
}

void sim_disk_free(struct sim_disk *disk)
{
    if (disk == NULL) {
        return;
    }
    struct sim_store *s = disk->store_;
    for (size_t i = 0; i < s->inode_count; i++) {
        unsynced_clear(&s->inodes[i]);
        free(s->inodes[i].unsynced);
        free(s->inodes[i].medium.bytes);
        free(s->inodes[i].cache.bytes);
    }
    free(s->inodes);
    free(s->medium.list);
    free(s->cache.list);
    free(s->unsynced_names);
    free(s->handles);
    free(s);
    free(disk);
}

static struct names names_copy(const struct names *names)
{
    return (struct names){copied(names->list, names->count, sizeof *names->list), names->count,
                          names->count};
}

static struct inode inode_copy(const struct inode *from)
{
    struct inode n = *from;
    n.medium = image_copy(&from->medium);
    n.cache = image_copy(&from->cache);
    n.unsynced = copied(from->unsynced, from->unsynced_count, sizeof *from->unsynced);
    n.unsynced_room = from->unsynced_count;
    for (size_t i = 0; i < n.unsynced_count; i++) {
        n.unsynced[i].data = copied(from->unsynced[i].data, from->unsynced[i].len, 1);
    }
    return n;
}

struct sim_disk *sim_disk_clone(const struct sim_disk *disk)
{
    struct sim_disk *d = disk_with_store();
    struct sim_store *to = d->store_;
    const struct sim_store *from = disk->store_;
    *to = *from;
    to->inodes = copied(from->inodes, from->inode_count, sizeof *from->inodes);
    to->inode_room = from->inode_count;
    for (size_t i = 0; i < from->inode_count; i++) {
        to->inodes[i] = inode_copy(&from->inodes[i]);
    }
    to->medium = names_copy(&from->medium);
    to->cache = names_copy(&from->cache);
    to->unsynced_names =
        copied(from->unsynced_names, from->unsynced_name_count, sizeof *from->unsynced_names);
    to->unsynced_name_room = from->unsynced_name_count;
    to->handles = copied(from->handles, from->handle_count, sizeof *from->handles);
    to->handle_room = from->handle_count;
    *d = *disk;
    d->os.user = d;
    d->store_ = to;
    return d;
}

void sim_kill(struct sim_disk *disk)
{
    struct sim_store *s = disk->store_;
    s->handle_count = 0;
    for (size_t i = 0; i < s->inode_count; i++) {
        s->inodes[i].locked = false;
    }
    disk->dead = false;
    disk->crash_at = 0;
    sim_calm(disk);
}

/* What no name leads to any more is gone, its bytes too. */
static void forget_nameless(struct sim_store *s)
{
    for (size_t i = ROOT + 1; i < s->inode_count; i++) {
        struct inode *n = &s->inodes[i];
        if (n->kind == DBK_FILE_REGULAR && inode_name(s, (uint32_t)i)[0] == 0) {
            free(n->medium.bytes);
            free(n->cache.bytes);
            n->medium = n->cache = (struct image){0};
            blocks_free(s, (uint32_t)i);
        }
    }
}

/* A change among those that are not synced, or behind them all. */
static uint64_t draw_cutoff(const struct sim_store *s, uint64_t seed)
{
    uint64_t oldest = s->changes;
    for (size_t i = 0; i < s->inode_count; i++) {
        const struct inode *n = &s->inodes[i];
        oldest =
            n->unsynced_count > 0 && n->unsynced[0].order < oldest ? n->unsynced[0].order : oldest;
    }
    for (size_t i = 0; i < s->unsynced_name_count; i++) {
        uint64_t order = s->unsynced_names[i].order;
        oldest = order < oldest ? order : oldest;
    }
    return oldest + sim_draw(&seed) % (s->changes - oldest + 1);
}

static void dir_power_cut(struct sim_store *s, uint32_t dir, enum sim_profile profile,
                          uint64_t cutoff, uint64_t *state)
{
    struct names_kept kept = {.first = 0};
    switch (profile) {
    case SIM_KEEP_NOTHING:
        break;
    case SIM_KEEP_ALL:
    case SIM_KEEP_LAST_WRITE:
        kept.first = SIZE_MAX;
        break;
    case SIM_KEEP_SUBSET:
    case SIM_KEEP_PAGES:
        kept.first = (size_t)(sim_draw(state) % (dir_unsynced_count(s, dir) + 1));
        break;
    case SIM_KEEP_PREFIX:
        kept.before = cutoff;
        break;
    case SIM_KEEP_ANY:
        kept.chosen = state;
        break;
    case SIM_PROFILE_COUNT:
        wrong("profile", "not one");
    }
    dir_settle(s, dir, kept);
}

void sim_power_cut(struct sim_disk *disk, enum sim_profile profile, uint64_t seed)
{
    struct sim_store *s = disk->store_;
    uint64_t cutoff = draw_cutoff(s, seed);
    sim_kill(disk);
    for (size_t i = 0; i < s->inode_count; i++) {
        uint64_t state = seed + i * 0x632be59bd9b4e019u;
        if (s->inodes[i].kind == DBK_FILE_DIRECTORY) {
            dir_power_cut(s, (uint32_t)i, profile, cutoff, &state);
        } else {
            struct draw draw = {.state = sim_draw(&state), .cutoff = cutoff};
            inode_power_cut(&s->inodes[i], profile, draw);
        }
    }
    s->cache.count = 0;
    for (size_t i = 0; i < s->medium.count; i++) {
        const struct name *n = &s->medium.list[i];
        names_add(&s->cache, n->dir, n->text, n->inode);
    }
    forget_nameless(s);
}

void sim_drop_caches(struct sim_disk *disk)
{
    for (size_t i = 0; i < disk->store_->inode_count; i++) {
        inode_drop_cache(&disk->store_->inodes[i]);
    }
}

void sim_inject(struct sim_disk *disk, struct sim_injection injection)
{
    struct sim_store *s = disk->store_;
    if (s->injection_count == INJECTIONS_MAX) {
        wrong("trouble", "too much of it");
    }
    s->injections[s->injection_count++] = injection;
}

void sim_calm(struct sim_disk *disk)
{
    disk->store_->injection_count = 0;
}

/* ---- rot ----------------------------------------------------------------------------------------- */

static uint8_t *medium_place(struct sim_disk *disk, const char *path, uint64_t offset, size_t len)
{
    uint32_t inode = ROOT;
    if (path_find(disk->store_, &disk->store_->medium, path, &inode) != 0) {
        wrong("no such file on the medium", path);
    }
    struct image *image = &disk->store_->inodes[inode].medium;
    if (offset > image->size || len > image->size - offset) {
        wrong("place behind the end of the file", path);
    }
    return image->bytes + offset;
}

void sim_flip_bit(struct sim_disk *disk, const char *path, uint64_t offset, unsigned bit)
{
    uint8_t *p = medium_place(disk, path, offset, 1);
    *p = (uint8_t)(*p ^ (1u << (bit % 8)));
}

void sim_zero_sector(struct sim_disk *disk, const char *path, uint64_t sector)
{
    memset(medium_place(disk, path, sector * SIM_SECTOR_BYTES, SIM_SECTOR_BYTES), 0,
           SIM_SECTOR_BYTES);
}

void sim_copy_sector(struct sim_disk *disk, const char *path, uint64_t to, uint64_t from)
{
    memmove(medium_place(disk, path, to * SIM_SECTOR_BYTES, SIM_SECTOR_BYTES),
            medium_place(disk, path, from * SIM_SECTOR_BYTES, SIM_SECTOR_BYTES), SIM_SECTOR_BYTES);
}

/* ---- beside the engine --------------------------------------------------------------------------- */

static const struct names *side_names(const struct sim_store *s, enum sim_side side)
{
    return side == SIM_CACHE ? &s->cache : &s->medium;
}

static const struct image *side_image(const struct inode *n, enum sim_side side)
{
    return side == SIM_CACHE ? &n->cache : &n->medium;
}

const uint8_t *sim_bytes(const struct sim_disk *disk, enum sim_side side, const char *path,
                         uint64_t *ret_size)
{
    static const uint8_t nothing[1];
    const struct sim_store *s = disk->store_;
    uint32_t inode = ROOT;
    if (path_find(s, side_names(s, side), path, &inode) != 0) {
        return NULL;
    }
    const struct image *image = side_image(&s->inodes[inode], side);
    *ret_size = image->size;
    return image->size == 0 ? nothing : image->bytes;
}

/* The directory that a file beside the engine is in, all that was done there made durable. */
static uint32_t settled_parent(struct sim_store *s, const char *path,
                               char text[static NAME_BYTES_MAX])
{
    uint32_t dir = ROOT;
    if (path_parent(s, &s->cache, path, &dir, text) != 0) {
        wrong("no such directory", path);
    }
    dir_sync(s, dir);
    return dir;
}

void sim_put_file(struct sim_disk *disk, const char *path, const void *bytes, size_t len)
{
    struct sim_store *s = disk->store_;
    char text[NAME_BYTES_MAX];
    uint32_t dir = settled_parent(s, path, text);
    const struct name *old = names_find(&s->cache, dir, text);
    uint32_t inode = old != NULL ? old->inode : inode_new(s, DBK_FILE_REGULAR);
    if (old == NULL) {
        name_change(s, NAME_ADDED, dir, inode, "", text);
        dir_sync(s, dir);
    }
    struct inode *n = &s->inodes[inode];
    unsynced_clear(n);
    image_resize(&n->medium, 0);
    image_resize(&n->medium, len);
    image_put(&n->medium, 0, bytes, len);
    image_assign(&n->cache, &n->medium);
    n->allocated_bytes = dbk_round_up(len, BLOCK_BYTES);
}

void sim_remove_file(struct sim_disk *disk, const char *path)
{
    struct sim_store *s = disk->store_;
    char text[NAME_BYTES_MAX];
    uint32_t dir = settled_parent(s, path, text);
    const struct name *n = names_find(&s->cache, dir, text);
    if (n == NULL) {
        wrong("no such file", path);
    }
    uint32_t inode = n->inode;
    blocks_free(s, inode);
    name_change(s, NAME_REMOVED, dir, inode, text, "");
    dir_sync(s, dir);
}

static const struct name *name_of_dir(const struct names *names, uint32_t inode)
{
    for (size_t i = 0; i < names->count; i++) {
        if (names->list[i].inode == inode) {
            return &names->list[i];
        }
    }
    return NULL;
}

/* The whole path of a name; false when a directory above it has none (it was lost). */
static bool whole_path(const struct names *names, const struct name *name,
                       char path[static PATH_BYTES_MAX])
{
    char longer[PATH_BYTES_MAX + NAME_BYTES_MAX + 2];
    snprintf(path, PATH_BYTES_MAX, "/%s", name->text);
    while (name->dir != ROOT) {
        name = name_of_dir(names, name->dir);
        if (name == NULL) {
            return false;
        }
        snprintf(longer, sizeof longer, "/%s%s", name->text, path);
        if (strlen(longer) >= PATH_BYTES_MAX) {
            wrong("path too long", longer);
        }
        memcpy(path, longer, strlen(longer) + 1);
    }
    return true;
}

void sim_each(const struct sim_disk *disk, enum sim_side side,
              void (*visit)(void *user, const char *path, enum dbk_file_kind kind), void *user)
{
    const struct names *names = side_names(disk->store_, side);
    char path[PATH_BYTES_MAX];
    for (size_t i = 0; i < names->count; i++) {
        if (whole_path(names, &names->list[i], path)) {
            visit(user, path, disk->store_->inodes[names->list[i].inode].kind);
        }
    }
}

/* Whether everything on `a` is on `b` with the same bytes. */
static bool lacks(const struct sim_disk *a, const struct sim_disk *b, enum sim_side side,
                  char *ret_where, size_t size)
{
    const struct names *names = side_names(a->store_, side);
    char path[PATH_BYTES_MAX];
    for (size_t i = 0; i < names->count; i++) {
        if (!whole_path(names, &names->list[i], path)) {
            continue;
        }
        uint32_t other = ROOT;
        if (path_find(b->store_, side_names(b->store_, side), path, &other) != 0) {
            snprintf(ret_where, size, "%s is on one only", path);
            return true;
        }
        const struct image *x = side_image(&a->store_->inodes[names->list[i].inode], side);
        const struct image *y = side_image(&b->store_->inodes[other], side);
        if (x->size != y->size) {
            snprintf(ret_where, size, "%s has %" PRIu64 " and %" PRIu64 " bytes", path, x->size,
                     y->size);
            return true;
        }
        uint64_t k = 0;
        if (x->size > 0 && memcmp(x->bytes, y->bytes, x->size) != 0) {
            while (x->bytes[k] == y->bytes[k]) {
                k++;
            }
            snprintf(ret_where, size, "%s differs at %" PRIu64, path, k);
            return true;
        }
    }
    return false;
}

bool sim_differs(const struct sim_disk *a, const struct sim_disk *b, enum sim_side side,
                 char *ret_where, size_t size)
{
    return lacks(a, b, side, ret_where, size) || lacks(b, a, side, ret_where, size);
}
