CREATE TABLE keylane.admitted (
    scope    bigint  NOT NULL,
    part     integer NOT NULL,
    "offset" bigint  NOT NULL,
    at       timestamptz NOT NULL DEFAULT now(),
    by_role  text    NOT NULL DEFAULT session_user,
    PRIMARY KEY (scope, part, "offset")
);
COMMENT ON TABLE keylane.admitted IS 'jobs that a handler''s own transaction did, until the worker joins them to its markers';

-- The fence for a transaction of a handler's own. What it is given was made for one job under one claim (fence/pass.rs): the place
-- of the job, and a digest that only the row's numbers and its owner's nonce make. Whoever may call it needs no right to any table.
CREATE FUNCTION keylane.admit(sensitive_fence text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $admit$
DECLARE
    prefix CONSTANT text := 'keylane-fence-v1:';
    pass     bytea;
    in_scope bigint;
    in_part  integer;
    place    bigint;
BEGIN
    -- A picture from before the wait for the row would not show what was marked meanwhile.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = 'KL004', MESSAGE = 'keylane.admit needs a READ COMMITTED transaction',
            HINT = 'begin it with BEGIN ISOLATION LEVEL READ COMMITTED';
    END IF;
    IF sensitive_fence IS NULL OR NOT starts_with(sensitive_fence, prefix)
       OR substr(sensitive_fence, length(prefix) + 1) !~ '^[A-Za-z0-9_-]{64}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'KL003', MESSAGE = 'keylane.admit was not given the fence of a job',
            HINT = 'pass sensitive_fence of the job line unchanged; the worker needs --fence-to-handler';
    END IF;
    pass := decode(translate(substr(sensitive_fence, length(prefix) + 1), '-_', '+/'), 'base64');
    in_scope := ('x' || encode(substr(pass, 1, 8), 'hex'))::bit(64)::bigint;
    in_part := ('x' || encode(substr(pass, 9, 4), 'hex'))::bit(32)::integer;
    place := ('x' || encode(substr(pass, 13, 8), 'hex'))::bit(64)::bigint;
    -- Whoever is frozen from here on must not hold a claim up for ever.
    IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
    END IF;
    PERFORM FROM keylane.fence AS f
        WHERE f.scope = in_scope AND f.part = in_part AND NOT f.closed AND f.timeline IN ('', keylane.timeline())
          AND substr(pass, 21) = sha224(
              sha224(convert_to(concat_ws(' ', f.scope, f.part, f.epoch, f.gen, f.claim, f.owner), 'UTF8')) || int8send(place))
          AND NOT EXISTS (SELECT FROM keylane.fence_intent AS i
                          WHERE i.scope = f.scope AND i.part = f.part AND (i.epoch, i.gen) > (f.epoch, f.gen))
        FOR SHARE OF f;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'KL001', MESSAGE = 'keylane: a newer owner has claimed the partition of this job',
            HINT = 'roll back and write nothing: the newer owner runs the job';
    END IF;
    INSERT INTO keylane.admitted (scope, part, "offset") VALUES (in_scope, in_part, place) ON CONFLICT DO NOTHING;
    -- In this order: a worker that joined the row to its markers meanwhile has committed by now, so the markers show it. The
    -- marker of a job in its key's line says only that it waits there.
    IF NOT FOUND OR EXISTS (
        SELECT FROM (SELECT m.last FROM keylane.marker AS m
                     WHERE m.scope = in_scope AND m.part = in_part AND m.first <= place ORDER BY m.first DESC LIMIT 1) AS nearest
        WHERE nearest.last >= place)
        AND NOT EXISTS (SELECT FROM keylane.parked AS p WHERE p.scope = in_scope AND p.part = in_part AND p."offset" = place)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'KL002', MESSAGE = 'keylane: this job is done already',
            HINT = 'roll back, write nothing, and answer "done"';
    END IF;
END $admit$;
COMMENT ON FUNCTION keylane.admit(text) IS
    'first statement of a handler''s own transaction: KL001 a newer owner, KL002 done already, KL003 no fence, KL004 wrong isolation';
REVOKE ALL ON FUNCTION keylane.admit(text) FROM PUBLIC;
