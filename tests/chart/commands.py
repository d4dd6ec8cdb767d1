"""Every command line that the chart renders is put to the program itself: `keylane config check`."""

import os
import pathlib
import re
import tempfile

from rendered import ROOT, containers, pods, run

BINARY = os.path.join(ROOT, os.environ["KEYLANE_BIN"])
IN_THE_IMAGE = "/usr/local/bin/keylane"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def objections(documents):
    found = []
    for name, pod in pods(documents):
        for container in containers(pod):
            place = f"{name}/{container['name']}"
            match container["command"]:
                case ["cp", source, _]:
                    if source != IN_THE_IMAGE:
                        found.append(f"{place}: copies {source}")
                case [program] if program in (IN_THE_IMAGE, "/opt/keylane/keylane"):
                    found += refused(place, container)
                    programs = [container[probe]["exec"]["command"][0] for probe in PROBES if "exec" in container.get(probe, {})]
                    found += [f"{place}: a probe runs {other}" for other in programs if other != program]
                case other:
                    found.append(f"{place}: runs {other}")
    return found


def refused(place, container):
    """As the container would start, in a folder that stands for its file system."""
    environment = {v["name"]: v.get("value", "pod-0") for v in container.get("env", [])}
    lines = [container["args"], *(container[probe]["exec"]["command"][1:] for probe in PROBES if "exec" in container.get(probe, {}))]
    return [why for line in lines for why in refused_line(place, container, line, environment)]


def refused_line(place, container, line, environment):
    with tempfile.TemporaryDirectory() as folder:
        text = "\0".join(line)
        for path in re.findall(r"/etc/keylane/(?:kafka|postgres)/[\w.-]+", text):
            file = pathlib.Path(folder + path)
            if not any(path.startswith(mount["mountPath"] + "/") for mount in container["volumeMounts"]):
                return [f"{place}: {path} is not mounted"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x\n")
        text = re.sub(r"/(etc|run|var/lib)/keylane/", lambda found: folder + found[0], text)
        done = run(BINARY, "config", "check", "--", *text.split("\0"), env=environment, cwd=folder)
    return [f"{place}: {done.stderr.strip()}"] if done.returncode else []
