"""The objects that kubectl makes of a folder of configs/kubernetes, and what to look for among them."""
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests" / "end_to_end"))
from harness import check, neighbour, run, skip  # noqa: E402

KUBERNETES = TREE / "configs" / "kubernetes"
OVERLAYS = ("sqlite", "postgresql", "monitoring/sqlite", "monitoring/postgresql")


def load(text):
    try:
        import yaml
    except ImportError:
        skip("not installed: python3-yaml")
    return [thing for thing in yaml.safe_load_all(text) if thing]


def kubectl(*arguments):
    program, _ = neighbour("kubernetes-client", "usr/bin/kubectl")
    return run(program, *arguments)


class Objects(list):
    def __init__(self, overlay):
        super().__init__(load(kubectl("kustomize", KUBERNETES / overlay)))
        self.overlay = overlay

    def of(self, *kinds):
        return [thing for thing in self if thing["kind"] in kinds]

    def named(self, kind, name):
        """A generated name ends with a hash of the contents."""
        found = [thing for thing in self.of(kind) if re.fullmatch(rf"{name}(-[a-z0-9]{{10}})?", thing["metadata"]["name"])]
        check(len(found) == 1, f"{self.overlay} has {len(found)} of {kind} {name}")
        return found[0]

    def pods(self):
        """The templates of pods, by the name of what makes them."""
        return {thing["metadata"]["name"]: thing["spec"]["template"] for thing in self.of("StatefulSet", "Deployment")}

    def aggregator(self):
        return self.pods()["tern-aggregator"]["spec"]


def container(pod, name):
    return next(one for one in pod["containers"] if one["name"] == name)


def commands_of(overlay):
    """The commands in the comment of an overlay's kustomization, and of those that it names."""
    text = (KUBERNETES / overlay / "kustomization.yaml").read_text()
    own = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#   ")]
    return own + [line for name in re.findall(r"\.\./(?:\.\./)?(sqlite|postgresql)\b", text) if name != overlay for line in commands_of(name)]
