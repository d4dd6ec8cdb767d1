"""The checks, one after another; ends with 1 if one of them objects."""

import copy
import os
import re
import sys
import time

import commands
import exported
import policy
import watching
from rendered import CHART, HELMS, ROOT, VERSIONS, helm, invalid, parse, pods, render, run

SETS = [None, *sorted(CHART.glob("ci/*-values.yaml"))]
failed = []


def check(claim, objections):
    objections = list(objections)
    print(f"{'ok  ' if not objections else 'FAIL'} {claim}")
    for objection in objections[:20]:
        print(f"       {objection}")
    failed.extend(objections)


def name_of(values):
    return values.name.removesuffix("-values.yaml") if values else "default"


def flags(values):
    return [f"--values={values}"] if values else []


def each_set():
    for values in SETS:
        for which in HELMS:
            linted = helm(which, "lint", "--strict", str(CHART), "--kube-version=1.33.0", *flags(values))
            if linted.returncode:
                yield f"{name_of(values)}: {which} lint: {linted.stdout}{linted.stderr}"
        for version in VERSIONS:
            documents, refusal = render(*flags(values), kubernetes_version=version)
            if documents is None:
                yield f"{name_of(values)}: {refusal}"
                return
            yield from (f"{name_of(values)} on {version}: {why}" for d in documents if (why := invalid(d, version)))
        older, refusal = render(*flags(values), which="helm 3")
        if older is None or sorted(map(str, older)) != sorted(map(str, render(*flags(values))[0])):
            yield f"{name_of(values)}: Helm 3 and 4 render different objects {refusal}"
        yield from (f"{name_of(values)}: {o}" for o in policy.objections(documents, network=name_of(values) != "minimal"))
        yield from (f"{name_of(values)}: {o}" for o in policy.selects_nothing(documents))
        yield from (f"{name_of(values)}: {o}" for o in commands.objections(documents))


def hostile_text_arrives():
    import yaml
    values = yaml.safe_load((CHART / "ci/hostile-values.yaml").read_text())
    documents, _ = render(f"--values={CHART / 'ci/hostile-values.yaml'}")
    worker = next(pod for name, pod in pods(documents) if name.endswith("worker"))
    container = worker["spec"]["containers"][0]
    if container["args"][container["args"].index("--exec") + 1:] != values["handler"]["exec"]:
        yield f"exec became {container['args']}"
    if container["env"][1:] != values["handler"]["env"]:
        yield f"env became {container['env']}"
    if worker["metadata"]["annotations"] != values["worker"]["podAnnotations"]:
        yield f"annotations became {worker['metadata']['annotations']}"


