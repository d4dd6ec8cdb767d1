"""Alerts and dashboard: they name only metrics and labels of the catalogue, `sidecar/metrics.toml`."""

import json
import os
import re
import tempfile
import tomllib

from rendered import CHART, HERE, ROOT, run

CATALOGUE = ROOT / "sidecar/metrics.toml"
RULES = CHART / "files/rules.yaml"
DASHBOARD = CHART / "dashboards/keylane.json"
FUNCTIONS = set("absent histogram_quantile increase max min rate sum time".split())
WORDS = set("and or unless on ignoring by without group_left group_right bool offset".split())
OF_THE_SCRAPE = {"job", "namespace", "pod", "group", "le"}
LABELS = set("topic partition outcome reason state direction stage target handler class type freshness route code".split())
INFO = {"version", "revision", "group", "membership", "protocol", "handler_kind"}


def catalogue(text=None):
    """Every series name with its labels; objections to the catalogue itself."""
    series, found = {}, []
    for metric in tomllib.loads(text or CATALOGUE.read_text())["metric"]:
        name, kind = metric["name"], metric["kind"]
        if not re.fullmatch(r"(keylane|process)_[a-z_]+", name) or name in series:
            found.append(f"{name}: not a name, or twice")
        if kind not in ("counter", "gauge", "histogram") or (kind == "counter") != name.endswith("_total"):
            found.append(f"{name}: a {kind} of that name")
        if (kind == "histogram") != ("buckets" in metric) or metric.get("buckets", []) != sorted(set(metric.get("buckets", []))):
            found.append(f"{name}: buckets belong to histograms, and rise")
        if not set(metric["labels"]) <= (INFO if name.endswith("_info") else LABELS):
            found.append(f"{name}: labels {metric['labels']} are not all of the closed list")
        if not metric["help"].endswith(".") or not metric["source"] or not set(metric["source"]) <= {"producer", "worker", "sidecar", "board"}:
            found.append(f"{name}: needs a sentence of help and who shows it")
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            series[name + suffix] = set(metric["labels"])
    return series, found


def unknown(expression, series):
    """What this query names that the catalogue does not. Dashboard variables stand for values and durations only."""
    found = []
    known = lambda label: label in OF_THE_SCRAPE
    rest = re.sub(r"\"(\\.|[^\"\\])*\"", '""', expression)
    for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}", rest):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            if not known(label) and label not in series.get(name, ()):
                found.append(f"{name} has no label '{label}'")
    everywhere = set().union(*(series.get(name, set()) for name in re.findall(r"[a-zA-Z_:][\w:]*", rest)))
    for labels in re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", rest):
        found += [f"no metric here has the label '{label}'" for label in re.findall(r"\w+", labels) if not known(label) and label not in everywhere]
    rest = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", rest)
    for name in re.findall(r"(?<![\w.])[a-zA-Z_:][\w:]*", rest):
        if name not in series and name not in FUNCTIONS and name not in WORDS:
            found.append(f"'{name}' is no metric of the catalogue")
    return found


def queries(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])[1]


def dashboard_objections(dashboard, series):
    found = [f"{title}: {what}" for title, query in queries(dashboard) for what in unknown(query, series)]
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    found += [f"{p['title']}: needs a description and a unit" for p in panels if not p.get("description") or not p["fieldConfig"]["defaults"].get("unit")]
    ids = [panel["id"] for panel in dashboard["panels"]]
    return found + ["panel ids stand twice"] * (len(ids) != len(set(ids)))


def dashboard():
    return json.loads(DASHBOARD.read_text())


def promtool(rules, tests=None):
    """What promtool says against these rules and their tests; with the queries of the dashboard as rules too."""
    tool = os.environ["PROMTOOL"]
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in ("rules.yaml", "tests.yaml", "dashboard.yaml")}
        queries_as_rules = [{"record": f"panel:{n}", "expr": q.replace("$__rate_interval", "5m")} for n, (_, q) in enumerate(queries(dashboard()))]
        texts = {
            "rules.yaml": rules,
            "tests.yaml": (tests or (HERE / "rules-test.yaml").read_text()).replace("RULES", paths["rules.yaml"]),
            "dashboard.yaml": json.dumps({"groups": [{"name": "panels", "rules": queries_as_rules}]}),
        }
        for name, text in texts.items():
            with open(paths[name], "w") as file:
                file.write(text)
        for command in (["check", "rules", "--lint-fatal", paths["rules.yaml"], paths["dashboard.yaml"]], ["test", "rules", paths["tests.yaml"]]):
            done = run(tool, *command)
            if done.returncode:
                return done.stdout + done.stderr
    return ""
