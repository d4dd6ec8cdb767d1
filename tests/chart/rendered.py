"""The chart as Helm renders it, read strictly and held to the schemas of Kubernetes and of the Prometheus operator."""

import functools
import json
import os
import pathlib
import re
import subprocess

import jsonschema
import kubernetes_validate.utils as kubernetes
import yaml

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
CHART = ROOT / "helm/keylane"
VERSIONS = ("1.29", "1.33", "1.37")
HELMS = {"helm 4": os.environ["HELM4"], "helm 3": os.environ["HELM3"]}

# Its definitions are megabytes, and it reads them again for each document.
kubernetes.schema_contents = functools.cache(kubernetes.schema_contents)


class Strict(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):
    """YAML in which a key that stands twice is an error."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.constructor.ConstructorError(None, None, f"a key stands twice among {keys}", node.start_mark)
        return super().construct_mapping(node, deep)


Strict.add_constructor(
    "tag:yaml.org,2002:map", lambda loader, node: Strict.construct_mapping(loader, node, deep=True)
)


def parse(text):
    return [document for document in yaml.load_all(text, Strict) if document is not None]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def helm(which, *arguments):
    return run(HELMS[which], *arguments)


def render(*arguments, which="helm 4", kubernetes_version="1.33"):
    """What `helm template` makes of these arguments; the text if it refuses."""
    done = helm(which, "template", "keylane", str(CHART), "--namespace=prod", f"--kube-version={kubernetes_version}.0", *arguments)
    return (parse(done.stdout), "") if done.returncode == 0 else (None, done.stderr)


def invalid(document, version):
    """Why this is no such object, if it is not."""
    kind, api = document.get("kind", "?"), document.get("apiVersion", "?")
    group, _, number = api.partition("/")
    custom = HERE / "crd" / f"{kind.lower()}-{group.split('.')[0]}-{number}.json"
    try:
        if custom.exists():
            jsonschema.Draft7Validator(json.loads(custom.read_text())).validate(document)
        else:
            kubernetes.validate(document, version, strict=True)
    except kubernetes.SchemaNotFoundError:
        return f"no schema of Kubernetes {version} knows {api} {kind}"
    except jsonschema.ValidationError as error:
        return f"{kind} {'.'.join(map(str, error.absolute_path))}: {error.message[:200]}"
    return None


def pods(documents):
    """Each pod's name and specification."""
    for document in documents:
        if document["kind"] == "Deployment":
            yield document["metadata"]["name"], document["spec"]["template"]


def containers(pod):
    return pod["spec"].get("initContainers", []) + pod["spec"]["containers"]


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])