KAFKA = ["--set=broker.url=kafka://k", "--set=store.url=postgres://u@db/d"]
# What is refused, and a word of the reason.
REFUSED = [
    (["--set=replicas=3"], "replicas"),
    (["--set=worker.replica=3"], "replica"),
    (["--set=worker.resources.limit.cpu=1"], "limit"),
    (["--set-string=worker.replicas=3"], "replicas"),
    (["--set=worker.replicas=2"], "one machine"),
    (["--set=worker.replicas=2", "--set=broker.url=kafka://k", "--set=store.url=sqlite:/var/lib/keylane/s.db"], "one machine"),
    (["--set=broker.url=kafka://k"], "store.url"),
    (["--set=broker.url=redis://k"], "url"),
    (["--set=broker.url=sqlite:/etc/passwd"], "url"),
    (["--set=broker.url=sqlite:/var/lib/keylane/../../x"], "url"),
    (["--set=broker.url=kafka://k\n- --store=x"], "url"),
    ([KAFKA[0], "--set=store.url=postgres://u:pw@db/d"], "url"),
    ([KAFKA[0], "--set=store.url=postgres://u@db/d?password=hunter2"], "mounted file"),
    ([KAFKA[0], "--set=store.url=postgres://u@db/d?password=env:PW"], "mounted file"),
    ([KAFKA[0], "--set=store.url=postgres://u@db/d?password=file:/etc/keylane/postgres/password"], "secretName"),
    ([*KAFKA, r"--set=broker.properties.sasl\.password=hunter2"], "secret"),
    ([*KAFKA, r"--set=broker.properties.sasl\.password=env:PW"], "properties"),
    ([*KAFKA, r"--set=broker.properties.sasl\.password=file:/etc/keylane/kafka/password"], "secretName"),
    ([r"--set=broker.properties.acks=1"], "kafka"),
    (["--set=handler.fence=true", "--set=handler.exec={./h}"], "Postgres"),
    (["--set=handler.image.repository=x", "--set-string=handler.image.tag=1"], "handler.exec"),
    (["--set=handler.image.repository=x", "--set=handler.exec={./h}"], "digest"),
    (["--set=handler.timeoutSeconds=61"], "drainTimeoutSeconds"),
    (["--set=handler.runAsUser=0"], "runAsUser"),
    (["--set=handler.runAsUser=65533"], "runAsUser"),
    (["--set=handler.env[0].name=A", "--set=handler.env[0].valueFrom.secretKeyRef.name=x"], "env"),
    (["--set=handler.env[0].name=KEYLANE_BROKER", "--set=handler.env[0].value=x"], "env"),
    (["--set=handler.files[0].secretName=x", "--set=handler.files[0].mountPath=/run/keylane/x"], "mountPath"),
    (["--set=handler.files[0].secretName=x", "--set=handler.files[0].configMapName=y", "--set=handler.files[0].mountPath=/x"], "files"),
    (["--set=worker.extraArgs={--concurrency=4}"], "extraArgs"),
    (["--set=worker.extraArgs={--show-keys=text}"], "extraArgs"),
    (["--set=worker.showKeys=all"], "showKeys"),
    (["--set=worker.extraArgs={rm}"], "extraArgs"),
    (["--set=sidecar.enabled=false"], "board"),
    (["--set=worker.probes.startupSeconds=1"], "startupSeconds"),
    (["--set=worker.metricsPort=9464"], "metricsPort"),
    (["--set=sidecar.port=80"], "port"),
    (["--set=board.lostAfterSeconds=5"], "staleAfterSeconds"),
    ([r"--set=worker.podLabels.app\.kubernetes\.io/name=x"], "app.kubernetes.io/name"),
    (["--set=queue.name=a b"], "name"),
    (["--set=image.tag=a\nb"], "tag"),
    (["--set=image.digest=sha256:1"], "digest"),
]


def refusals():
    for arguments, word in REFUSED:
        for which in HELMS:
            documents, said = render(*arguments, which=which)
            if documents is not None:
                yield f"{which}: not refused: {arguments}"
            elif word not in said:
                yield f"{which}: {arguments}: the reason does not say '{word}': {said}"
    if render(kubernetes_version="1.28")[0] is not None:
        yield "Kubernetes 1.28, which has no native sidecars, is not refused"


def worker(documents):
    return next(d for d in documents if d["kind"] == "Deployment" and d["metadata"]["name"].endswith("worker"))["spec"]["template"]["spec"]


def first(documents, kind):
    return next(d for d in documents if d["kind"] == kind)


def drop(documents, kind):
    documents[:] = [d for d in documents if d["kind"] != kind]


def argument(documents, old, new):
    arguments = worker(documents)["containers"][0]["args"]
    arguments[arguments.index(old)] = new


