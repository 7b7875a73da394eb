"""Checks container files and manifests without a container engine and without a cluster.

    make infra-check

    hadolint                     container files
    kubernetes-validate --strict every manifest of Kubernetes' own kinds, and the pod templates in custom resources
    spark-application.schema.json every SparkApplication; an unknown field is an error

Runs in .venv-infra, which does not have Plumbline: the manifests that are made from STAGES come from standard input.
Each check is tried on a wrong file first, and must refuse it. Exit code 1 if anything is wrong.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

INFRA = Path(__file__).parents[1]
SCHEMA = json.loads(Path(__file__).with_name("spark-application.schema.json").read_text())
TOOLS = Path(sys.executable).parent
CUSTOM = "SparkApplication"

Manifest = dict[str, Any]


def main() -> None:
    """Checks the checks, then everything."""
    wrong = [*wrong_checks()]
    made = [manifest for manifest in yaml.safe_load_all(sys.stdin) if manifest]
    if not made:
        wrong.append("standard input has no manifest of a stage: python -m infra.kubernetes.spark_applications |")
    for path in sorted(INFRA.glob("container/*.Dockerfile")):
        wrong += said(path.name, hadolint(path))
    for path in sorted(INFRA.glob("kubernetes/*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            wrong += said(f"{path.name}: {manifest['kind']}", problems(manifest))
    for manifest in made:
        wrong += said(f"made: {manifest['metadata']['generateName']}", problems(manifest))
    print("\n".join(["", *wrong]) if wrong else "all checks passed")
    sys.exit(1 if wrong else 0)


def said(name: str, problems: list[str]) -> list[str]:
    """Prints one result; the problems, named."""
    print(f"  {name}: {'wrong' if problems else 'fine'}")
    return [f"{name}: {problem}" for problem in problems]


def problems(manifest: Manifest) -> list[str]:
    """What is wrong with a manifest."""
    if manifest.get("kind") != CUSTOM:
        return validate(manifest)
    return [*unknown_or_wrong(manifest), *(found for pod in pod_templates(manifest) for found in validate(pod))]


def unknown_or_wrong(manifest: Manifest) -> list[str]:
    """What the schema refuses."""
    errors = sorted(Draft202012Validator(SCHEMA).iter_errors(manifest), key=lambda error: list(map(str, error.path)))
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in errors]


def pod_templates(manifest: Manifest) -> Iterator[Manifest]:
    """The pod templates of a SparkApplication, as a kind that Kubernetes knows."""
    for role in ("driverSpec", "executorSpec"):
        if template := manifest["spec"].get(role, {}).get("podTemplateSpec"):
            yield {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": role.lower()}, "template": template}


def validate(manifest: Manifest) -> list[str]:
    """What kubernetes-validate refuses."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(manifest, file)
        file.flush()
        return tool("kubernetes-validate", "--strict", file.name)


def hadolint(path: Path) -> list[str]:
    """What hadolint refuses."""
    return tool("hadolint", "--failure-threshold", "style", str(path))


def tool(name: str, *arguments: str) -> list[str]:
    """What a tool prints if it ends with an error."""
    done = subprocess.run([str(TOOLS / name), *arguments], capture_output=True, text=True, check=False)
    return [(done.stdout + done.stderr).strip() or f"{name}: exit code {done.returncode}"] if done.returncode else []


def wrong_checks() -> Iterator[str]:
    """The checks that accept what is wrong."""
    pod = {"spec": {"containers": [{"name": "a", "image": "b", "volumMounts": []}]}}
    if not validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, **pod}):
        yield "kubernetes-validate accepts a container with the unknown field volumMounts"
    app = {"apiVersion": "spark.apache.org/v1", "kind": CUSTOM, "metadata": {"generateName": "a-"}}
    spec = {"pyFiles": "local:///opt/plumbline/jobs/rank.py", "driverArgs": [], "runtimeVersions": {}, "sparkConf": {}}
    found = "\n".join(problems(app | {"spec": spec | {"pyFile": "x", "driverSpec": {"podTemplateSpec": pod}}}))
    for expected in (
        "'pyFile' was unexpected",
        "'sparkVersion' is a required",
        "applicationTolerations",
        "volumMounts",
    ):
        if expected not in found:
            yield f"a wrong {CUSTOM} is not refused for {expected}"
    with tempfile.NamedTemporaryFile("w", suffix=".Dockerfile") as file:
        file.write("FROM python\nRUN cd /tmp && apt-get install tini\n")
        file.flush()
        if not hadolint(Path(file.name)):
            yield "hadolint accepts a container file without versions"


if __name__ == "__main__":
    main()
