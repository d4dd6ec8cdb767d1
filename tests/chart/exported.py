"""What a running sidecar and a running board really show at /metrics, held to the catalogue and put to promtool."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
import tomllib
import urllib.request

from commands import BINARY
from rendered import run
from watching import CATALOGUE


def shown_by(program):
    """Every metric that the catalogue says this program shows."""
    knows = {program, "worker"} if program == "sidecar" else {program}  # a worker's numbers are shown by its sidecar
    return {m["name"]: m for m in tomllib.loads(CATALOGUE.read_text())["metric"] if knows & set(m["source"])}


def against(page, program):
    """What is wrong with this page of that program."""
    metrics, families = shown_by(program), {}
    for line in page.splitlines():
        if match := re.match(r"# TYPE (\S+) (\S+)", line):
            families[match[1]] = match[2]
        if line.startswith("#"):
            continue
        name, labels = re.match(r"([^{ ]+)(?:\{(.*)\})? ", line).groups()
        family = next((f for f in (name, re.sub("_(bucket|sum|count)$", "", name)) if f in metrics), None)
        if family is None:
            yield f"{program}: {name} is not in the catalogue as a metric of it"
            continue
        names = [label for label in re.findall(r'(\w+)="', labels or "") if label != "le"]
        if names != metrics[family]["labels"] or families.get(family) != metrics[family]["kind"]:
            yield f"{program}: {name} has the labels {names} and the kind {families.get(family)}"
    yield from (f"{program}: {name} is in the catalogue and not shown" for name in metrics if name not in families)
    done = run(os.environ["PROMTOOL"], "check", "metrics", input=page)
    if done.returncode:
        yield f"{program}: promtool: {done.stdout}{done.stderr}"


@contextlib.contextmanager
def running(folder, *arguments):
    """A program that serves; its address, which is in its first line."""
    process = subprocess.Popen([BINARY, *arguments, "-ojson"], cwd=folder, env={}, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())[arguments[0]]
    finally:
        process.terminate()
        process.wait()


def scraped():
    """The pages of a sidecar and a board while a worker holds three partitions, works, and knows what waits."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        run(BINARY, "queue", "create", "jobs", "--partitions=3", cwd=folder)
        for key in "abcdefgh":
            run(BINARY, "enqueue", "--one", key, "--body", "1", cwd=folder)
        handler = 'while read -r line; do case "$line" in *last*) sleep 300;; esac; echo \'{"outcome":"done"}\'; done'
        run(BINARY, "enqueue", "--one", "last", "--body", "1", cwd=folder)
        worker = [BINARY, "work", "--snapshot-file=s.json", "-q", "--exec", "sh", "-c", handler]
        path = {"PATH": os.environ["PATH"]}
        worker = subprocess.Popen(worker, cwd=folder, env=path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(worker.wait)
        stack.callback(worker.kill)
        sidecar = stack.enter_context(running(folder, "sidecar", "--snapshot-file=s.json", "--listen=127.0.0.1:0"))
        at = sidecar.removeprefix("http://")
        board = stack.enter_context(running(folder, "board", f"--sidecar={at}", "--listen=127.0.0.1:0"))
        pages = {}
        for _ in range(300):
            pages = {"sidecar": get(sidecar), "board": get(board)}
            waits = "keylane_partition_oldest_waiting_timestamp_seconds{" in pages["sidecar"]
            if waits and all('state="held"} 3' in page and "keylane_partition_lag_jobs{" in page for page in pages.values()):
                break
            time.sleep(0.1)
        return pages


def get(address):
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
        return answer.read().decode()


def objections():
    for program, page in scraped().items():
        yield from against(page, program)


def twins():
    """Each breaks a good page; somebody must object."""
    page = scraped()["sidecar"]
    breaks = {
        "a metric of nobody": page + "# TYPE keylane_x gauge\nkeylane_x 1\n",
        "a label too much": page.replace('keylane_lag_jobs{topic="jobs"}', 'keylane_lag_jobs{topic="jobs",key="c-42"}'),
        "a metric that is not shown": re.sub(r"(?m)^.*keylane_snapshot_bytes.*\n", "", page),
        "another kind": page.replace("# TYPE keylane_lag_jobs gauge", "# TYPE keylane_lag_jobs counter"),
        "no text of help": page.replace("# HELP keylane_lag_jobs", "# HALP keylane_lag_jobs"),
        "a worker's number that is not shown": re.sub(r"(?m)^.*keylane_jobs_finished_total.*\n", "", page),
        "a metric of the board's": page + "# TYPE keylane_board_sidecars gauge\nkeylane_board_sidecars 1\n",
    }
    for what, broken in breaks.items():
        if broken == page or not list(against(broken, "sidecar")):
            yield f"{what} passes"
