# A handler that writes its own tables, with nothing but a shell and psql.
#
#     DATABASE_URL=postgres://keylane_handler@db.example/shop \
#     keylane work --store postgres://... --fence-to-handler --exec sh handler.sh
#
# The job goes to psql on its standard input: others can read the arguments and the environment of a process.

while IFS= read -r line; do
    job=$(printf '%s' "$line" | sed "s/'/''/g")
    told=$(psql "$DATABASE_URL" -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate 2>&1 >/dev/null <<SQL
BEGIN;
SELECT keylane.admit('$job'::json ->> 'sensitive_fence');
INSERT INTO payment (job, account, amount)
    SELECT job ->> 'id', job ->> 'key', ((job ->> 'payload')::json ->> 'amount')::numeric FROM (SELECT '$job'::json AS job) AS given;
COMMIT;
SQL
    ) && told=COMMITTED
    case $told in
        COMMITTED | *KL002*) printf '{"outcome":"done"}\n' ;; # now, or by an earlier try
        *KL001*)
            echo 'KL001: not mine any more, nothing written' >&2
            printf '{"outcome":"retry","reason":"KL001"}\n' ;;
        *) printf '{"outcome":"retry","reason":"psql failed: %s"}\n' "$(printf '%s' "$told" | tail -n 1 | tr -dc 'A-Za-z0-9: ')" ;;
    esac
done
