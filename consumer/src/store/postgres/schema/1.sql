-- A role that may make no schema finds one that an administrator made for it.
DO $$ BEGIN IF to_regnamespace('keylane') IS NULL THEN CREATE SCHEMA keylane; END IF; END $$;

CREATE TABLE keylane.migration (
    version integer PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    by_role text NOT NULL DEFAULT current_user
);

CREATE TABLE keylane.scope (
    scope       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue       text    NOT NULL,
    group_name  text    NOT NULL,
    cluster     text    NOT NULL,
    incarnation text    NOT NULL,
    partitions  integer NOT NULL,
    hash        text    NOT NULL,
    former      text    NOT NULL DEFAULT '',
    anew        boolean NOT NULL DEFAULT false,
    epoch       bigint  NOT NULL DEFAULT 1,
    versions    bigint  NOT NULL DEFAULT 0,
    pinned_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (queue, group_name)
);
COMMENT ON TABLE keylane.scope IS 'a queue and group: the identity that is pinned';

CREATE TABLE keylane.fence (
    scope       bigint  NOT NULL REFERENCES keylane.scope,
    part        integer NOT NULL,
    epoch       bigint  NOT NULL,
    gen         bigint  NOT NULL DEFAULT 0,
    owner       text    NOT NULL DEFAULT '',
    claim       bigint  NOT NULL DEFAULT 0,
    worker      text,
    claimed_at  timestamptz,
    closed      boolean NOT NULL DEFAULT false,
    clean       boolean NOT NULL DEFAULT true,
    handed_over boolean NOT NULL DEFAULT true,
    timeline    text    NOT NULL DEFAULT '',
    PRIMARY KEY (scope, part)
) WITH (fillfactor = 50);
COMMENT ON TABLE keylane.fence IS 'who claimed each partition last; what a write must match';
COMMENT ON COLUMN keylane.fence.timeline IS 'of the server when it was claimed; empty: not looked at';

-- Which history the server is in. Each promotion of a standby, and each recovery to a point in time, begins another one: then rows
-- may be older than their owners think.
CREATE FUNCTION keylane.timeline() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END
$$;

CREATE TABLE keylane.fence_intent (
    scope bigint  NOT NULL REFERENCES keylane.scope,
    part  integer NOT NULL,
    epoch bigint  NOT NULL,
    gen   bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, part)
) WITH (fillfactor = 50);
COMMENT ON TABLE keylane.fence_intent IS 'the highest claim that was ever asked for: above its row, no older owner begins a write';

CREATE TABLE keylane.marker (
    scope bigint  NOT NULL,
    part  integer NOT NULL,
    first bigint  NOT NULL,
    last  bigint  NOT NULL,
    PRIMARY KEY (scope, part, first)
) WITH (fillfactor = 50);
COMMENT ON TABLE keylane.marker IS 'ranges of offsets that are done, both ends included';

CREATE TABLE keylane.result (
    queue       text    NOT NULL,
    group_name  text    NOT NULL,
    part        integer NOT NULL,
    "offset"    bigint  NOT NULL,
    key         bytea   NOT NULL,
    job_id      text    NOT NULL,
    attempt     integer NOT NULL,
    result      json    NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, group_name, part, "offset")
);
CREATE INDEX result_key ON keylane.result (key);
CREATE INDEX result_job ON keylane.result (job_id);
COMMENT ON TABLE keylane.result IS 'what jobs left';

CREATE TABLE keylane.stopped (
    scope    bigint  NOT NULL,
    part     integer NOT NULL,
    key      bytea   NOT NULL,
    "offset" bigint  NOT NULL,
    job_id   text    NOT NULL,
    attempts integer NOT NULL,
    rule     text    NOT NULL,
    reason   text    NOT NULL,
    since    timestamptz NOT NULL DEFAULT now(),
    version  bigint  NOT NULL,
    released boolean NOT NULL DEFAULT false,
    PRIMARY KEY (scope, part, key)
);
COMMENT ON TABLE keylane.stopped IS 'keys that stand still until a person says keylane retry';

CREATE TABLE keylane.suspect (
    scope    bigint  NOT NULL,
    part     integer NOT NULL,
    "offset" bigint  NOT NULL,
    deaths   integer NOT NULL DEFAULT 0,
    started  bigint  NOT NULL,
    PRIMARY KEY (scope, part, "offset")
);
COMMENT ON TABLE keylane.suspect IS 'jobs that ran when their worker died';

CREATE TABLE keylane.quarantine (
    scope    bigint  NOT NULL,
    part     integer NOT NULL,
    "offset" bigint  NOT NULL,
    key      bytea,
    reason   text    NOT NULL,
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, part, "offset")
);
COMMENT ON TABLE keylane.quarantine IS 'records that are no jobs';

CREATE TABLE keylane.refused (
    scope  bigint  NOT NULL,
    part   integer NOT NULL,
    worker text    NOT NULL,
    writes bigint  NOT NULL,
    jobs   bigint  NOT NULL,
    last   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, part, worker)
);
COMMENT ON TABLE keylane.refused IS 'what stale workers tried and the fence refused';

CREATE TABLE keylane.audit (
    n          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue      text NOT NULL,
    group_name text NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    who        text NOT NULL,
    act        text NOT NULL,
    why        text NOT NULL,
    detail     text NOT NULL,
    by_role    text NOT NULL DEFAULT current_user
);
COMMENT ON TABLE keylane.audit IS 'what operators did';
