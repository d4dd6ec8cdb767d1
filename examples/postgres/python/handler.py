"""A handler that writes its own tables, in Python with psycopg 3.

    pip install -r requirements.txt
    DATABASE_URL=postgres://keylane_handler@db.example/shop \
    keylane work --store postgres://... --fence-to-handler --exec python3 handler.py
"""

import json
import os
import sys

import psycopg

STALE = "KL001"  # a newer owner has claimed the partition of this job
DONE_ALREADY = "KL002"  # an earlier try of this job has committed


def work(database, job):
    body = json.loads(job["payload"])
    with database.transaction():
        database.execute("SELECT keylane.admit(%s)", [job["sensitive_fence"]])
        database.execute(
            "INSERT INTO payment (job, account, amount) VALUES (%s, %s, %s)",
            [job["id"], job["key"], body["amount"]],
        )


def answer(database, job):
    try:
        work(database, job)
    except psycopg.Error as error:
        if error.sqlstate == DONE_ALREADY:
            return {"outcome": "done"}
        if error.sqlstate == STALE:
            print(f"{STALE}: not mine any more, nothing written", file=sys.stderr, flush=True)
        if database.broken:
            sys.exit(1)  # the worker starts another one, which connects anew
        return {"outcome": "retry", "reason": f"{error.sqlstate}: {error.diag.message_primary}"}
    except (KeyError, TypeError, ValueError) as error:
        return {"outcome": "reject", "reason": repr(error)}
    return {"outcome": "done"}


with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as database:
    for line in sys.stdin.buffer:
        job = json.loads(line)
        print(json.dumps({"id": job["id"], **answer(database, job)}), flush=True)
