-- What every write says besides its effects. The server keeps the plans of what is in a function, without any state of a
-- session that a pooler would lose; to plan it anew costs as much as fifty small effects. They run with the caller's rights.

-- Which of these claims hold, by their places from 1; locked, shared, in the order of their partitions.
CREATE FUNCTION keylane.holds(in_scope bigint, parts int[], epochs bigint[], gens bigint[], claims bigint[])
RETURNS SETOF bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    here text := keylane.timeline();
BEGIN
    RETURN QUERY
    SELECT t.at FROM keylane.fence AS f
    JOIN unnest(parts, epochs, gens, claims) WITH ORDINALITY AS t (part, epoch, gen, claim, at)
      ON f.part = t.part AND f.epoch = t.epoch AND f.gen = t.gen AND f.claim = t.claim
    WHERE f.scope = in_scope AND NOT f.closed AND f.timeline IN ('', here)
      AND NOT EXISTS (SELECT 1 FROM keylane.fence_intent AS i
                      WHERE i.scope = f.scope AND i.part = f.part AND (i.epoch, i.gen) > (f.epoch, f.gen))
    ORDER BY f.part FOR SHARE OF f;
END $$;

-- The marker rows that a write can change (0), what handlers did by themselves (1), whether any job is suspected (2).
CREATE FUNCTION keylane.reach(in_scope bigint, parts int[], marks bigint[], lows bigint[], highs bigint[])
RETURNS TABLE (kind int, part int, first bigint, last bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT 0, w.part, m.first, m.last
    FROM unnest(parts, marks, lows, highs) AS w (part, mark, low, high)
    CROSS JOIN LATERAL (
        SELECT x.first, x.last FROM keylane.marker AS x WHERE x.scope = in_scope AND x.part = w.part AND x.first <= w.mark
        UNION
        SELECT x.first, x.last FROM keylane.marker AS x WHERE x.scope = in_scope AND x.part = w.part AND x.first <= w.high
           AND x.first >= coalesce(
               (SELECT max(y.first) FROM keylane.marker AS y WHERE y.scope = in_scope AND y.part = w.part AND y.first < w.low),
               w.low)
    ) AS m
    UNION ALL
    SELECT 1, w.part, a."offset", a."offset"
    FROM unnest(parts, marks, highs) AS w (part, mark, high)
    JOIN keylane.admitted AS a ON a.scope = in_scope AND a.part = w.part AND a."offset" < greatest(w.mark, w.high)
    UNION ALL
    SELECT 2, 0, 0, 0 WHERE EXISTS (SELECT 1 FROM keylane.suspect AS s WHERE s.scope = in_scope AND s.part = ANY (parts));
END $$;

-- Changes marker rows, as far as each is still as it was read; how many it changed.
CREATE FUNCTION keylane.mark(
    in_scope bigint, gone_parts int[], gone_firsts bigint[], gone_lasts bigint[],
    longer_parts int[], longer_firsts bigint[], longer_lasts bigint[], longer_were bigint[],
    new_parts int[], new_firsts bigint[], new_lasts bigint[])
RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    changed bigint := 0;
    rows bigint;
BEGIN
    IF cardinality(gone_parts) > 0 THEN
        DELETE FROM keylane.marker AS m USING unnest(gone_parts, gone_firsts, gone_lasts) AS g (part, first, last)
        WHERE m.scope = in_scope AND m.part = g.part AND m.first = g.first AND m.last = g.last;
        GET DIAGNOSTICS rows = ROW_COUNT;
        changed := changed + rows;
    END IF;
    IF cardinality(longer_parts) > 0 THEN
        UPDATE keylane.marker AS m SET last = l.last
        FROM unnest(longer_parts, longer_firsts, longer_lasts, longer_were) AS l (part, first, last, was)
        WHERE m.scope = in_scope AND m.part = l.part AND m.first = l.first AND m.last = l.was;
        GET DIAGNOSTICS rows = ROW_COUNT;
        changed := changed + rows;
    END IF;
    IF cardinality(new_parts) > 0 THEN
        INSERT INTO keylane.marker (scope, part, first, last)
        SELECT in_scope, n.part, n.first, n.last FROM unnest(new_parts, new_firsts, new_lasts) AS n (part, first, last);
        GET DIAGNOSTICS rows = ROW_COUNT;
        changed := changed + rows;
    END IF;
    RETURN changed;
END $$;
