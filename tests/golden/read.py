#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints every retained event of a stopped journal as `daybook export --data DIR` does.

Written from docs/FORMAT.md and sharing nothing with the engine: if the two differ, the page or one of them is
wrong. usage: read.py DIR. Exit status 1: refused, or a record is damaged (the others are printed)."""
import datetime, json, os, re, struct, sys

BLOCK, SECTOR, GROUP_MAX = 4096, 512, 1 << 20
END_MARK = bytes.fromhex("e7656e64e7656e64")
LINK_FLAG, CLEAN_FLAG = 4, 32
EVENT, CLAIM, SETTLE, QUARANTINE, ADMIN, FORGET, RELOCATE, STATE, TRIM, LINK = range(1, 11)
ACK = 1
REGISTER, RELEASE, DISCARD, RETIRE, REWIND = range(1, 6)
UNSET = -(1 << 63)

class Refused(Exception):
    pass

# ---- CRC32C ---------------------------------------------------------------------------------------------
TABLE = list(range(256))
for _ in range(8):
    TABLE = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in TABLE]

def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
assert crc32c(b"123456789") == 0xE3069283

def seeded(salt, lsn, data):
    return crc32c(data, crc32c(struct.pack("<QQ", salt, lsn)))

def up(n, unit):
    return (n + unit - 1) // unit * unit

# ---- files ----------------------------------------------------------------------------------------------
def read_file(directory, name, magic, length, features):
    """A file that a header of so many bytes begins, which holds."""
    with open(os.path.join(directory, name), "rb") as file:
        data = file.read()
    head = data[:length]
    if len(head) < length or head[:8] != magic or crc32c(head[:-4]) != struct.unpack("<I", head[-4:])[0]:
        raise Refused(f"{name} is damaged")
    if struct.unpack_from("<H", head, 8)[0] > 1 or struct.unpack_from("<Q", head, features)[0]:
        raise Refused(f"{name} is of a newer format")
    return data

class Segment:
    def __init__(self, directory, name, uuid):
        self.data = read_file(directory, name, b"DAYBOOKS", BLOCK, 64)
        length, block, zero, owner, self.number, self.size, self.salt = struct.unpack_from("<12xIII16sQQQ", self.data)
        if (length, block, zero, owner, self.number) != (BLOCK, BLOCK, 0, uuid, int(name[4:20], 16)):
            raise Refused(f"{name} is of another journal")
        if len(self.data) > self.size:
            raise Refused(f"{name} is longer than its size")
        self.link = None
        first = self.group(BLOCK)
        if first and first.sound and first.flags & LINK_FLAG and first.frames and first.frames[0].kind == LINK:
            names = ("predecessor", "skipped", "end", "hcrc", "number", "events", "frames", "aside")
            self.link = dict(zip(names, struct.unpack_from("<IIIIQQQQ", first.frames[0].body)))

    def group(self, offset):
        """The group whose header holds at this place, else None."""
        head = self.data[offset:offset + 64]
        if len(head) < 64:
            return None
        group = Group(head)
        fits = group.body_len >= 8 and group.body_len % 8 == 0 and 64 + group.body_len <= GROUP_MAX
        if (group.magic != 0x47424459 or group.head_len != 64 or group.lsn != self.number << 32 | offset
                or group.hcrc != seeded(self.salt, group.lsn, head[4:]) or not fits):
            return None
        group.read_body(self, offset)
        return group

class Frame:
    def __init__(self, head, lsn):
        _, self.length, self.bcrc, self.kind, self.flags, self.count, self.position = struct.unpack("<IIIBBHQ", head)
        self.lsn, self.body, self.records_sound = lsn, b"", True

    def entries(self):
        """Of an EVENT, or of one that was relocated: position, (names, observed, accepted, record or None)."""
        at, count = 0, self.count if self.kind == EVENT else 0
        if self.kind == RELOCATE and self.body[0] == EVENT:
            at, count = 8, struct.unpack_from("<H", self.body, 2)[0]
        for i in range(count):
            lengths = self.body[at + 2:at + 5]
            observed, accepted, length, record_crc = struct.unpack_from("<qqII", self.body, at + 8)
            names, begin = [], at + 40
            for n in lengths:
                names.append(self.body[begin:begin + n].decode())
                begin += n
            at += up(40 + sum(lengths), 8)
            record = self.body[at:at + length]
            yield self.position + i, (names, observed, accepted, record if crc32c(record) == record_crc else None)
            at += up(length, 8)

class Group:
    def __init__(self, head):
        (self.hcrc, self.magic, self.lsn, self.number, self.durable, self.body_len, self.frame_count, self.frames_crc,
         self.prev, _, self.epoch, self.flags, self.head_len) = struct.unpack("<IIQQQIIIIQIHH", head)
        self.frames, self.sound, self.records_sound, self.used, self.padded = [], False, True, 0, 0

    def read_body(self, segment, offset):
        """`sound`: everything behind the header is what was written, but for records perhaps."""
        self.used = 64 + self.body_len
        self.padded = up(self.used, BLOCK)
        whole = segment.data[offset:offset + self.padded]
        if len(whole) < self.padded or whole[self.used - 8:self.used] != END_MARK or any(whole[self.used:]):
            return
        at, end, heads = 64, self.used - 8, b""
        while at < end:
            head = whole[at:at + 24]
            if end - at < 24 or struct.unpack_from("<I", head)[0] != seeded(segment.salt, self.lsn + at, head[4:]):
                return
            frame = Frame(head, self.lsn + at)
            if frame.length % 8 or frame.length > end - at - 24:
                return
            frame.body = whole[at + 24:at + 24 + frame.length]
            if not body_holds(frame):
                return
            self.records_sound = self.records_sound and frame.records_sound
            self.frames.append(frame)
            heads += head
            at += 24 + frame.length
        self.sound = crc32c(heads) == self.frames_crc and len(self.frames) == self.frame_count

    def zero_sector(self, segment, offset):
        whole = segment.data[offset:offset + self.used]
        return any(not any(whole[at:at + SECTOR]) for at in range(SECTOR, self.used, SECTOR))

def body_holds(frame):
    """bcrc runs over the body; of events over their meta parts alone."""
    body, prefix, count = frame.body, 0, frame.count
    if frame.kind == RELOCATE and body[:1] == b"\1":
        prefix, count = 8, struct.unpack_from("<H", body, 2)[0]
    elif frame.kind != EVENT:
        return crc32c(body) == frame.bcrc
    at, crc = prefix, crc32c(body[:prefix])
    for _ in range(count):
        if len(body) - at < 40:
            return False
        meta = up(40 + sum(body[at + 2:at + 5]), 8)
        length, record_crc = struct.unpack_from("<II", body, at + 24)
        whole = up(meta + length, 8)
        crc = crc32c(body[at:at + meta], crc)
        record = body[at + meta:at + meta + length]
        if crc32c(record) != record_crc or any(body[at + meta + length:at + whole]):
            frame.records_sound = False
        at += whole
    return at == len(body) and crc == frame.bcrc

class Checkpoint:
    """Its sections by kind, in order: (subject, entries)."""
    def __init__(self, directory, name, uuid):
        data = read_file(directory, name, b"DAYBOOKC", 128, 56)
        self.sections, at = {}, 128
        owner, self.lsn, size, count = struct.unpack_from("<16x16sQQI", data)
        if (owner, self.lsn, size) != (uuid, int(name[5:21], 16), len(data)):
            raise Refused(f"{name} is cut off, or of another journal")
        for number in range(count):
            head = data[at:at + 32].ljust(32, b"\0")
            hcrc, kind, _, subject, unit, length, crc, place = struct.unpack("<IHHIIQII", head)
            body = data[at + 32:at + 32 + length]
            if (hcrc, crc, place) != (crc32c(head[4:], crc32c(struct.pack("<Q", self.lsn))), crc32c(body), number):
                raise Refused(f"section {number} of {name} is damaged")
            self.sections.setdefault(kind, []).append((subject, [body[i:i + unit] for i in range(0, length, unit)]))
            at += 32 + length

# ---- where the log ends ---------------------------------------------------------------------------------
class Log:
    """The groups of the log in order, by the section "Where the log ends"."""
    def __init__(self, directory):
        uuid = read_file(directory, "FORMAT", b"DAYBOOKF", 128, 40)[16:32]
        names = sorted(os.listdir(directory))
        self.segments = [Segment(directory, n, uuid) for n in names if re.fullmatch(r"seg-[0-9a-f]{16}\.dbl", n)]
        self.groups, self.last, self.checkpoints = [], None, []
        for name in (n for n in reversed(names) if re.fullmatch(r"ckpt-[0-9a-f]{16}\.dbc", n)):
            try:
                self.checkpoints.append(Checkpoint(directory, name, uuid))
            except Refused as reason:
                print(f"read.py: {reason}", file=sys.stderr)  # the older one, or the whole log
        self.durable = self.checkpoints[0].lsn if self.checkpoints else 0
        self.walk()

    def successor(self, index):
        number = self.segments[index].number
        return next((s for s in self.segments[index + 1:] if s.link and s.link["predecessor"] == number), None)

    def walk(self):
        index = next((i for i, s in enumerate(self.segments) if s.link), len(self.segments))
        kind, end = "zeros", (0, 0)
        self.root = self.segments[index] if index < len(self.segments) else None
        while index < len(self.segments):
            segment, following = self.segments[index], self.successor(index)
            kind, offset = self.walk_segment(segment, following)
            end = (segment.number, offset)
            if following is None:
                break
            link = following.link
            if offset != link["end"] or (self.last.number, self.last.hcrc) != (link["number"], link["hcrc"]):
                raise Refused(f"segment {segment.number} is damaged at offset {offset}, below what was durable")
            index = self.segments.index(following)
        self.judge(index, kind, end)

    def walk_segment(self, segment, following):
        offset, limit = BLOCK, following.link["end"] if following else len(segment.data)
        while offset < limit:
            kind, group = self.look(segment, offset)
            if kind == "group" and not group.records_sound and not following and not self.proven(
                    segment, offset + group.padded, group.lsn):
                kind = "torn" if group.zero_sector(segment, offset) else "odd"
            if kind != "group":
                return kind, offset
            self.groups.append(group)
            self.last, self.durable = group, max(self.durable, group.durable)
            offset += group.padded
        return "zeros" if offset >= len(segment.data) else "group", offset

    def look(self, segment, offset):
        block = segment.data[offset:offset + BLOCK]
        if not any(block[:SECTOR]):
            return ("torn" if any(block) else "zeros"), None
        group = segment.group(offset)
        if group is None or offset + group.padded > len(segment.data):
            return "odd", None
        if not group.sound:
            return ("torn" if group.zero_sector(segment, offset) else "odd"), None
        last = self.last or Group(bytes(64))
        follows = (group.number, group.prev) == (last.number + 1, last.hcrc) and group.epoch >= last.epoch
        return ("group" if follows or not self.last else "odd"), group

    def proofs(self, segment, offset):
        """What valid group headers behind a place prove, and where the last byte stands that is not zero."""
        proof, used = 0, offset
        for at in range(offset, len(segment.data), BLOCK):
            if any(segment.data[at:at + BLOCK]):
                used = at + BLOCK
                group = segment.group(at)
                proof = max(proof, group.durable if group else 0)
        return proof, used

    def proven(self, segment, offset, lsn):
        later = [s for s in self.segments if s.number > segment.number]
        proofs = [self.proofs(segment, offset)[0]] + [self.proofs(s, BLOCK)[0] for s in later]
        return max(proofs + [c.lsn for c in self.checkpoints]) > lsn

    def judge(self, index, kind, end):
        proof, zeros, expected = self.durable, True, end[0] + 1
        if index < len(self.segments):
            behind, used = self.proofs(self.segments[index], end[1])
            proof, zeros = max(proof, behind), used <= end[1]
        for segment in self.segments[index + 1 if index < len(self.segments) else 0:]:
            behind, used = self.proofs(segment, BLOCK)
            link = segment.link["predecessor"] << 32 | segment.link["end"] if segment.link else 0
            proof = max(proof, behind, link)
            if zeros and used > BLOCK:
                zeros, kind = False, self.look(segment, BLOCK)[0]
                kind = {"zeros": "torn", "group": "odd"}.get(kind, kind)
            if segment.number > end[0]:
                if segment.number != expected:
                    raise Refused(f"segment {expected} is missing behind the end of the log")
                expected += 1
        if proof > (end[0] << 32 | end[1]):
            raise Refused(f"segment {end[0]} is damaged at offset {end[1]}, below what was durable")
        if not zeros and kind == "odd":
            raise Refused(f"the end of the log, segment {end[0]} offset {end[1]}, is not what a crash leaves")

# ---- what is stored -------------------------------------------------------------------------------------
class Consumer:
    def __init__(self, start, time):
        self.start, self.time = (None if time != UNSET else start), time
        self.acked, self.discarded = set(), set()

    def resolved(self, position):
        return self.start is None or position < self.start or position in self.acked | self.discarded

class Journal:
    def __init__(self):
        self.stored, self.consumers, self.newest, self.has_state, self.lowest, self.trim_flags = {}, {}, 0, False, 1, 0

    def replay(self, groups, checkpoint):
        frames = [frame for group in groups for frame in group.frames]
        begin = checkpoint.lsn if checkpoint else 0
        if checkpoint:
            self.load(checkpoint.sections, dict(e for f in frames if f.lsn < begin for e in f.entries()))
        for frame in (f for f in frames if f.lsn >= begin):
            self.frame(frame)
        if None in self.stored.values() or (self.trim_flags & 1 and not checkpoint):
            raise Refused("a checkpoint is lost, or an event that it calls stored")

    def load(self, sections, places):
        """What the frames below a checkpoint have made; the events stand in the segments."""
        journal, chunks, self.has_state = sections[1][0][1][0], sections[4][0][1], True
        self.newest, self.lowest, self.trim_flags = struct.unpack_from("<16xQ72xQ8xI", journal)

        def positions(entries, at):
            for chunk, entry in zip(chunks, entries):
                first, bits = struct.unpack_from("<Q", chunk)[0], struct.unpack_from("<Q", entry, at)[0]
                yield from (first + i for i in range(64) if bits >> i & 1)
        self.stored = {p: places.get(p) for p in positions(chunks, 8)}
        for entry in sections[3][0][1]:
            self.consumer(entry)
        for number, entries in sections.get(5, []):
            consumer = self.consumers[number]
            consumer.acked, consumer.discarded = set(positions(entries, 0)), set(positions(entries, 8))

    def consumer(self, entry):
        number, _, start, time = struct.unpack_from("<IIQq", entry)
        self.consumers[number] = Consumer(start, time)

    def frame(self, frame):
        body = frame.body
        if frame.kind in (EVENT, RELOCATE):
            self.events(frame)
        elif frame.kind == SETTLE and struct.unpack_from("<I", body, 4)[0] == ACK:
            acked = {struct.unpack_from("<Q", body, 24 + 24 * i)[0] for i in range(frame.count)}
            consumer = self.consumers.get(struct.unpack_from("<I", body)[0], Consumer(0, UNSET))
            consumer.acked |= acked & self.stored.keys()
            self.forget_ended()
        elif frame.kind == ADMIN:
            self.admin(body)
        elif frame.kind == FORGET:
            for i in range(struct.unpack_from("<I", body, 4)[0]):
                first, end = struct.unpack_from("<QQ", body, 56 + 16 * i)
                self.stored = {p: e for p, e in self.stored.items() if not first <= p < end}
        elif frame.kind == STATE and not self.has_state:
            self.has_state = not frame.flags & 2
            for i in range(struct.unpack_from("<I", body, 68)[0]):
                self.consumer(body[96 + 96 * i:])
        elif frame.kind == TRIM:
            self.lowest, self.trim_flags = struct.unpack_from("<QI", body)

    def events(self, frame):
        for position, entry in frame.entries():
            if frame.kind == RELOCATE:
                self.stored.update({position: entry} if position in self.stored else {})
            elif position > self.newest:
                self.newest, self.stored[position] = position, entry
                for consumer in self.consumers.values():
                    if consumer.start is None and entry[2] >= consumer.time:
                        consumer.start = position

    def admin(self, body):
        op, number, _, count = struct.unpack_from("<IIqI", body)
        consumer = self.consumers.get(number)
        positions = struct.unpack_from(f"<{count}Q", body, 96) if op in (RELEASE, DISCARD) else ()
        if op == REGISTER and consumer is None:
            self.consumers[number] = Consumer(*struct.unpack_from("<Qq", body, 96))
        elif op == DISCARD and consumer:
            consumer.discarded |= self.stored.keys() & positions
        elif op == RETIRE:
            self.consumers.pop(number, None)
        elif op == REWIND and consumer:
            consumer.acked.clear()
        if op in (DISCARD, RETIRE):
            self.forget_ended()

    def forget_ended(self):
        """What somebody discarded and everybody has resolved is forgotten; no FORGET names it."""
        everybody = self.consumers.values()
        for position in self.stored.keys() & set().union(*(c.discarded for c in everybody)):
            if all(c.resolved(position) for c in everybody):
                del self.stored[position]

def time_text(us):
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

def stored(log):
    """From the newest checkpoint that can be used; without one from the first STATE on."""
    for checkpoint in log.checkpoints[:2] + [None]:
        journal = Journal()
        try:
            journal.replay(log.groups, checkpoint)
            break
        except Refused:
            if checkpoint is None:
                raise
    if log.root and log.root.link["predecessor"] and log.root.number > journal.lowest:
        raise Refused(f"segments below {log.root.number} are missing")
    return journal.stored

def main():
    try:
        events = stored(Log(sys.argv[1]))
    except Refused as reason:
        print(f"read.py: {sys.argv[1]}: {reason}", file=sys.stderr)
        return 1
    for position, (names, observed, accepted, record) in sorted(events.items()):
        if record is None:
            continue
        line = f'{{"position":{position}'
        for name, value in zip(("request_id", "namespace", "subject"), names):
            line += f',"{name}":{json.dumps(value, ensure_ascii=False)}'
        line += f',"observed_at":"{time_text(observed)}","accepted_at":"{time_text(accepted)}","record":'
        sys.stdout.buffer.write(line.encode() + record.replace(b"\n", b" ").replace(b"\r", b" ") + b"}\n")
    return 1 if any(entry[3] is None for entry in events.values()) else 0

sys.exit(main())
