-- SPDX-License-Identifier: Apache-2.0
-- Version 1 of the schema. `@` stands for the quoted name of the schema. Times are microseconds since the Unix epoch.
--
-- Lanes: because a key's events are resolved in order, what a consumer has done with a key is one row. An
-- event without a mark is acknowledged up to the lane's resolved_through and open behind it; a mark says
-- what that cannot say (handed out, quarantined, discarded, acknowledged ahead of the others).
--
-- Order of locks: consumer (the gate: ROW SHARE by everything, EXCLUSIVE by what changes consumers), key rows in
-- order of key_id, lane rows in order of key_id. Whether a lane has a head changes only under its key's lock, so an append
-- need not touch the lanes that have one; a verdict that empties a lane takes the key's lock behind the lane's, and
-- therefore locks no lane that has no head.

CREATE SEQUENCE @.position_seq;
CREATE SEQUENCE @.token_seq;

CREATE TABLE @.key (
    key_id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT key_pkey PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    CONSTRAINT key_name UNIQUE (namespace, subject)
);

CREATE TABLE @.event (
    pos bigint CONSTRAINT event_pkey PRIMARY KEY,
    key_id bigint NOT NULL,
    row_version integer NOT NULL,
    bytes integer NOT NULL,    -- of the names and the record
    checksum integer NOT NULL, -- CRC32C of the names and the record
    damaged boolean NOT NULL DEFAULT false,
    observed_at bigint NOT NULL,
    accepted_at bigint NOT NULL,
    request_id text COLLATE "C" NOT NULL CONSTRAINT event_request_id UNIQUE,
    record text COLLATE "C" NOT NULL
);
CREATE INDEX event_key ON @.event (key_id, pos);
CREATE INDEX event_damaged ON @.event (pos) WHERE damaged;

CREATE TABLE @.consumer (
    id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT consumer_pkey PRIMARY KEY,
    name text COLLATE "C" NOT NULL CONSTRAINT consumer_name UNIQUE,
    start bigint NOT NULL, -- the first position that counts; the largest bigint: waits for start_at
    start_at bigint,
    token_floor bigint NOT NULL DEFAULT 0, -- hand-outs below are from before the last rewind
    registered_at bigint NOT NULL
);

