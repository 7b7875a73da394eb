"""What make infra-check cannot see: that manifests, container files and locks agree with the code they run."""

import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval_engine.errors import ConfigError, DataError, GateError
from eval_engine.spark.session import DELTA
from infra.kubernetes.spark_applications import ON_SPARK, spark_application, spark_defaults
from jobs.pipeline import STAGES

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"


def manifest(name: str) -> dict[str, Any]:
    return yaml.safe_load((INFRA / "kubernetes" / name).read_text())


def pins(lock: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9-]+==\S+(?: ; .*?)?(?= \\$)", (ROOT / "requirements" / lock).read_text(), re.M))


def test_every_stage_with_spark_has_a_manifest_of_its_script() -> None:
    assert set(ON_SPARK) == {name for name, stage in STAGES.items() if stage.spark != "never"}
    names = set()
    for stage in ON_SPARK:
        made = spark_application(stage, run_id="2026-11-15")
        names.add(made["metadata"]["generateName"])
        script = made["spec"]["pyFiles"].removeprefix("local:///opt/plumbline/")
        assert (ROOT / script).exists(), script
        assert made["spec"]["driverArgs"] == ["--config", "/etc/plumbline/run.yaml", "--run-id", "2026-11-15"]
    assert len(names) == len(ON_SPARK)


def test_manifests_name_the_spark_that_is_locked() -> None:
    assert spark_application("rank")["spec"]["runtimeVersions"] == {"sparkVersion": version("pyspark")}
    assert f"pyspark=={version('pyspark')}" in pins("spark.txt")


def test_every_default_has_a_reason_and_delta_has_its_hooks() -> None:
    before = ""
    for line in (INFRA / "kubernetes" / "spark-defaults.conf").read_text().splitlines():
        assert not line.startswith("spark.") or before.startswith("# "), f"{line}: no reason"
        before = line
    assert DELTA.items() <= spark_defaults().items()


@pytest.mark.parametrize("name", ["train-job.yaml", "daily-cronjob.yaml"])
def test_bad_config_bad_data_and_a_gate_are_not_tried_again(name: str) -> None:
    spec = manifest(name)["spec"]
    job = spec.get("jobTemplate", {}).get("spec", spec)
    fails = [rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
    assert fails == [
        {
            "containerName": "plumbline",
            "operator": "In",
            "values": [ConfigError.exit_code, DataError.exit_code, GateError.exit_code],
        }
    ]
    pod = job["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # else the policy does not count
    assert [container["name"] for container in pod["containers"]] == ["plumbline"]


@pytest.mark.parametrize(
    ("job", "run_id", "ran", "code"),
    [
        ("plumbline-daily-29914830", None, "2026-11-17", 0),  # 2026-11-17 04:30 UTC
        ("plumbline-daily-29914830", "by-hand", "by-hand", 0),
        ("by-hand", "2026-11-16", "2026-11-16", 0),
        ("by-hand", None, None, 2),
    ],
)
def test_the_day_of_a_run_is_that_of_its_schedule(
    tmp_path: Path, job: str, run_id: str | None, ran: str | None, code: int
) -> None:
    """The script of the CronJob, with a `plumbline` that prints what it is given."""
    container = manifest("daily-cronjob.yaml")["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    (tmp_path / "plumbline").write_text('#!/usr/bin/env bash\necho "$*"\n')
    (tmp_path / "plumbline").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "JOB_NAME": job, **({"RUN_ID": run_id} if run_id else {})}
    done = subprocess.run(container["args"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout.strip() == (f"run /etc/plumbline/run.yaml --run-id {ran}" if ran else "")
    assert code == 0 or "set RUN_ID" in done.stderr


@pytest.mark.parametrize("lock", ["spark.txt", "torch.txt"])
def test_images_have_the_versions_that_are_tested(lock: str) -> None:
    assert len(pins(lock)) > 30
    assert pins(lock) <= pins("locked.txt")
    assert any(pin.startswith("torch==") for pin in pins(lock)) == (lock == "torch.txt")


@pytest.mark.parametrize("name", ["spark", "torch"])
def test_container_files_install_by_hash_and_copy_what_is_there(name: str) -> None:
    text = (INFRA / "container" / f"{name}.Dockerfile").read_text()
    for line in re.findall(r"pip install .*", text):
        assert "--require-hashes -r" in line or "--no-deps --no-build-isolation ." in line, line
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*)", text, re.M) for word in line.split()[:-1]]
    for source in (word.replace("${LOCK}", "spark") for word in sources if not word.startswith("--")):
        assert (ROOT / source).exists(), source
    kept = (INFRA / "container" / f"{name}.Dockerfile.dockerignore").read_text()
    assert all(f"!{word.split('/')[0]}" in kept for word in sources if not word.startswith("--"))
    assert re.search(r"^USER 185$", text, re.M)
