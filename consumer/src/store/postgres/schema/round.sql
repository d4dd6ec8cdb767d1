-- The two ends of a write, each in one call: with BEGIN before the first and COMMIT behind the second they cost a round trip each.

-- Which of these claims hold (3, in `first`), then what `reach` tells. Two statements: the second sees what was committed while the
-- first one waited for its locks.
CREATE FUNCTION keylane.enter(
    in_scope bigint, parts int[], epochs bigint[], gens bigint[], claims bigint[], marks bigint[], lows bigint[], highs bigint[])
RETURNS TABLE (kind int, part int, first bigint, last bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT 3, 0, at, at FROM keylane.holds(in_scope, parts, epochs, gens, claims) AS at;
    RETURN QUERY SELECT * FROM keylane.reach(in_scope, parts, marks, lows, highs);
END $$;

-- `mark`, for whoever sends COMMIT behind it without a look at what it counted: it fails where a row was not as it was read.
CREATE FUNCTION keylane.finish(
    in_scope bigint, gone_parts int[], gone_firsts bigint[], gone_lasts bigint[],
    longer_parts int[], longer_firsts bigint[], longer_lasts bigint[], longer_were bigint[],
    new_parts int[], new_firsts bigint[], new_lasts bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF keylane.mark(in_scope, gone_parts, gone_firsts, gone_lasts, longer_parts, longer_firsts, longer_lasts, longer_were,
                    new_parts, new_firsts, new_lasts)
       <> cardinality(gone_parts) + cardinality(longer_parts) + cardinality(new_parts)
    THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'keylane: the markers changed while they were written';
    END IF;
END $$;

-- One plan for every call: to plan `reach` anew for each batch costs four times what it does. And that plan goes by the indexes, however
-- few rows there were when it was made.
ALTER FUNCTION keylane.reach(bigint, int[], bigint[], bigint[], bigint[]) SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION keylane.reach(bigint, int[], bigint[], bigint[], bigint[]) SET enable_seqscan = off;