# Each breaks a good rendering; somebody must object, with this word.
TWINS = [
    (lambda d: worker(d)["containers"][0]["securityContext"].pop("readOnlyRootFilesystem"), "readOnlyRootFilesystem"),
    (lambda d: worker(d)["initContainers"][0]["securityContext"].pop("runAsUser"), "root"),
    (lambda d: worker(d)["containers"][0]["securityContext"]["capabilities"].update(add=["NET_RAW"]), "capabilities"),
    (lambda d: worker(d)["containers"][0].pop("resources"), "limit of memory"),
    (lambda d: worker(d)["containers"][0]["env"].append({"name": "PW", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}), "secrets are files"),
    (lambda d: worker(d)["containers"][0]["env"].append({"name": "API_TOKEN", "value": "x"}), "secrets are files"),
    (lambda d: worker(d)["containers"][0].update(envFrom=[{"secretRef": {"name": "x"}}]), "secrets are files"),
    (lambda d: worker(d).update(automountServiceAccountToken=True), "token of the Kubernetes API"),
    (lambda d: worker(d).update(serviceAccountName="default"), "default account"),
    (lambda d: worker(d).update(shareProcessNamespace=True), "shares"),
    (lambda d: worker(d).update(terminationGracePeriodSeconds=30), "before its drain"),
    (lambda d: worker(d)["volumes"][0].update(emptyDir={}), "fill the node"),
    (lambda d: worker(d)["volumes"].append({"name": "s", "secret": {"secretName": "x"}}), "read by others"),
    (lambda d: worker(d)["initContainers"][-1]["securityContext"].update(runAsUser=65532), "worker's user"),
    (lambda d: worker(d)["initContainers"][0]["securityContext"].update(runAsUser=7), "another user makes"),
    (lambda d: worker(d)["initContainers"][-1].pop("restartPolicy"), "native sidecar"),
    (lambda d: worker(d)["initContainers"][-1]["volumeMounts"][0].pop("readOnly"), "worker reads"),
    (lambda d: first(d, "ServiceAccount").pop("automountServiceAccountToken"), "token would be mounted"),
    (lambda d: drop(d, "NetworkPolicy"), "NetworkPolicy"),
    (lambda d: first(d, "NetworkPolicy")["spec"]["ingress"].append({}), "anybody"),
    (lambda d: first(d, "NetworkPolicy")["spec"]["egress"].append({}), "any port"),
    (lambda d: first(d, "Service")["spec"]["selector"].update(x="y"), "selects no pod"),
    (lambda d: first(d, "Service")["spec"]["ports"][0].update(targetPort="none"), "port 'none'"),
    (lambda d: worker(d).update(replica=3), "replica"),
    (lambda d: first(d, "PodDisruptionBudget")["spec"].update(maxUnavailable=[]), "maxUnavailable"),
    (lambda d: first(d, "Service").update(kind="ServiceMonitor"), "no schema"),
    (lambda d: first(d, "Service").update(apiVersion="v2"), "no schema"),
    (lambda d: argument(d, "--concurrency=16", "--concurrency=0"), "from 1"),
    (lambda d: argument(d, "--concurrency=16", "--concurency=4"), "concurency"),
    (lambda d: argument(d, "--session-timeout=15s", "--session-timeout=0s"), "session"),
    (lambda d: argument(d, "--builtin=print", "--exec"), "--exec"),
    (lambda d: worker(d)["containers"][0].update(command=["sh", "-c"]), "runs"),
    (lambda d: worker(d)["containers"][0].update(readinessProbe={"httpGet": {"path": "/readyz", "port": 9464}}), "nothing listens"),
    (lambda d: worker(d)["containers"][0].pop("startupProbe"), "waits for its broker"),
    (lambda d: worker(d)["containers"][0]["args"].remove("--snapshot-file=/run/keylane/snapshot.json"), "does not write"),
    (lambda d: worker(d)["containers"][0]["livenessProbe"]["exec"]["command"].__setitem__(0, "/bin/keylane"), "a probe runs"),
    (lambda d: worker(d)["containers"][0]["livenessProbe"]["exec"]["command"].__setitem__(2, "alive"), "alive"),
    (lambda d: worker(d)["containers"][0]["args"].insert(1, "--kafka-properties=/etc/keylane/kafka/p"), "not mounted"),
]


def twins():
    good, _ = render()
    for number, (breaks, word) in enumerate(TWINS):
        broken = copy.deepcopy(good)
        breaks(broken)
        said = [why for d in broken if (why := invalid(d, "1.33"))]
        said += policy.objections(broken) + list(policy.selects_nothing(broken)) + commands.objections(broken)
        if not any(word in why for why in said):
            yield f"twin {number}: nobody said '{word}', only {said}"
    monitored, _ = render("--set=podMonitor.enabled=true,prometheusRule.enabled=true")
    for kind, breaks in (("PodMonitor", lambda d: d["spec"]["podMetricsEndpoints"][0].update(pth="/")), ("PrometheusRule", lambda d: d["spec"]["groups"][0].update(rule=[]))):
        broken = copy.deepcopy(first(monitored, kind))
        breaks(broken)
        if not invalid(broken, "1.33"):
            yield f"an unknown field in a {kind} passes"
    try:
        parse("a: 1\nb: 2\na: 3\n")
        yield "a key that stands twice passes"
    except Exception:
        pass