CREATE TABLE @.lane (
    consumer_id integer NOT NULL,
    key_id bigint NOT NULL,
    head bigint,                     -- the oldest open event; null: there is none
    row_version integer NOT NULL,    -- of the head
    resolved_through bigint NOT NULL DEFAULT 0,
    handed_through bigint NOT NULL DEFAULT 0, -- at a rewind all up to here had been handed out
    lease_until bigint,              -- the latest end of a lease; null: no lease is live
    lease_granted bigint,
    CONSTRAINT lane_pkey PRIMARY KEY (consumer_id, key_id)
) WITH (fillfactor = 70);
CREATE INDEX lane_claimable ON @.lane (consumer_id, row_version, head) WHERE lease_until IS NULL AND head IS NOT NULL;
CREATE INDEX lane_leased ON @.lane (consumer_id, lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE @.mark (
    consumer_id integer NOT NULL,
    pos bigint NOT NULL,
    key_id bigint NOT NULL,
    resolution integer NOT NULL, -- 0 open, 1 acknowledged, 2 discarded, 3 quarantined, 4 the event was dropped under its lease
    handed boolean NOT NULL,
    refunded boolean NOT NULL,
    attempt integer NOT NULL,
    hand_outs integer NOT NULL,
    token bigint NOT NULL,
    survivor bigint NOT NULL,    -- token whose lease was live at the last rewind; 0: none
    lease_granted bigint,        -- null: no lease
    lease_expires bigint,
    reason integer NOT NULL DEFAULT 0,
    attempts_then integer NOT NULL DEFAULT 0,
    quarantined_at bigint NOT NULL DEFAULT 0,
    words bytea,
    CONSTRAINT mark_pkey PRIMARY KEY (pos, consumer_id)
) WITH (fillfactor = 90);
CREATE INDEX mark_leased ON @.mark (consumer_id, key_id) WHERE lease_expires IS NOT NULL;
CREATE INDEX mark_ahead ON @.mark (consumer_id, key_id) WHERE resolution = 1;
CREATE INDEX mark_quarantined ON @.mark (pos) WHERE resolution = 3;
CREATE INDEX mark_set_aside ON @.mark (consumer_id, pos) WHERE resolution = 3;
CREATE INDEX mark_dropped ON @.mark (consumer_id) WHERE resolution = 4;

-- What every consumer has resolved, and what it had resolved before somebody rewound.
CREATE TABLE @.delivered (
    pos bigint CONSTRAINT delivered_pkey PRIMARY KEY,
    accepted_at bigint NOT NULL
);
CREATE TABLE @.rewound (
    pos bigint CONSTRAINT rewound_pkey PRIMARY KEY
);

-- Counters in as many rows as connections may commit at once; the sums count.
CREATE TABLE @.counter (
    slot integer CONSTRAINT counter_pkey PRIMARY KEY,
    accepted bigint NOT NULL DEFAULT 0,
    stored bigint NOT NULL DEFAULT 0,
    stored_bytes bigint NOT NULL DEFAULT 0,
    pruned bigint NOT NULL DEFAULT 0,
    reclaimed bigint NOT NULL DEFAULT 0,
    dropped bigint NOT NULL DEFAULT 0,
    discarded bigint NOT NULL DEFAULT 0,
    newest_accepted_at bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 30);
INSERT INTO @.counter (slot) SELECT pg_catalog.generate_series(0, 31);

CREATE TABLE @.operation (
    no bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT operation_pkey PRIMARY KEY,
    kind integer NOT NULL,
    at bigint NOT NULL,
    pos bigint NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    who bytea NOT NULL,
    why bytea NOT NULL
);

CREATE TABLE @.schema_version (
    one boolean CONSTRAINT schema_version_pkey PRIMARY KEY DEFAULT true CONSTRAINT schema_version_one CHECK (one),
    version integer NOT NULL,
    changed_at timestamptz NOT NULL
);
INSERT INTO @.schema_version (version, changed_at) VALUES (1, pg_catalog.now());

-- ---- small things -------------------------------------------------------------------------------------

CREATE FUNCTION @.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $fn$
    SELECT coalesce(p_now, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint)
$fn$;

-- The low 32 bits as what an advisory lock takes.
CREATE FUNCTION @.low32_1(p_value bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $fn$
    SELECT (((p_value & 4294967295) # 2147483648) - 2147483648)::integer
$fn$;

-- C5. A lease that was granted more than a minute ahead of now is none.
CREATE FUNCTION @.live_1(p_granted bigint, p_expires bigint, p_now bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $fn$
    SELECT coalesce(p_expires > p_now AND p_granted <= p_now + 60000000, false)
$fn$;

CREATE FUNCTION @.next_position_1() RETURNS bigint LANGUAGE sql VOLATILE AS $fn$
    SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM @.position_seq
$fn$;

-- ---- giving up (section 4) ----------------------------------------------------------------------------

-- Forgets events that every consumer has resolved: no lane stands at them. p_kind: 0 pruned, 1 reclaimed,
-- 2 dropped, 3 discarded. Returns how many were there.
CREATE FUNCTION @.forget_1(p_slot integer, p_pos bigint[], p_kind integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_consumers integer[];
    v_gone bigint;
    v_bytes bigint;
    v_discarded bigint;
BEGIN
    SELECT coalesce(array_agg(id), '{}') INTO v_consumers FROM @.consumer;
    WITH gone AS (DELETE FROM @.event e WHERE e.pos = ANY (p_pos) RETURNING e.pos, e.bytes),
         marks AS (DELETE FROM @.mark m WHERE m.consumer_id = ANY (v_consumers) AND m.pos = ANY (p_pos) AND m.resolution <> 4
                   RETURNING m.pos, m.resolution),
         d AS (DELETE FROM @.delivered d WHERE d.pos = ANY (p_pos)),
         r AS (DELETE FROM @.rewound r WHERE r.pos = ANY (p_pos))
    SELECT (SELECT count(*) FROM gone), (SELECT coalesce(sum(bytes), 0) FROM gone),
           (SELECT count(DISTINCT pos) FROM marks WHERE resolution = 2)
      INTO v_gone, v_bytes, v_discarded;
    IF v_gone > 0 THEN
        UPDATE @.counter SET stored = stored - v_gone, stored_bytes = stored_bytes - v_bytes,
               discarded = discarded + v_discarded + CASE WHEN p_kind = 3 THEN v_gone - v_discarded ELSE 0 END,
               pruned = pruned + CASE WHEN p_kind = 0 THEN v_gone - v_discarded ELSE 0 END,
               reclaimed = reclaimed + CASE WHEN p_kind = 1 THEN v_gone - v_discarded ELSE 0 END,
               dropped = dropped + CASE WHEN p_kind = 2 THEN v_gone - v_discarded ELSE 0 END
         WHERE slot = p_slot;
    END IF;
    RETURN v_gone;
END
$fn$;

-- The oldest open event of a lane, from p_from on.
CREATE FUNCTION @.open_from_1(p_consumer integer, p_key bigint, p_from bigint, p_resolved bigint,
                              OUT o_pos bigint, OUT o_version integer) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off AS $fn$
    SELECT e.pos, e.row_version
      FROM @.event e LEFT JOIN @.mark m ON m.consumer_id = p_consumer AND m.pos = e.pos
     WHERE e.key_id = p_key AND e.pos >= p_from
       AND CASE WHEN m.pos IS NULL THEN e.pos > p_resolved ELSE m.resolution = 0 END
     ORDER BY e.pos LIMIT 1
$fn$;

-- The same for events that are open to somebody: their lanes move on, and a live lease of a dropped one keeps its key
-- busy (P5).
CREATE FUNCTION @.forget_open_1(p_slot integer, p_now bigint, p_pos bigint[], p_kind integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_keys bigint[];
    v_consumers integer[];
    v_gone bigint;
BEGIN
    SELECT coalesce(array_agg(id), '{}') INTO v_consumers FROM @.consumer;
    SELECT coalesce(array_agg(DISTINCT e.key_id), '{}') INTO v_keys FROM @.event e WHERE e.pos = ANY (p_pos);
    PERFORM 1 FROM @.key k WHERE k.key_id = ANY (v_keys) ORDER BY k.key_id FOR UPDATE;
    PERFORM 1 FROM @.lane l WHERE l.consumer_id = ANY (v_consumers) AND l.key_id = ANY (v_keys)
      ORDER BY l.key_id, l.consumer_id FOR UPDATE;
    IF p_kind = 2 THEN
        UPDATE @.mark m SET resolution = 4 WHERE m.consumer_id = ANY (v_consumers) AND m.pos = ANY (p_pos)
           AND m.resolution = 0 AND @.live_1(m.lease_granted, m.lease_expires, p_now);
    END IF;
    v_gone := @.forget_1(p_slot, p_pos, p_kind);
    UPDATE @.lane l SET head = h.o_pos, row_version = coalesce(h.o_version, l.row_version)
      FROM unnest(v_keys) u(key_id) CROSS JOIN unnest(v_consumers) c(id)
      JOIN @.lane b ON b.consumer_id = c.id AND b.key_id = u.key_id
      LEFT JOIN LATERAL @.open_from_1(b.consumer_id, b.key_id, b.head, b.resolved_through) h ON true
     WHERE b.head IS NOT NULL AND l.consumer_id = b.consumer_id AND l.key_id = b.key_id;
    UPDATE @.lane l
       SET lease_until = (SELECT max(m.lease_expires) FROM @.mark m WHERE m.consumer_id = l.consumer_id
                             AND m.key_id = l.key_id AND m.lease_expires IS NOT NULL),
           lease_granted = (SELECT max(m.lease_granted) FROM @.mark m WHERE m.consumer_id = l.consumer_id
                               AND m.key_id = l.key_id AND m.lease_expires IS NOT NULL)
     WHERE l.consumer_id = ANY (v_consumers) AND l.key_id = ANY (v_keys);
    RETURN v_gone;
END
$fn$;

-- P3: what was accepted up to p_until and is delivered, lowest position first, at most p_max. Returns how many.
CREATE FUNCTION @.prune_1(p_slot integer, p_until bigint, p_max integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_first bigint;
    v_pos bigint[];
BEGIN
    LOCK TABLE @.consumer IN ROW SHARE MODE;
    SELECT d.accepted_at INTO v_first FROM @.delivered d ORDER BY d.pos LIMIT 1;
    IF v_first IS NULL OR v_first > p_until THEN
        RETURN 0;
    END IF;
    SELECT array_agg(q.pos) INTO v_pos
      FROM (SELECT d.pos, d.accepted_at FROM @.delivered d ORDER BY d.pos LIMIT p_max FOR UPDATE SKIP LOCKED) q
     WHERE q.accepted_at <= p_until;
    IF v_pos IS NULL THEN
        RETURN 0;
    END IF;
    RETURN @.forget_1(p_slot, v_pos, 0);
END
$fn$;

-- P4: the oldest delivered, at most p_max; what was rewound since counts too. Returns how many.
CREATE FUNCTION @.reclaim_1(p_slot integer, p_now bigint, p_max bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_pos bigint[];
    v_again bigint[];
    v_gone bigint := 0;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM @.consumer) THEN
        RETURN 0;
    END IF;
    IF EXISTS (SELECT 1 FROM @.rewound) THEN
        SELECT array_agg(q.pos) FILTER (WHERE q.delivered), array_agg(q.pos) FILTER (WHERE NOT q.delivered)
          INTO v_pos, v_again
          FROM (SELECT a.pos, a.delivered
                  FROM ((SELECT d.pos, true AS delivered FROM @.delivered d ORDER BY d.pos LIMIT p_max)
                        UNION ALL
                        (SELECT r.pos, false FROM @.rewound r
                          WHERE NOT EXISTS (SELECT 1 FROM @.mark m WHERE m.pos = r.pos AND m.resolution = 3)
                          ORDER BY r.pos LIMIT p_max)) a
                 ORDER BY a.pos LIMIT p_max) q;
    ELSE
        SELECT array_agg(q.pos) INTO v_pos
          FROM (SELECT d.pos FROM @.delivered d ORDER BY d.pos LIMIT p_max FOR UPDATE SKIP LOCKED) q;
    END IF;
    IF v_pos IS NOT NULL THEN
        v_gone := @.forget_1(p_slot, v_pos, 1);
    END IF;
    IF v_again IS NOT NULL THEN
        v_gone := v_gone + @.forget_open_1(p_slot, p_now, v_again, 1);
    END IF;
    RETURN v_gone;
END
$fn$;

-- P5: the p_max oldest that are not quarantined. Returns how many.
CREATE FUNCTION @.drop_1(p_slot integer, p_now bigint, p_max bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_pos bigint[];
BEGIN
    SELECT array_agg(q.pos) INTO v_pos
      FROM (SELECT e.pos FROM @.event e
             WHERE NOT EXISTS (SELECT 1 FROM @.mark m WHERE m.pos = e.pos AND m.resolution = 3)
             ORDER BY e.pos LIMIT p_max) q;
    IF v_pos IS NULL THEN
        RETURN 0;
    END IF;
    RETURN @.forget_open_1(p_slot, p_now, v_pos, 2);
END
$fn$;

-- ---- append ----------------------------------------------------------------------------------------------

-- One row an event that was looked at. o_code: 0 accepted, 1 stored already (with what is stored), 2 full (o_aux:
-- events stored), 3 nothing was done: again, 4 nothing was done: again while nobody else appends.
-- Room is made for at most p_room_max events a call. Where another one with other keys stores one of the ids at the same
-- time it fails with unique_violation: again.
--
-- A statement costs as much as the rows of ten events: there are few here, and each is about all of them.
CREATE FUNCTION @.append_1(
    p_now bigint, p_slot integer, p_limit bigint, p_others bigint, p_drop boolean, p_prune_until bigint, p_room_max bigint,
    p_version integer, p_ids text[], p_spaces text[], p_subjects text[], p_observed bigint[], p_records text[],
    p_bytes integer[], p_checksums integer[])
RETURNS TABLE (o_ord bigint, o_code integer, o_pos bigint, o_aux bigint, o_version integer, o_checksum integer,
               o_space text, o_subject text, o_record text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_now bigint := @.clock_1(p_now);
    v_new bigint[];
    v_keep bigint[]; -- places in the arrays of what is gone on with; null: all
    v_ord bigint[];  -- where each stood in the call; null: in its place
    v_keys bigint[];
    v_pos bigint[];
    v_stored bigint;
    v_newest bigint;
    v_need bigint;
    v_made bigint;
    v_fit bigint;
    v_consumers bigint;
    v_waiting bigint;
    v_prune boolean;
    v_start bigint;
    v_idle bigint;
    v_absent bigint;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    LOCK TABLE @.consumer IN ROW SHARE MODE;
    SELECT s.stored, s.newest, s.consumers, s.waiting, s.start INTO v_stored, v_newest, v_consumers, v_waiting, v_start
      FROM (SELECT sum(c.stored) AS stored, max(c.newest_accepted_at) AS newest, x.consumers, x.waiting, x.start
              FROM (SELECT count(*) AS consumers, count(y.start_at) AS waiting, min(y.start) AS start FROM @.consumer y) x
             CROSS JOIN @.counter c GROUP BY x.consumers, x.waiting, x.start) s;
    v_prune := p_prune_until IS NOT NULL AND (SELECT d.accepted_at FROM @.delivered d ORDER BY d.pos LIMIT 1) <= p_prune_until;
    IF v_prune OR v_stored + cardinality(p_ids) + p_others > p_limit THEN
        -- What is stored is answered before anything is given up (A3), and only what is new needs room.
        SELECT coalesce(array_agg(u.o ORDER BY u.o), '{}') INTO v_new
          FROM unnest(p_ids) WITH ORDINALITY u(id, o)
         WHERE NOT EXISTS (SELECT 1 FROM @.event e WHERE e.request_id = u.id);
        IF cardinality(v_new) < cardinality(p_ids) THEN
            RETURN QUERY
            SELECT u.o, 1, e.pos, 0::bigint, e.row_version, e.checksum, k.namespace::text, k.subject::text, e.record::text
              FROM unnest(p_ids) WITH ORDINALITY u(id, o)
              JOIN @.event e ON e.request_id = u.id JOIN @.key k ON k.key_id = e.key_id
             WHERE u.o <> ALL (v_new);
        END IF;
        IF cardinality(v_new) = 0 THEN
            RETURN;
        END IF;
        IF v_prune THEN
            v_stored := v_stored - @.prune_1(p_slot, p_prune_until, 64);
        END IF;
        v_need := v_stored + cardinality(v_new) - p_limit;
        IF v_need + p_others > 0 AND p_others > 0 THEN
            RETURN QUERY SELECT u.o, 4, 0::bigint, 0::bigint, 0, 0, NULL::text, NULL::text, NULL::text FROM unnest(v_new) u(o);
            RETURN;
        END IF;
        IF v_need > 0 THEN
            v_made := @.reclaim_1(p_slot, v_now, least(v_need, p_room_max));
            v_stored := v_stored - v_made;
            IF v_made = p_room_max AND v_need > v_made THEN
                RETURN QUERY SELECT u.o, 3, 0::bigint, 0::bigint, 0, 0, NULL::text, NULL::text, NULL::text FROM unnest(v_new) u(o);
                RETURN;
            END IF;
        END IF;
        v_fit := greatest(0, least(cardinality(v_new), p_limit - v_stored));
        IF v_fit < cardinality(v_new) AND p_drop THEN
            -- As many as it takes for as many as can be helped; for none where not even the first can be.
            v_made := v_stored - (SELECT count(DISTINCT m.pos) FROM @.mark m WHERE m.resolution = 3);
            v_fit := greatest(v_fit, least(cardinality(v_new), p_limit - v_stored + v_made));
            v_need := v_stored + v_fit - p_limit;
            IF v_fit > 0 AND v_need > 0 THEN
                v_made := @.drop_1(p_slot, v_now, least(v_need, p_room_max));
                v_stored := v_stored - v_made;
                IF v_made < v_need THEN
                    RETURN QUERY SELECT u.o, 3, 0::bigint, 0::bigint, 0, 0, NULL::text, NULL::text, NULL::text FROM unnest(v_new) u(o);
                    RETURN;
                END IF;
            END IF;
        END IF;
        IF v_fit < cardinality(v_new) THEN
            RETURN QUERY SELECT u.o, 2, 0::bigint, v_stored + v_fit, 0, 0, NULL::text, NULL::text, NULL::text
                           FROM unnest(v_new[v_fit + 1:]) u(o);
            IF v_fit = 0 THEN
                RETURN;
            END IF;
        END IF;
        v_keep := v_new[1:v_fit];
    END IF;

    LOOP
        IF cardinality(v_keep) < cardinality(p_ids) THEN
            SELECT array_agg(coalesce(v_ord[u.o], u.o) ORDER BY u.o), array_agg(u.id ORDER BY u.o), array_agg(u.space ORDER BY u.o),
                   array_agg(u.subject ORDER BY u.o), array_agg(u.observed ORDER BY u.o), array_agg(u.record ORDER BY u.o),
                   array_agg(u.bytes ORDER BY u.o), array_agg(u.checksum ORDER BY u.o)
              INTO v_ord, p_ids, p_spaces, p_subjects, p_observed, p_records, p_bytes, p_checksums
              FROM unnest(p_ids, p_spaces, p_subjects, p_observed, p_records, p_bytes, p_checksums)
                   WITH ORDINALITY u(id, space, subject, observed, record, bytes, checksum, o)
             WHERE u.o = ANY (v_keep);
        END IF;
        v_keep := NULL;
        -- The keys: made where they are missing, before any is locked, so that nobody waits in a circle; then locked in
        -- order. One that was swept away meanwhile is made again.
        SELECT array_agg(coalesce(k.key_id, 0) ORDER BY u.o), count(DISTINCT k.key_id) INTO v_keys, v_need
          FROM unnest(p_spaces, p_subjects) WITH ORDINALITY u(s, b, o)
          LEFT JOIN @.key k ON k.namespace = u.s AND k.subject = u.b;
        IF 0 = ANY (v_keys) THEN
            INSERT INTO @.key (namespace, subject)
            SELECT DISTINCT u.s, u.b FROM unnest(p_spaces, p_subjects, v_keys) u(s, b, key_id) WHERE u.key_id = 0
             ORDER BY 1, 2
            ON CONFLICT DO NOTHING;
            CONTINUE;
        END IF;
        CONTINUE WHEN v_need > (SELECT count(*) FROM (SELECT 1 FROM @.key k WHERE k.key_id = ANY (v_keys)
                                                       ORDER BY k.key_id FOR UPDATE) q);
        EXIT WHEN NOT EXISTS (SELECT 1 FROM unnest(p_ids) u(id) JOIN @.event e ON e.request_id = u.id);
        RETURN QUERY
        SELECT coalesce(v_ord[u.o], u.o), 1, e.pos, 0::bigint, e.row_version, e.checksum, k.namespace::text, k.subject::text,
               e.record::text
          FROM unnest(p_ids) WITH ORDINALITY u(id, o)
          JOIN @.event e ON e.request_id = u.id JOIN @.key k ON k.key_id = e.key_id;
        SELECT array_agg(u.o ORDER BY u.o) INTO v_keep FROM unnest(p_ids) WITH ORDINALITY u(id, o)
         WHERE NOT EXISTS (SELECT 1 FROM @.event e WHERE e.request_id = u.id);
        IF v_keep IS NULL THEN
            RETURN;
        END IF;
    END LOOP;

    -- Whoever lists stops at the positions that are drawn from here on, until this commits (C11).
    SELECT array_agg(nextval('@.position_seq')) INTO v_pos
      FROM (SELECT pg_advisory_xact_lock_shared(@.low32_1('@.event'::regclass::oid::bigint),
                                                @.low32_1(CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END))
              FROM @.position_seq s OFFSET 0) l
     CROSS JOIN generate_series(1, cardinality(p_ids)) u(o);
    v_now := greatest(v_now, v_newest);
    INSERT INTO @.event (pos, key_id, row_version, bytes, checksum, observed_at, accepted_at, request_id, record)
    SELECT u.pos, u.key_id, p_version, u.bytes, u.checksum, coalesce(u.observed, v_now), v_now, u.id, u.record
      FROM unnest(v_pos, v_keys, p_bytes, p_checksums, p_observed, p_ids, p_records)
           u(pos, key_id, bytes, checksum, observed, id, record);

    IF v_waiting > 0 THEN
        UPDATE @.consumer c SET start = v_pos[1], start_at = NULL WHERE c.start_at <= v_now;
        SELECT min(c.start) INTO v_start FROM @.consumer c;
    END IF;
    IF v_consumers > 0 THEN
        SELECT count(*) FILTER (WHERE l.key_id IS NOT NULL), count(*) FILTER (WHERE l.key_id IS NULL) INTO v_idle, v_absent
          FROM unnest(v_keys) u(key_id) CROSS JOIN @.consumer c
          LEFT JOIN @.lane l ON l.consumer_id = c.id AND l.key_id = u.key_id
         WHERE l.head IS NULL;
    END IF;
    IF v_idle > 0 THEN
        UPDATE @.lane l SET head = f.pos, row_version = p_version
          FROM (SELECT c.id, u.key_id, min(u.pos) AS pos
                  FROM unnest(v_pos, v_keys) u(pos, key_id) JOIN @.consumer c ON u.pos >= c.start GROUP BY 1, 2) f
         WHERE l.consumer_id = f.id AND l.key_id = f.key_id AND l.head IS NULL;
    END IF;
    IF v_absent > 0 THEN
        INSERT INTO @.lane (consumer_id, key_id, head, row_version)
        SELECT f.id, f.key_id, f.pos, p_version
          FROM (SELECT c.id, u.key_id, min(u.pos) AS pos
                  FROM unnest(v_pos, v_keys) u(pos, key_id) JOIN @.consumer c ON u.pos >= c.start GROUP BY 1, 2) f
         WHERE NOT EXISTS (SELECT 1 FROM @.lane l WHERE l.consumer_id = f.id AND l.key_id = f.key_id);
    END IF;
    IF v_start > v_pos[1] THEN
        INSERT INTO @.delivered (pos, accepted_at) SELECT u.pos, v_now FROM unnest(v_pos) u(pos) WHERE u.pos < v_start;
    END IF;
    UPDATE @.counter c
       SET accepted = c.accepted + cardinality(v_pos), stored = c.stored + cardinality(v_pos),
           stored_bytes = c.stored_bytes + (SELECT sum(u.bytes) FROM unnest(p_bytes) u(bytes)), newest_accepted_at = v_now
     WHERE c.slot = p_slot;
    RETURN QUERY SELECT coalesce(v_ord[u.o], u.o), 0, u.pos, 0::bigint, 0, 0, NULL::text, NULL::text, NULL::text
                   FROM unnest(v_pos) WITH ORDINALITY u(pos, o);
END
$fn$;

-- ---- consumers -------------------------------------------------------------------------------------------

-- C1. p_kind as in daybook_start_kind. Returns the id; 0: too many.
CREATE FUNCTION @.register_1(p_name text, p_kind integer, p_value bigint, p_now bigint, p_most integer)
RETURNS integer LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    v_id integer;
    v_start bigint;
    v_start_at bigint;
    v_count integer;
BEGIN
    LOCK TABLE @.consumer IN EXCLUSIVE MODE;
    SELECT c.id INTO v_id FROM @.consumer c WHERE c.name = p_name;
    IF FOUND THEN
        RETURN v_id;
    END IF;
    SELECT count(*) INTO v_count FROM @.consumer;
    IF v_count >= p_most THEN
        RETURN 0;
    END IF;
    v_start := CASE p_kind
        WHEN 0 THEN coalesce((SELECT min(e.pos) FROM @.event e), @.next_position_1())
        WHEN 1 THEN @.next_position_1()
        WHEN 2 THEN p_value
        ELSE (SELECT e.pos FROM @.event e WHERE e.accepted_at >= p_value ORDER BY e.pos LIMIT 1) END;
    IF v_start IS NULL THEN
        v_start := 9223372036854775807;
        v_start_at := p_value;
    END IF;
    INSERT INTO @.consumer (name, start, start_at, registered_at)
    VALUES (p_name, v_start, v_start_at, @.clock_1(p_now)) RETURNING id INTO v_id;
    INSERT INTO @.lane (consumer_id, key_id, head, row_version)
    SELECT v_id, f.key_id, f.pos, e.row_version
      FROM (SELECT x.key_id, min(x.pos) AS pos FROM @.event x WHERE x.pos >= v_start GROUP BY x.key_id) f
      JOIN @.event e ON e.pos = f.pos;
    DELETE FROM @.delivered d WHERE d.pos >= v_start;
    DELETE FROM @.rewound r WHERE r.pos >= v_start;
    IF v_count = 0 THEN -- with no consumer nothing was delivered (P2)
        INSERT INTO @.delivered (pos, accepted_at) SELECT e.pos, e.accepted_at FROM @.event e WHERE e.pos < v_start;
    END IF;
    RETURN v_id;
END
$fn$;

CREATE FUNCTION @.record_1(p_kind integer, p_now bigint, p_pos bigint, p_consumer text, p_request_id text, p_who bytea,
                           p_why bytea, p_most integer) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    v_no bigint;
BEGIN
    INSERT INTO @.operation (kind, at, pos, consumer, request_id, who, why)
    VALUES (p_kind, @.clock_1(p_now), p_pos, p_consumer, p_request_id, p_who, p_why) RETURNING no INTO v_no;
    DELETE FROM @.operation o WHERE o.no <= v_no - p_most;
END
$fn$;

-- An operator's registration. 0 done, 1 it is registered already, 2 too many are.
CREATE FUNCTION @.start_1(p_name text, p_kind integer, p_value bigint, p_now bigint, p_consumers_most integer, p_who bytea,
                          p_why bytea, p_most integer) RETURNS integer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
BEGIN
    LOCK TABLE @.consumer IN EXCLUSIVE MODE;
    IF EXISTS (SELECT 1 FROM @.consumer c WHERE c.name = p_name) THEN
        RETURN 1;
    END IF;
    IF @.register_1(p_name, p_kind, p_value, p_now, p_consumers_most) = 0 THEN
        RETURN 2;
    END IF;
    PERFORM @.record_1(1, p_now, 0, p_name, '', p_who, p_why, p_most);
    RETURN 0;
END
$fn$;

-- Only the entry in the trail (W6b). 0 done, 1 no such consumer.
CREATE FUNCTION @.note_lift_1(p_name text, p_now bigint, p_who bytea, p_why bytea, p_most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
BEGIN
    LOCK TABLE @.consumer IN ROW SHARE MODE;
    IF NOT EXISTS (SELECT 1 FROM @.consumer c WHERE c.name = p_name) THEN
        RETURN 1;
    END IF;
    PERFORM @.record_1(6, p_now, 0, p_name, '', p_who, p_why, p_most);
    RETURN 0;
END
$fn$;

-- 0 done, 1 no such consumer, 2 it holds live leases.
CREATE FUNCTION @.retire_1(p_name text, p_force boolean, p_now bigint, p_slot integer, p_who bytea, p_why bytea,
                           p_most integer) RETURNS integer LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    v_id integer;
    v_now bigint;
    v_ended bigint[];
BEGIN
    LOCK TABLE @.consumer IN EXCLUSIVE MODE;
    v_now := @.clock_1(p_now);
    SELECT c.id INTO v_id FROM @.consumer c WHERE c.name = p_name;
    IF NOT FOUND THEN
        RETURN 1;
    END IF;
    IF NOT p_force AND EXISTS (SELECT 1 FROM @.mark m WHERE m.consumer_id = v_id AND m.resolution IN (0, 4)
                                  AND @.live_1(m.lease_granted, m.lease_expires, v_now)) THEN
        RETURN 2;
    END IF;
    PERFORM @.record_1(4, v_now, 0, p_name, '', p_who, p_why, p_most);
    DELETE FROM @.consumer c WHERE c.id = v_id;
    DELETE FROM @.lane l WHERE l.consumer_id = v_id;
    DELETE FROM @.mark m WHERE m.consumer_id = v_id;
    IF NOT EXISTS (SELECT 1 FROM @.consumer) THEN
        DELETE FROM @.delivered;
        DELETE FROM @.rewound;
        RETURN 0;
    END IF;
    -- What only it had not resolved is delivered now.
    INSERT INTO @.delivered (pos, accepted_at)
    SELECT e.pos, e.accepted_at FROM @.event e
     WHERE NOT EXISTS (SELECT 1 FROM @.unresolved_1(e.pos, e.key_id))
    ON CONFLICT (pos) DO NOTHING;
    DELETE FROM @.rewound r WHERE EXISTS (SELECT 1 FROM @.delivered d WHERE d.pos = r.pos);
    SELECT array_agg(DISTINCT m.pos) INTO v_ended
      FROM @.mark m JOIN @.delivered d ON d.pos = m.pos WHERE m.resolution = 2;
    IF v_ended IS NOT NULL THEN
        PERFORM @.forget_1(p_slot, v_ended, 3);
    END IF;
    RETURN 0;
END
$fn$;

-- Acknowledged events are pending again, attempts begin anew. 0 done, 1 no such consumer.
CREATE FUNCTION @.rewind_1(p_name text, p_now bigint, p_who bytea, p_why bytea, p_most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    c record;
    v_now bigint;
BEGIN
    LOCK TABLE @.consumer IN EXCLUSIVE MODE;
    v_now := @.clock_1(p_now);
    SELECT id, start INTO c FROM @.consumer WHERE name = p_name;
    IF NOT FOUND THEN
        RETURN 1;
    END IF;
    PERFORM @.record_1(5, v_now, 0, p_name, '', p_who, p_why, p_most);
    UPDATE @.consumer SET token_floor = (SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM @.token_seq)
     WHERE id = c.id;
    UPDATE @.mark m
       SET survivor = CASE WHEN m.resolution = 0 AND @.live_1(m.lease_granted, m.lease_expires, v_now) THEN m.token ELSE 0 END,
           attempt = CASE WHEN m.resolution IN (0, 1) THEN 0 ELSE m.attempt END,
           hand_outs = CASE WHEN m.resolution = 1 THEN 0 ELSE m.hand_outs END,
           resolution = CASE WHEN m.resolution = 1 THEN 0 ELSE m.resolution END
     WHERE m.consumer_id = c.id AND m.resolution <> 4;
    UPDATE @.lane l SET handed_through = greatest(l.handed_through, l.resolved_through), resolved_through = 0
     WHERE l.consumer_id = c.id;
    UPDATE @.lane l SET head = h.o_pos, row_version = coalesce(h.o_version, l.row_version)
      FROM @.lane b LEFT JOIN LATERAL @.open_from_1(b.consumer_id, b.key_id, c.start, 0) h ON true
     WHERE b.consumer_id = c.id AND l.consumer_id = b.consumer_id AND l.key_id = b.key_id;
    INSERT INTO @.rewound (pos) SELECT d.pos FROM @.delivered d WHERE d.pos >= c.start ON CONFLICT DO NOTHING;
    DELETE FROM @.delivered d WHERE d.pos >= c.start;
    RETURN 0;
END
$fn$;

-- The consumers that have not acknowledged or discarded an event (P2).
CREATE FUNCTION @.unresolved_1(p_pos bigint, p_key bigint) RETURNS SETOF integer LANGUAGE sql STABLE AS $fn$
    SELECT c.id FROM @.consumer c
      LEFT JOIN @.mark m ON m.consumer_id = c.id AND m.pos = p_pos
      LEFT JOIN @.lane l ON l.consumer_id = c.id AND l.key_id = p_key
     WHERE c.start <= p_pos
       AND CASE WHEN m.pos IS NULL THEN p_pos > coalesce(l.resolved_through, 0) ELSE m.resolution IN (0, 3) END
$fn$;

-- ---- claim -----------------------------------------------------------------------------------------------

-- What a claim may take: the lowest open events of the lanes with the lowest heads, at most p_lanes lanes,
-- p_per_lane events of each and p_rows events; the record where the sum before it is below p_bytes. The lanes are
-- locked. The first row is o_kind 0: o_consumer (0: not registered), o_now, o_lanes (looked at). Leases that
-- have ended are taken off first; p_back: also where the clock has gone back (C5).
CREATE FUNCTION @.claim_1(p_name text, p_now bigint, p_lanes integer, p_rows integer, p_per_lane integer, p_bytes bigint,
                          p_version integer, p_back boolean)
RETURNS TABLE (o_kind integer, o_consumer integer, o_now bigint, o_lanes bigint, o_key bigint, o_pos bigint, o_version integer,
               o_marked boolean, o_handed boolean, o_refunded boolean, o_attempt integer, o_hand_outs integer, o_token bigint,
               o_survivor bigint, o_bytes integer, o_checksum integer, o_damaged boolean, o_observed bigint, o_accepted bigint, o_id text,
               o_space text, o_subject text, o_record text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    c record;
    v_now bigint;
    v_keys bigint[];
    v_heads bigint[];
    v_resolved bigint[];
    v_handed bigint[];
    v_most bigint := 9223372036854775807;
BEGIN
    LOCK TABLE @.consumer IN ROW SHARE MODE;
    v_now := @.clock_1(p_now);
    SELECT id, start INTO c FROM @.consumer WHERE name = p_name;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 0, 0, v_now, 0::bigint, 0::bigint, 0::bigint, 0, false, false, false, 0, 0, 0::bigint, 0::bigint, 0,
                            0, false, 0::bigint, 0::bigint, NULL::text, NULL::text, NULL::text, NULL::text;
        RETURN;
    END IF;
    UPDATE @.lane l SET lease_until = NULL, lease_granted = NULL
      FROM (SELECT x.key_id FROM @.lane x WHERE x.consumer_id = c.id AND x.lease_until <= v_now
             ORDER BY x.lease_until LIMIT 20000 FOR UPDATE SKIP LOCKED) q
     WHERE l.consumer_id = c.id AND l.key_id = q.key_id;
    SELECT array_agg(q.key_id ORDER BY q.head), array_agg(q.head ORDER BY q.head), array_agg(q.resolved_through ORDER BY q.head),
           array_agg(q.handed_through ORDER BY q.head)
      INTO v_keys, v_heads, v_resolved, v_handed
      FROM (SELECT l.key_id, l.head, l.resolved_through, l.handed_through FROM @.lane l
             WHERE l.consumer_id = c.id AND l.row_version = p_version AND l.lease_until IS NULL AND l.head IS NOT NULL
             ORDER BY l.head LIMIT p_lanes FOR UPDATE SKIP LOCKED) q;
    IF p_back THEN
        -- Every lease is looked at again: some that had ended are live, some that are written down are not.
        PERFORM 1 FROM @.lane l WHERE l.consumer_id = c.id AND l.lease_until > v_now AND l.lease_granted > v_now + 60000000
          ORDER BY l.key_id FOR UPDATE SKIP LOCKED;
        SELECT array_agg(q.key_id ORDER BY q.head), array_agg(q.head ORDER BY q.head),
               array_agg(q.resolved_through ORDER BY q.head), array_agg(q.handed_through ORDER BY q.head)
          INTO v_keys, v_heads, v_resolved, v_handed
          FROM (SELECT l.key_id, l.head, l.resolved_through, l.handed_through FROM @.lane l
                 WHERE l.consumer_id = c.id AND l.row_version = p_version AND l.head IS NOT NULL
                   AND (l.lease_until IS NULL OR l.lease_granted > v_now + 60000000)
                   AND NOT EXISTS (SELECT 1 FROM @.mark m WHERE m.consumer_id = c.id AND m.key_id = l.key_id
                                      AND m.lease_expires > v_now AND m.lease_granted <= v_now + 60000000)
                 ORDER BY l.head LIMIT p_lanes FOR UPDATE SKIP LOCKED) q;
    END IF;
    IF cardinality(v_keys) = p_lanes THEN
        v_most := v_heads[p_lanes];
    END IF;
    RETURN QUERY SELECT 0, c.id, v_now, coalesce(cardinality(v_keys), 0)::bigint, 0::bigint, 0::bigint, 0, false, false, false, 0, 0,
                        0::bigint, 0::bigint, 0, 0, false, 0::bigint, 0::bigint, NULL::text, NULL::text, NULL::text, NULL::text;
    RETURN QUERY
    SELECT 1, c.id, v_now, 0::bigint, r.key_id, r.pos, e.row_version, r.marked, r.handed, r.refunded, r.attempt, r.hand_outs,
           r.token, r.survivor, e.bytes, e.checksum, e.damaged, e.observed_at, e.accepted_at, e.request_id::text, k.namespace::text,
           k.subject::text, CASE WHEN r.before < p_bytes THEN e.record::text END
      FROM (SELECT q.*, sum(q.bytes) OVER (ORDER BY q.pos) - q.bytes AS before
              FROM (SELECT u.key_id, x.pos, x.bytes, x.marked, x.handed OR x.pos <= u.handed AS handed, x.refunded, x.attempt,
                           x.hand_outs, x.token, x.survivor
                      FROM unnest(v_keys, v_heads, v_resolved, v_handed) u(key_id, head, resolved, handed)
                     CROSS JOIN LATERAL (
                        SELECT e.pos, e.bytes, m.pos IS NOT NULL AS marked, coalesce(m.handed, false) AS handed,
                               coalesce(m.refunded, false) AS refunded, coalesce(m.attempt, 0) AS attempt,
                               coalesce(m.hand_outs, 0) AS hand_outs, coalesce(m.token, 0) AS token,
                               coalesce(m.survivor, 0) AS survivor
                          FROM @.event e LEFT JOIN @.mark m ON m.consumer_id = c.id AND m.pos = e.pos
                         WHERE e.key_id = u.key_id AND e.pos >= u.head AND e.pos <= v_most
                           AND CASE WHEN m.pos IS NULL THEN e.pos > u.resolved ELSE m.resolution = 0 END
                         ORDER BY e.pos LIMIT p_per_lane) x
                     ORDER BY x.pos LIMIT p_rows) q) r
      JOIN @.event e ON e.pos = r.pos JOIN @.key k ON k.key_id = r.key_id
     ORDER BY r.pos;
END
$fn$;

-- Writes hand-outs, in order of position; returns their tokens. p_lanes: their keys, each once. A lane that claim_1 chose
-- has no lease that is live, and none that ends later than these; p_back: it may have (as in claim_1).
CREATE FUNCTION @.hand_out_1(p_consumer integer, p_now bigint, p_expires bigint, p_pos bigint[], p_keys bigint[],
                             p_attempt integer[], p_hand_outs integer[], p_lanes bigint[], p_back boolean)
RETURNS TABLE (o_token bigint) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_tokens bigint[];
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT array_agg(nextval('@.token_seq')) INTO v_tokens FROM generate_series(1, cardinality(p_pos));
    INSERT INTO @.mark (consumer_id, pos, key_id, resolution, handed, refunded, attempt, hand_outs, token, survivor,
                        lease_granted, lease_expires)
    SELECT p_consumer, u.pos, u.key_id, 0, true, false, u.attempt, u.hand_outs, u.token, 0, p_now, p_expires
      FROM unnest(p_pos, p_keys, p_attempt, p_hand_outs, v_tokens) u(pos, key_id, attempt, hand_outs, token)
    ON CONFLICT (pos, consumer_id) DO UPDATE
       SET handed = true, refunded = false, attempt = excluded.attempt, hand_outs = excluded.hand_outs, token = excluded.token,
           lease_granted = excluded.lease_granted, lease_expires = excluded.lease_expires;
    IF p_back THEN
        UPDATE @.lane l SET lease_until = q.expires, lease_granted = q.granted
          FROM unnest(p_lanes) u(key_id)
         CROSS JOIN LATERAL (SELECT max(m.lease_expires) AS expires, max(m.lease_granted) AS granted FROM @.mark m
                              WHERE m.consumer_id = p_consumer AND m.key_id = u.key_id AND m.lease_expires IS NOT NULL) q
         WHERE l.consumer_id = p_consumer AND l.key_id = u.key_id;
    ELSE
        UPDATE @.lane l SET lease_until = p_expires, lease_granted = p_now
          FROM unnest(p_lanes) u(key_id) WHERE l.consumer_id = p_consumer AND l.key_id = u.key_id;
    END IF;
    RETURN QUERY SELECT u.token FROM unnest(v_tokens) u(token);
END
$fn$;

-- ---- verdicts --------------------------------------------------------------------------------------------

-- What the consumer has done with each event, one row a position in the order given; lanes that have a head are
-- locked. p_operator: the keys are locked too.
CREATE FUNCTION @.standing_1(p_name text, p_now bigint, p_pos bigint[], p_operator boolean)
RETURNS TABLE (o_ord bigint, o_consumer integer, o_start bigint, o_floor bigint, o_now bigint, o_held boolean, o_key bigint,
               o_accepted bigint, o_resolved_through bigint, o_handed_through bigint, o_resolution integer, o_handed boolean,
               o_refunded boolean, o_attempt integer, o_hand_outs integer, o_token bigint, o_survivor bigint, o_granted bigint,
               o_expires bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    c record;
    v_keys bigint[];
BEGIN
    LOCK TABLE @.consumer IN ROW SHARE MODE;
    SELECT id, start, token_floor INTO c FROM @.consumer WHERE name = p_name;
    SELECT array_agg(DISTINCT e.key_id) INTO v_keys FROM @.event e WHERE e.pos = ANY (p_pos);
    IF p_operator THEN
        PERFORM 1 FROM @.key k WHERE k.key_id = ANY (v_keys) ORDER BY k.key_id FOR UPDATE;
    END IF;
    PERFORM 1 FROM @.lane l WHERE l.consumer_id = c.id AND l.key_id = ANY (v_keys) AND (l.head IS NOT NULL OR p_operator)
      ORDER BY l.key_id FOR UPDATE;
    RETURN QUERY
    SELECT u.o, coalesce(c.id, 0), coalesce(c.start, 0), coalesce(c.token_floor, 0), @.clock_1(p_now), e.pos IS NOT NULL,
           coalesce(e.key_id, m.key_id, 0), coalesce(e.accepted_at, 0), coalesce(l.resolved_through, 0), coalesce(l.handed_through, 0),
           m.resolution, coalesce(m.handed, false), coalesce(m.refunded, false), coalesce(m.attempt, 0), coalesce(m.hand_outs, 0),
           coalesce(m.token, 0), coalesce(m.survivor, 0), m.lease_granted, m.lease_expires
      FROM unnest(p_pos) WITH ORDINALITY u(pos, o)
      LEFT JOIN @.event e ON e.pos = u.pos
      LEFT JOIN @.mark m ON m.consumer_id = c.id AND m.pos = u.pos
      LEFT JOIN @.lane l ON l.consumer_id = c.id AND l.key_id = e.key_id
     ORDER BY u.o;
END
$fn$;

-- Writes verdicts. p_lanes: the keys, each once; p_acked_lane and the like are places in it, from 1. p_ended: dropped events
-- whose leases end.
CREATE FUNCTION @.settle_1(
    p_consumer integer, p_slot integer, p_lanes bigint[],
    p_acked bigint[], p_acked_lane integer[], p_acked_at bigint[],
    p_pos bigint[], p_lane integer[], p_resolution integer[], p_handed integer[], p_refunded integer[], p_attempt integer[],
    p_hand_outs integer[], p_token bigint[], p_survivor bigint[], p_granted bigint[], p_expires bigint[], p_reason integer[],
    p_attempts_then integer[], p_quarantined_at bigint[], p_words bytea[], p_damaged bigint[], p_ended bigint[])
RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    c_none CONSTANT bigint := 9223372036854775807;
    v_many boolean := (SELECT count(*) > 1 FROM @.consumer);
    v_locked boolean := false;
    v_heads bigint[];
    v_versions integer[];
    v_before bigint[];
    v_through bigint[];
    v_done bigint[];
    r record;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF cardinality(p_ended) > 0 THEN
        DELETE FROM @.mark m WHERE m.consumer_id = p_consumer AND m.pos = ANY (p_ended) AND m.resolution = 4;
    END IF;
    IF v_many AND (cardinality(p_acked) > 0 OR 2 = ANY (p_resolution)) THEN
        -- Two consumers that resolve one event at once see each other.
        PERFORM 1 FROM @.key k WHERE k.key_id = ANY (p_lanes) ORDER BY k.key_id FOR UPDATE;
        v_locked := true;
    END IF;
    IF cardinality(p_pos) > 0 THEN
        INSERT INTO @.mark (consumer_id, pos, key_id, resolution, handed, refunded, attempt, hand_outs, token, survivor,
                            lease_granted, lease_expires, reason, attempts_then, quarantined_at, words)
        SELECT p_consumer, u.pos, p_lanes[u.lane], u.resolution, u.handed = 1, u.refunded = 1, u.attempt, u.hand_outs, u.token,
               u.survivor, u.granted, u.expires, u.reason, u.attempts_then, u.quarantined_at, u.words
          FROM unnest(p_pos, p_lane, p_resolution, p_handed, p_refunded, p_attempt, p_hand_outs, p_token, p_survivor, p_granted,
                      p_expires, p_reason, p_attempts_then, p_quarantined_at, p_words)
               u(pos, lane, resolution, handed, refunded, attempt, hand_outs, token, survivor, granted, expires, reason,
                 attempts_then, quarantined_at, words)
        ON CONFLICT (pos, consumer_id) DO UPDATE
           SET resolution = excluded.resolution, handed = excluded.handed, refunded = excluded.refunded,
               attempt = excluded.attempt, hand_outs = excluded.hand_outs, token = excluded.token, survivor = excluded.survivor,
               lease_granted = excluded.lease_granted, lease_expires = excluded.lease_expires, reason = excluded.reason,
               attempts_then = excluded.attempts_then, quarantined_at = excluded.quarantined_at, words = excluded.words;
    END IF;
    IF cardinality(p_damaged) > 0 THEN
        UPDATE @.event e SET damaged = true WHERE e.pos = ANY (p_damaged) AND NOT e.damaged;
    END IF;
    -- The heads. One that becomes none is looked for again under the key's lock, which an append may hold.
    SELECT array_agg(coalesce(h.pos, c_none) ORDER BY u.o), array_agg(coalesce(h.row_version, l.row_version, 0) ORDER BY u.o),
           array_agg(coalesce(l.head, c_none) ORDER BY u.o)
      INTO v_heads, v_versions, v_before
      FROM unnest(p_lanes) WITH ORDINALITY u(key_id, o)
      LEFT JOIN @.lane l ON l.consumer_id = p_consumer AND l.key_id = u.key_id
      LEFT JOIN LATERAL (
         SELECT e.pos, e.row_version FROM @.event e LEFT JOIN @.mark m ON m.consumer_id = p_consumer AND m.pos = e.pos
          WHERE e.key_id = u.key_id AND e.pos >= l.head AND e.pos NOT IN (SELECT a.pos FROM unnest(p_acked) a(pos))
            AND CASE WHEN m.pos IS NULL THEN e.pos > l.resolved_through ELSE m.resolution = 0 END
          ORDER BY e.pos LIMIT 1) h ON true;
    IF NOT v_locked THEN
        PERFORM 1 FROM @.key k
          WHERE k.key_id IN (SELECT u.key_id FROM unnest(p_lanes, v_heads, v_before) u(key_id, head, before)
                              WHERE u.head = c_none AND u.before <> c_none)
          ORDER BY k.key_id FOR UPDATE;
        IF FOUND THEN
            -- What was appended meanwhile came behind all that was there.
            FOR r IN SELECT u.o, h.pos, h.row_version
                       FROM unnest(p_lanes, v_heads, v_before) WITH ORDINALITY u(key_id, head, before, o)
                      CROSS JOIN LATERAL (
                         SELECT e.pos, e.row_version FROM @.event e
                           LEFT JOIN @.mark m ON m.consumer_id = p_consumer AND m.pos = e.pos
                          WHERE e.key_id = u.key_id AND e.pos > u.before AND e.pos NOT IN (SELECT a.pos FROM unnest(p_acked) a(pos))
                            AND (m.pos IS NULL OR m.resolution = 0)
                            AND e.pos > (SELECT l.resolved_through FROM @.lane l
                                          WHERE l.consumer_id = p_consumer AND l.key_id = u.key_id)
                          ORDER BY e.pos LIMIT 1) h
                      WHERE u.head = c_none AND u.before <> c_none LOOP
                v_heads[r.o] := r.pos;
                v_versions[r.o] := r.row_version;
            END LOOP;
        END IF;
    END IF;
    v_through := array_fill(0::bigint, ARRAY[greatest(1, cardinality(p_lanes))]);
    IF cardinality(p_acked) > 0 THEN
        INSERT INTO @.mark (consumer_id, pos, key_id, resolution, handed, refunded, attempt, hand_outs, token, survivor)
        SELECT p_consumer, u.pos, p_lanes[u.lane], 1, true, false, 0, 0, 0, 0
          FROM unnest(p_acked, p_acked_lane) u(pos, lane) WHERE u.pos > v_heads[u.lane]
        ON CONFLICT (pos, consumer_id) DO UPDATE SET resolution = 1, lease_granted = NULL, lease_expires = NULL;
        DELETE FROM @.mark m USING unnest(p_acked, p_acked_lane) u(pos, lane)
         WHERE m.consumer_id = p_consumer AND m.pos = u.pos AND u.pos < v_heads[u.lane];
        FOR r IN SELECT u.lane, max(u.pos) AS pos FROM unnest(p_acked, p_acked_lane) u(pos, lane)
                  WHERE u.pos < v_heads[u.lane] GROUP BY u.lane LOOP
            v_through[r.lane] := r.pos;
        END LOOP;
    END IF;
    IF EXISTS (SELECT 1 FROM @.mark m WHERE m.consumer_id = p_consumer AND m.resolution = 1) THEN
        FOR r IN DELETE FROM @.mark m USING unnest(p_lanes) WITH ORDINALITY u(key_id, o)
                  WHERE m.consumer_id = p_consumer AND m.key_id = u.key_id AND m.resolution = 1 AND m.pos < v_heads[u.o]
                  RETURNING u.o, m.pos LOOP
            v_through[r.o] := greatest(v_through[r.o], r.pos);
        END LOOP;
    END IF;
    UPDATE @.lane l
       SET head = nullif(v_heads[u.o], c_none), row_version = v_versions[u.o],
           resolved_through = greatest(l.resolved_through, v_through[u.o]), lease_until = q.expires, lease_granted = q.granted
      FROM unnest(p_lanes) WITH ORDINALITY u(key_id, o)
     CROSS JOIN LATERAL (SELECT max(m.lease_expires) AS expires, max(m.lease_granted) AS granted FROM @.mark m
                          WHERE m.consumer_id = p_consumer AND m.key_id = u.key_id AND m.lease_expires IS NOT NULL) q
     WHERE l.consumer_id = p_consumer AND l.key_id = u.key_id;

    -- What everybody has resolved (P2).
    IF cardinality(p_acked) > 0 THEN
        IF v_many THEN
            INSERT INTO @.delivered (pos, accepted_at)
            SELECT u.pos, u.at FROM unnest(p_acked, p_acked_lane, p_acked_at) u(pos, lane, at)
             WHERE NOT EXISTS (SELECT 1 FROM @.unresolved_1(u.pos, p_lanes[u.lane]))
            ON CONFLICT (pos) DO NOTHING;
        ELSE
            INSERT INTO @.delivered (pos, accepted_at)
            SELECT u.pos, u.at FROM unnest(p_acked, p_acked_at) u(pos, at) ON CONFLICT (pos) DO NOTHING;
        END IF;
        IF EXISTS (SELECT 1 FROM @.rewound) THEN
            DELETE FROM @.rewound r2 WHERE r2.pos = ANY (p_acked)
               AND EXISTS (SELECT 1 FROM @.delivered d WHERE d.pos = r2.pos);
        END IF;
    END IF;
    IF v_many OR 2 = ANY (p_resolution) THEN
        -- Discarded by one and resolved by all: forgotten.
        SELECT array_agg(DISTINCT u.pos) INTO v_done
          FROM (SELECT a.pos, a.lane FROM unnest(p_acked, p_acked_lane) a(pos, lane)
                UNION ALL SELECT b.pos, b.lane FROM unnest(p_pos, p_lane, p_resolution) b(pos, lane, res) WHERE b.res = 2) u
         WHERE EXISTS (SELECT 1 FROM @.consumer c JOIN @.mark m ON m.consumer_id = c.id AND m.pos = u.pos AND m.resolution = 2)
           AND NOT EXISTS (SELECT 1 FROM @.unresolved_1(u.pos, p_lanes[u.lane]));
        IF v_done IS NOT NULL THEN
            PERFORM @.forget_1(p_slot, v_done, 3);
        END IF;
    END IF;
END
$fn$;

-- A released event may be the head again. The key and the lane are locked.
CREATE FUNCTION @.reopen_1(p_consumer integer, p_key bigint, p_pos bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
BEGIN
    UPDATE @.lane l SET head = p_pos, row_version = e.row_version FROM @.event e
     WHERE e.pos = p_pos AND l.consumer_id = p_consumer AND l.key_id = p_key AND (l.head IS NULL OR l.head > p_pos);
END
$fn$;

-- ---- looking ---------------------------------------------------------------------------------------------

-- The last position that no append in flight can come below (C11).
CREATE FUNCTION @.horizon_1() RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    v_end bigint := @.next_position_1() - 1;
    v_floor bigint;
BEGIN
    SELECT v_end - max((v_end - l.objid::bigint) & 4294967295) INTO v_floor
      FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = '@.event'::regclass::oid AND l.granted
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND ((v_end - l.objid::bigint) & 4294967295) < 2147483648;
    RETURN least(v_end, coalesce(v_floor, v_end));
END
$fn$;

-- p_where: 0 all, 1 pending for a consumer, 2 quarantined by one. The record where the sum before it is below p_bytes.
CREATE FUNCTION @.read_1(p_after bigint, p_where integer, p_rows integer, p_bytes bigint)
RETURNS TABLE (o_pos bigint, o_version integer, o_bytes integer, o_checksum integer, o_observed bigint, o_accepted bigint,
               o_id text, o_space text, o_subject text, o_record text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_horizon bigint := @.horizon_1();
BEGIN
    RETURN QUERY
    SELECT r.pos, r.row_version, r.bytes, r.checksum, r.observed_at, r.accepted_at, r.request_id::text, k.namespace::text,
           k.subject::text, CASE WHEN r.before < p_bytes THEN r.record::text END
      FROM (SELECT q.*, sum(q.bytes) OVER (ORDER BY q.pos) - q.bytes AS before
              FROM (SELECT e.* FROM @.event e
                     WHERE e.pos > p_after AND e.pos <= v_horizon
                       AND CASE p_where
                           WHEN 1 THEN EXISTS (
                                SELECT 1 FROM @.consumer c
                                  LEFT JOIN @.mark m ON m.consumer_id = c.id AND m.pos = e.pos
                                  LEFT JOIN @.lane l ON l.consumer_id = c.id AND l.key_id = e.key_id
                                 WHERE c.start <= e.pos
                                   AND CASE WHEN m.pos IS NULL THEN e.pos > coalesce(l.resolved_through, 0)
                                            ELSE m.resolution = 0 END)
                           WHEN 2 THEN EXISTS (SELECT 1 FROM @.mark m WHERE m.pos = e.pos AND m.resolution = 3)
                           ELSE true END
                     ORDER BY e.pos LIMIT p_rows) q) r
      JOIN @.key k ON k.key_id = r.key_id
     ORDER BY r.pos;
END
$fn$;

CREATE FUNCTION @.find_1(p_id text)
RETURNS TABLE (o_pos bigint, o_version integer, o_bytes integer, o_checksum integer, o_observed bigint, o_accepted bigint,
               o_id text, o_space text, o_subject text, o_record text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
    SELECT e.pos, e.row_version, e.bytes, e.checksum, e.observed_at, e.accepted_at, e.request_id::text, k.namespace::text,
           k.subject::text, e.record::text
      FROM @.event e JOIN @.key k ON k.key_id = e.key_id WHERE e.request_id = p_id
$fn$;

CREATE FUNCTION @.quarantine_list_1(p_consumer text, p_after bigint, p_reason integer, p_rows integer, p_bytes bigint)
RETURNS TABLE (o_pos bigint, o_version integer, o_bytes integer, o_checksum integer, o_observed bigint, o_accepted bigint,
               o_id text, o_space text, o_subject text, o_record text, o_reason integer, o_attempts integer, o_at bigint, o_words bytea)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
    SELECT r.pos, r.row_version, r.bytes, r.checksum, r.observed_at, r.accepted_at, r.request_id::text, r.namespace::text,
           r.subject::text, CASE WHEN r.before < p_bytes THEN r.record::text END, r.reason, r.attempts_then, r.quarantined_at, r.words
      FROM (SELECT q.*, sum(q.bytes) OVER (ORDER BY q.pos) - q.bytes AS before
              FROM (SELECT e.*, k.namespace, k.subject, m.reason, m.attempts_then, m.quarantined_at, m.words
                      FROM @.consumer c JOIN @.mark m ON m.consumer_id = c.id AND m.resolution = 3
                      JOIN @.event e ON e.pos = m.pos JOIN @.key k ON k.key_id = e.key_id
                     WHERE c.name = p_consumer AND m.pos > p_after AND (p_reason = 0 OR m.reason = p_reason)
                     ORDER BY m.pos LIMIT p_rows) q) r
     ORDER BY r.pos
$fn$;

-- What an event is to each consumer, in order of registration.
CREATE FUNCTION @.standings_1(p_pos bigint)
RETURNS TABLE (o_name text, o_start bigint, o_resolved boolean, o_resolution integer, o_attempt integer, o_hand_outs integer,
               o_granted bigint, o_expires bigint, o_now bigint)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
    SELECT c.name::text, c.start, m.pos IS NULL AND e.pos <= coalesce(l.resolved_through, 0), coalesce(m.resolution, 0),
           coalesce(m.attempt, 0), coalesce(m.hand_outs, 0), m.lease_granted, m.lease_expires, @.clock_1(NULL)
      FROM @.event e CROSS JOIN @.consumer c
      LEFT JOIN @.mark m ON m.consumer_id = c.id AND m.pos = e.pos
      LEFT JOIN @.lane l ON l.consumer_id = c.id AND l.key_id = e.key_id
     WHERE e.pos = p_pos ORDER BY c.id
$fn$;

-- W5: the newest event below p_below that the consumer itself has acknowledged.
CREATE FUNCTION @.control_1(p_name text, p_below bigint, p_version integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off AS $fn$
DECLARE
    c record;
    l record;
    v_best bigint := 0;
    v_pos bigint;
BEGIN
    SELECT id, start INTO c FROM @.consumer WHERE name = p_name;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT coalesce(max(m.pos), 0) INTO v_best FROM @.mark m JOIN @.event e ON e.pos = m.pos
     WHERE m.consumer_id = c.id AND m.resolution = 1 AND m.pos < p_below AND e.row_version <= p_version;
    FOR l IN SELECT x.key_id, x.resolved_through FROM @.lane x WHERE x.consumer_id = c.id ORDER BY x.resolved_through DESC LOOP
        EXIT WHEN l.resolved_through <= v_best;
        SELECT e.pos INTO v_pos FROM @.event e LEFT JOIN @.mark m ON m.consumer_id = c.id AND m.pos = e.pos
         WHERE e.key_id = l.key_id AND e.pos <= l.resolved_through AND e.pos < p_below AND e.pos >= c.start AND m.pos IS NULL
           AND e.row_version <= p_version
         ORDER BY e.pos DESC LIMIT 1;
        v_best := greatest(v_best, v_pos);
    END LOOP;
    RETURN v_best;
END
$fn$;

CREATE FUNCTION @.stats_1()
RETURNS TABLE (o_now bigint, o_accepted bigint, o_stored bigint, o_bytes bigint, o_pruned bigint, o_reclaimed bigint, o_dropped bigint,
               o_discarded bigint, o_newest_at bigint, o_first bigint, o_last bigint, o_first_at bigint, o_consumers bigint, o_damaged bigint,
               o_file_bytes bigint)
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
    SELECT @.clock_1(NULL), sum(c.accepted)::bigint, sum(c.stored)::bigint, sum(c.stored_bytes)::bigint, sum(c.pruned)::bigint,
           sum(c.reclaimed)::bigint, sum(c.dropped)::bigint, sum(c.discarded)::bigint, max(c.newest_accepted_at),
           (SELECT coalesce(min(e.pos), 0) FROM @.event e), (SELECT coalesce(max(e.pos), 0) FROM @.event e),
           (SELECT e.accepted_at FROM @.event e ORDER BY e.pos LIMIT 1), (SELECT count(*) FROM @.consumer),
           (SELECT count(*) FROM @.event e WHERE e.damaged),
           (SELECT sum(pg_total_relation_size(t.oid))::bigint FROM pg_class t
             WHERE t.relkind = 'r' AND t.relnamespace = (SELECT x.relnamespace FROM pg_class x WHERE x.oid = '@.event'::regclass))
      FROM @.counter c
$fn$;

-- Ages are told as the oldest times; null where there is none.
CREATE FUNCTION @.consumer_stats_1(p_name text, p_now bigint, p_version integer)
RETURNS TABLE (o_id integer, o_start bigint, o_start_at bigint, o_now bigint, o_pending bigint, o_in_flight bigint,
               o_quarantined bigint, o_newer bigint, o_oldest_pending bigint, o_oldest bigint, o_held_bytes bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
DECLARE
    c record;
    v_now bigint := @.clock_1(p_now);
    v_quarantined bigint;
    v_bytes bigint;
BEGIN
    SELECT id, start, start_at INTO c FROM @.consumer WHERE name = p_name;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 0, 0::bigint, NULL::bigint, v_now, count(*), 0::bigint, 0::bigint,
                            count(*) FILTER (WHERE e.row_version > p_version), min(e.observed_at), min(e.observed_at), 0::bigint
                       FROM @.event e;
        RETURN;
    END IF;
    SELECT count(*), coalesce(sum(e.bytes), 0) INTO v_quarantined, v_bytes
      FROM @.mark m JOIN @.event e ON e.pos = m.pos WHERE m.consumer_id = c.id AND m.resolution = 3;
    RETURN QUERY
    SELECT c.id, c.start, c.start_at, v_now, count(*) FILTER (WHERE NOT q.live), count(*) FILTER (WHERE q.live), v_quarantined,
           count(*) FILTER (WHERE q.row_version > p_version), min(q.observed_at) FILTER (WHERE NOT q.live), min(q.observed_at),
           v_bytes + coalesce(sum(q.bytes), 0)::bigint
      FROM (SELECT e.observed_at, e.row_version, e.bytes, @.live_1(m.lease_granted, m.lease_expires, v_now) AS live
              FROM @.lane l JOIN @.event e ON e.key_id = l.key_id AND e.pos >= l.head
              LEFT JOIN @.mark m ON m.consumer_id = l.consumer_id AND m.pos = e.pos
             WHERE l.consumer_id = c.id AND l.head IS NOT NULL
               AND CASE WHEN m.pos IS NULL THEN e.pos > l.resolved_through ELSE m.resolution = 0 END) q;
END
$fn$;

-- The latest now that some claim has seen, as far as what is left of its leases tells (C5).
CREATE FUNCTION @.newest_now_1() RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $fn$
    SELECT coalesce(max(greatest(m.lease_granted, CASE WHEN l.lease_until IS NULL THEN m.lease_expires END)), 0)
      FROM @.mark m LEFT JOIN @.lane l ON l.consumer_id = m.consumer_id AND l.key_id = m.key_id
     WHERE m.lease_expires IS NOT NULL
$fn$;

-- Keys without an event, and leases of dropped events that have ended. Returns the last key looked at; 0: the end.
CREATE FUNCTION @.sweep_1(p_now bigint, p_after bigint, p_max integer) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off AS $fn$
DECLARE
    v_now bigint := @.clock_1(p_now);
    v_last bigint;
    v_keys bigint[];
    v_consumers integer[];
BEGIN
    LOCK TABLE @.consumer IN ROW SHARE MODE;
    SELECT coalesce(array_agg(id), '{}') INTO v_consumers FROM @.consumer;
    SELECT max(q.key_id) INTO v_last FROM (SELECT k.key_id FROM @.key k WHERE k.key_id > p_after ORDER BY k.key_id LIMIT p_max) q;
    IF v_last IS NULL THEN
        RETURN 0;
    END IF;
    -- A minute past the end, so that a clock that goes back a little finds them.
    DELETE FROM @.mark m WHERE m.consumer_id = ANY (v_consumers) AND m.resolution = 4 AND m.lease_expires + 60000000 < v_now;
    SELECT array_agg(q.key_id) INTO v_keys
      FROM (SELECT k.key_id FROM @.key k WHERE k.key_id > p_after AND k.key_id <= v_last
               AND NOT EXISTS (SELECT 1 FROM @.event e WHERE e.key_id = k.key_id)
             ORDER BY k.key_id FOR UPDATE SKIP LOCKED) q;
    IF v_keys IS NOT NULL THEN
        -- Looked at again under the lock.
        SELECT array_agg(u.key_id) INTO v_keys FROM unnest(v_keys) u(key_id)
         WHERE NOT EXISTS (SELECT 1 FROM @.event e WHERE e.key_id = u.key_id)
           AND NOT EXISTS (SELECT 1 FROM unnest(v_consumers) c(id) JOIN @.mark m ON m.consumer_id = c.id AND m.key_id = u.key_id
                              AND m.lease_expires IS NOT NULL);
        DELETE FROM @.lane l WHERE l.consumer_id = ANY (v_consumers) AND l.key_id = ANY (v_keys);
        DELETE FROM @.key k WHERE k.key_id = ANY (v_keys);
    END IF;
    RETURN v_last;
END
$fn$;
