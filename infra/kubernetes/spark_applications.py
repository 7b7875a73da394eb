"""The stages that use Spark as manifests of Apache's Spark operator (spark.apache.org/v1), made from STAGES.

    python -m infra.kubernetes.spark_applications --run-id 2026-11-15 --stage rank | kubectl create -f -
    python -m infra.kubernetes.spark_applications --image example/plumbline-spark:0.1.0      every stage, in their order

The config is the ConfigMap plumbline-config (key run.yaml), tables are on the volume plumbline-data (access.yaml). The
settings are those of spark-defaults.conf. A stage starts when those before it are done, so one manifest is created
after the other has ended. The operator restarts what infrastructure made fail (no node, no image), and nothing else:
it does not tell exit codes apart, and bad config (2), bad data (3) and a gate that said no (5) must not be tried again.

Checked by make infra-check; not run by the tests in a cluster. Kubernetes is not needed to make them.
"""

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from jobs.pipeline import STAGES

DEFAULTS = Path(__file__).with_name("spark-defaults.conf")
IMAGE = "plumbline-spark:0.1.0"
CONFIG = "/etc/plumbline/run.yaml"
ON_SPARK = tuple(name for name, stage in STAGES.items() if stage.spark != "never")

Manifest = dict[str, Any]


def spark_defaults() -> dict[str, str]:
    """The settings of spark-defaults.conf."""
    lines = (line.strip() for line in DEFAULTS.read_text().splitlines())
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def spark_application(stage: str, image: str = IMAGE, run_id: str | None = None, executors: int = 4) -> Manifest:
    """The manifest of one stage; without a run_id that of the config."""
    settings = {
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.authenticate.driver.serviceAccountName": "plumbline",
        "spark.executor.instances": str(executors),
        "spark.executor.cores": "2",
        "spark.executor.memory": "4g",
        "spark.driver.memory": "2g",
    }
    return {
        "apiVersion": "spark.apache.org/v1",
        "kind": "SparkApplication",
        "metadata": {  # an application runs once: each run is one of its own
            "generateName": f"plumbline-{stage.replace('_', '-')}-",
            "labels": {"app.kubernetes.io/name": "plumbline", "app.kubernetes.io/component": stage},
        },
        "spec": {
            "pyFiles": f"local:///opt/plumbline/jobs/{stage}.py",
            "driverArgs": ["--config", CONFIG, *(["--run-id", run_id] if run_id else [])],
            "sparkConf": spark_defaults() | settings,
            "runtimeVersions": {"sparkVersion": version("pyspark")},
            "applicationTolerations": {
                "restartConfig": {"restartPolicy": "OnInfrastructureFailure", "maxRestartAttempts": 2},
                "resourceRetainPolicy": "OnFailure",  # the driver's pod has the message and the exit code
                "ttlAfterStopMillis": 7 * 24 * 3600 * 1000,
            },
            "driverSpec": {"podTemplateSpec": _pod("spark-kubernetes-driver")},
            "executorSpec": {"podTemplateSpec": _pod("spark-kubernetes-executor")},
        },
    }


def _pod(container: str) -> Manifest:
    """What Spark's settings cannot say of a pod: its volumes, and that it has no rights that it does not need."""
    mounts = {"config": "/etc/plumbline", "data": "/data", "tmp": "/tmp"}
    return {
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 185,
                "fsGroup": 185,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": container,
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
                }
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": "plumbline-config"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "plumbline-data"}},
                {"name": "tmp", "emptyDir": {}},
            ],
        }
    }


def main() -> None:
    """Prints the manifests."""
    parser = argparse.ArgumentParser(prog="python -m infra.kubernetes.spark_applications")
    parser.add_argument("--stage", choices=ON_SPARK, action="append", help="left out: all that use Spark")
    parser.add_argument("--run-id", help="use this run_id instead of the config's")
    parser.add_argument("--image", default=IMAGE, help="image of driver and executors")
    parser.add_argument("--executors", type=int, default=4, help="number of executors")
    given = parser.parse_args()
    stages = given.stage or ON_SPARK
    print(
        yaml.safe_dump_all(
            (spark_application(stage, given.image, given.run_id, given.executors) for stage in stages), sort_keys=False
        ),
        end="",
    )


if __name__ == "__main__":
    main()