def what_is_watched():
    series, found = watching.catalogue()
    yield from found
    rules = watching.RULES.read_text()
    for rule in parse(rules)[0]["groups"][0]["rules"]:
        yield from (f"{rule['alert']}: {what}" for what in watching.unknown(rule["expr"], series))
    yield from watching.dashboard_objections(watching.dashboard(), series)
    if said := watching.promtool(rules):
        yield said
    rendered, _ = render("--set=prometheusRule.enabled=true,dashboard.enabled=true")
    if first(rendered, "PrometheusRule")["spec"] != parse(rules)[0]:
        yield "the PrometheusRule is not the rules file"
    if parse(first(rendered, "ConfigMap")["data"]["keylane.json"])[0] != watching.dashboard():
        yield "the ConfigMap is not the dashboard"


def twins_of_watching():
    series, _ = watching.catalogue()
    for query in ("sum(keylane_lag)", 'keylane_lag_jobs{key="x"}', "sum by (offset_) (keylane_lag_jobs)", "keylane_http_request_duration_seconds", "kafka_lag > 0", "up == 0"):
        if not watching.unknown(query, series):
            yield f"{query} passes"
    for bad in ("keylane_jobs_total", "keylane_lag"):
        text = f'[[metric]]\nname="{bad}"\nkind="{"gauge" if bad.endswith("total") else "counter"}"\nlabels=[]\nunit=""\nsource=["worker"]\nhelp="x."\n'
        if not watching.catalogue(text)[1]:
            yield f"{bad} passes"
    if not watching.catalogue('[[metric]]\nname="keylane_x"\nkind="gauge"\nlabels=["key"]\nunit=""\nsource=["worker"]\nhelp="x."\n')[1]:
        yield "a label `key` passes"
    board = watching.dashboard()
    board["panels"][1]["targets"][0]["expr"] = "keylane_nothing"
    board["panels"][2]["description"] = ""
    if len(watching.dashboard_objections(board, series)) != 2:
        yield "a bad dashboard passes"
    rules = watching.RULES.read_text()
    for old, new in (("sum by (namespace, topic) (", "sum by (namespace, topic (", ), ("    rules:\n", "    rules:\n      - {record: a, expr: '1'}\n      - {record: a, expr: '1'}\n"),
                     ("> 900", "> 90000"), ("for: 2m\n", "for: 0m\n"), ("absent(keylane_board_sidecars)", "keylane_board_sidecars < 0")):
        if old not in rules or not watching.promtool(rules.replace(old, new, 1)):
            yield f"promtool passes '{new}' for '{old}'"


def image():
    dockerfile = ROOT / "Dockerfile"
    text = dockerfile.read_text()
    done = run(os.environ["HADOLINT"], str(dockerfile))
    if done.returncode:
        yield done.stdout + done.stderr
    final = re.split(r"(?m)^FROM ", text)[-1]
    if f" {commands.IN_THE_IMAGE}\n" not in final or "USER 65532" not in final:
        yield f"the image has no {commands.IN_THE_IMAGE}, or another user than the chart's"
    bad = run(os.environ["HADOLINT"], "-", input="FROM debian\nRUN cd /tmp && apt-get install curl\n")
    if not bad.returncode:
        yield "hadolint passes a bad recipe"


began = time.monotonic()
check("every set of values renders alike with Helm 3 and 4, by the schemas, hardened, as the program takes it", each_set())
check("hostile text arrives as it is", hostile_text_arrives())
check("what the chart does not know or cannot keep is refused, with the reason", refusals())
check("a broken rendering is objected to", twins())
check("what a sidecar and a board show is by the catalogue, all of it, and promtool takes it", exported.objections())
check("a page of metrics that is not by the catalogue is objected to", exported.twins())
check("alerts and dashboard name metrics of the catalogue only, and the alerts' tests hold", what_is_watched())
check("a bad alert, query or metric is objected to", twins_of_watching())
check("the image's recipe is clean and has what the chart runs", image())
print(f"{time.monotonic() - began:.0f} s")
sys.exit(1 if failed else 0)
