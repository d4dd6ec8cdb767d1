CREATE TABLE keylane.parked (
    scope       bigint  NOT NULL,
    part        integer NOT NULL,
    "offset"    bigint  NOT NULL,
    key         bytea   NOT NULL,
    job_id      text    NOT NULL,
    value       bytea,
    headers     bytea,
    "timestamp" bigint  NOT NULL,
    size        integer NOT NULL,
    attempts    integer NOT NULL,
    since       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, part, "offset")
);
CREATE INDEX parked_line ON keylane.parked (scope, part, key, "offset");
COMMENT ON TABLE keylane.parked IS 'jobs of keys that stand still, each key''s in a line';
