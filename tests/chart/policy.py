"""What every rendering must keep. Each function gives objections; none means that all is well."""

import re

from rendered import containers, pods, seconds


def objections(documents, network=True):
    found = []
    for name, pod in pods(documents):
        for container in containers(pod):
            found += hardened(f"{name}/{container['name']}", container, pod["spec"])
        found += pod_of(name, pod["spec"])
        found += belongs_together(name, pod, documents, network)
    accounts = [d for d in documents if d["kind"] == "ServiceAccount"]
    found += [f"{d['metadata']['name']}: its token would be mounted" for d in accounts if d.get("automountServiceAccountToken") is not False]
    names = [(d["kind"], d["metadata"]["name"]) for d in documents]
    found += [f"{name}: stands twice" for name in sorted(set(names)) if names.count(name) > 1]
    found += [f"{kind} is none of this chart's kinds" for kind, _ in names if kind in ("Secret", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")]
    found += [f"{kind} {name}: not a name" for kind, name in names if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", name)]
    found += [f"{d['metadata']['name']}: not in the release's namespace" for d in documents if d["metadata"].get("namespace") != "prod"]
    return found


def hardened(name, container, pod):
    held = container.get("securityContext", {})
    found = []
    for key, value in {"runAsNonRoot": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "privileged": False,
                       "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}.items():
        if held.get(key) != value:
            found.append(f"{name}: {key} is {held.get(key)}, not {value}")
    if not held.get("runAsUser"):
        found.append(f"{name}: runs as root, or as whom the image likes")
    resources = container.get("resources", {})
    if not {"cpu", "memory"} <= resources.get("requests", {}).keys() or "memory" not in resources.get("limits", {}):
        found.append(f"{name}: needs requests of cpu and memory, and a limit of memory")
    for variable in container.get("env", []):
        if "valueFrom" in variable and "fieldRef" not in variable["valueFrom"] or re.search("(?i)token|passw|secret", variable["name"]):
            found.append(f"{name}: {variable['name']}: secrets are files")
    if container.get("envFrom"):
        found.append(f"{name}: envFrom: secrets are files")
    if any(port["containerPort"] < 1024 or "hostPort" in port for port in container.get("ports", [])):
        found.append(f"{name}: listens on a port of root's, or of the host's")
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        volume = volumes.get(mount["name"])
        if volume is None:
            found.append(f"{name}: mounts '{mount['name']}', which no volume is")
        elif ("secret" in volume or "configMap" in volume) and not mount.get("readOnly"):
            found.append(f"{name}: may write to '{mount['name']}'")
        elif "secret" in volume and container["name"] not in ("worker", "queue"):
            found.append(f"{name}: has the secret '{mount['name']}', which only a worker needs")
    paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
    if len(paths) != len(set(paths)):
        found.append(f"{name}: two volumes at one path")
    if container["name"] == "sidecar":
        if container.get("restartPolicy") != "Always":
            found.append(f"{name}: is no native sidecar")
        if any(not mount.get("readOnly") for mount in container["volumeMounts"]):
            found.append(f"{name}: may write to what the worker reads")
        if "readinessProbe" in container or "startupProbe" in container:
            found.append(f"{name}: a probe of it would hold up the worker")
    return found


def pod_of(name, pod):
    found = []
    if pod.get("automountServiceAccountToken") is not False:
        found.append(f"{name}: a token of the Kubernetes API is mounted")
    if pod.get("serviceAccountName", "default") == "default":
        found.append(f"{name}: uses the default account")
    if any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")):
        found.append(f"{name}: shares what is the host's or another container's")
    for volume in pod.get("volumes", []):
        if "hostPath" in volume:
            found.append(f"{name}: mounts the host's {volume['hostPath']}")
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            found.append(f"{name}: '{volume['name']}' may fill the node")
        if "secret" in volume and volume["secret"].get("defaultMode") != 0o400:
            found.append(f"{name}: '{volume['name']}' may be read by others")
    workers = [c for c in pod["containers"] if c["name"] == "worker"]
    for worker in workers:
        flags = dict(a.split("=", 1) for a in worker["args"][: worker["args"].index("--exec") if "--exec" in worker["args"] else None] if "=" in a)
        if pod["terminationGracePeriodSeconds"] < seconds(flags["--drain-timeout"]) + 15:
            found.append(f"{name}: is killed before its drain is over")
        probes = {probe: worker[probe] for probe in ("startupProbe", "livenessProbe", "readinessProbe") if probe in worker}
        found += [f"{name}: {probe} calls a worker, where nothing listens" for probe, asked in probes.items() if "exec" not in asked]
        if probes and not {"startupProbe", "livenessProbe"} <= probes.keys():
            found.append(f"{name}: would be killed while it waits for its broker")
        asked = {flag for probe in probes.values() for flag in probe.get("exec", {}).get("command", []) if flag.startswith("--snapshot-file=")}
        if asked - set(worker["args"]):
            found.append(f"{name}: its probes ask a file that it does not write")
        users = {c["name"]: c["securityContext"].get("runAsUser") for c in containers({"spec": pod})}
        if users.get("queue", users["worker"]) != users["worker"]:
            found.append(f"{name}: another user makes the file that the worker writes")
        if "sidecar" in users and users["sidecar"] == users["worker"]:
            found.append(f"{name}: the sidecar is the worker's user and could read its environment")
    return found


def belongs_together(name, pod, documents, network):
    labels = pod["metadata"]["labels"]
    covers = lambda selector: selector.items() <= labels.items()
    found = []
    policies = [d["spec"] for d in documents if d["kind"] == "NetworkPolicy" and covers(d["spec"]["podSelector"]["matchLabels"])]
    if network and not any(set(p["policyTypes"]) == {"Ingress", "Egress"} for p in policies):
        found.append(f"{name}: no NetworkPolicy bounds both its ways")
    for policy in policies:
        found += [f"{name}: may be reached by anybody" for rule in policy.get("ingress", []) if not rule.get("from") or not rule.get("ports")]
        found += [f"{name}: may reach any port" for rule in policy.get("egress", []) if not rule.get("ports") and not rule.get("to")]
    accounts = [d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"]
    if pod["spec"].get("serviceAccountName") not in accounts:
        found.append(f"{name}: its account is not made")
    ports = {port[key] for c in containers(pod) for port in c.get("ports", []) for key in ("name", "containerPort")}
    for service in (d for d in documents if d["kind"] == "Service" and covers(d["spec"]["selector"])):
        found += [f"{name}: its Service names the port '{p['targetPort']}', which it has not" for p in service["spec"]["ports"] if p["targetPort"] not in ports]
    for container in containers(pod):
        for probe in ("livenessProbe", "readinessProbe"):
            if "httpGet" in container.get(probe, {}) and container[probe]["httpGet"]["port"] not in {p["name"] for p in container.get("ports", [])}:
                found.append(f"{name}: {probe} asks a port that is not there")
    return found


def selects_nothing(documents):
    """Services, policies and budgets whose pods are not there."""
    all_labels = [pod["metadata"]["labels"] for _, pod in pods(documents)]
    for document in documents:
        spec = document.get("spec", {})
        selector = spec.get("selector") if document["kind"] == "Service" else spec.get("podSelector" if document["kind"] == "NetworkPolicy" else "selector", {}).get("matchLabels")
        if document["kind"] in ("Service", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor") and not any(selector.items() <= labels.items() for labels in all_labels):
            yield f"{document['kind']} {document['metadata']['name']} selects no pod"
