CREATE TABLE keylane.dead (
    n           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope       bigint  NOT NULL,
    part        integer NOT NULL,
    "offset"    bigint  NOT NULL,
    incarnation text    NOT NULL,
    key         bytea   NOT NULL,
    job_id      text    NOT NULL,
    value       bytea,
    headers     bytea,
    "timestamp" bigint  NOT NULL,
    size        integer NOT NULL,
    attempts    integer NOT NULL,
    rule        text    NOT NULL,
    reason      text    NOT NULL,
    at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dead_part ON keylane.dead (scope, part);
COMMENT ON TABLE keylane.dead IS 'jobs that left alone: they could not be done, or a person had them skipped';
CREATE TABLE keylane.skip (
    scope    bigint  NOT NULL,
    part     integer NOT NULL,
    "offset" bigint  NOT NULL,
    key      bytea   NOT NULL,
    text     text    NOT NULL,
    at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, part, "offset")
);
COMMENT ON TABLE keylane.skip IS 'jobs that a person wants left out when their turn comes';
CREATE TABLE keylane.note (
    scope bigint  NOT NULL,
    part  integer NOT NULL,
    at    timestamptz NOT NULL DEFAULT now(),
    note  text    NOT NULL,
    PRIMARY KEY (scope, part)
);
COMMENT ON TABLE keylane.note IS 'what the owner of a partition tells people of it; nothing decides by it';
