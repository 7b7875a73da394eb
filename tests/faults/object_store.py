"""A run with inputs and lake on an S3 server, and the errors when something is missing.

    make faults-s3

Starts moto (a server of the S3 protocol that checks signatures and conditional puts) on 127.0.0.1, writes the tables of
a small platform there, and runs `plumbline run` on them, with s3:// and with s3a:// paths: every table must equal
that of the same run on local disk, row for row. Then it breaks one thing at a time: each fault must give one line that
says what is missing and how to add it, with the right exit code, and must leave nothing in the lake. Spark gets
hadoop-aws by --packages, stored in .venv-s3.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyarrow import fs

from eval_engine import tables
from eval_engine.lake.commits import delta_uri
from eval_engine.spark.object_store import hadoop_version
from eval_engine.storage.stored_file import located
from tests.conftest import SmallRun

STARTED = time.monotonic()
ROOT = Path(__file__).parents[2]
SERVER = ROOT / ".venv-s3"
BUCKET = "plumbline"
PACKAGE = f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"
SECONDS = 300  # limit of one run; the first downloads 670 MB
COMPARED = ("CATALOGUE", "RANKS", "QUALITY", "QUARANTINE", "STATISTICS", "ESTIMATES", "COMPARISONS")
PER_RUN = {"run_id", "inputs"}  # columns that differ between the runs: inputs has paths and times of the files

ACCOUNT = """
import json, sys, urllib.request, boto3
url, bucket = sys.argv[1:]
keys = dict(endpoint_url=url, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any")
boto3.client("s3", **keys).create_bucket(Bucket=bucket)
iam = boto3.client("iam", **keys)
iam.create_user(UserName="plumbline")
allowed = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="plumbline", PolicyName="s3", PolicyDocument=json.dumps(allowed))
made = iam.create_access_key(UserName="plumbline")["AccessKey"]
strict = urllib.request.Request(f"{url}/moto-api/reset-auth", b"0", {"Content-Type": "application/octet-stream"})
urllib.request.urlopen(strict).read()  # from now on every request must be signed by a user who may
print(json.dumps([made["AccessKeyId"], made["SecretAccessKey"]]))
"""


class Fault(NamedTuple):
    """One fault, and the texts that its error must contain."""

    name: str
    config: dict[str, object]
    environment: dict[str, str]
    exit_code: int
    says: tuple[str, ...]


def main() -> None:
    """Runs all cases; exits 1 if one of them is wrong."""
    wrong: list[str] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped too
    with tempfile.TemporaryDirectory() as folder, s3_server() as environment:
        os.environ |= environment  # for the reads of this process
        local = SmallRun(Path(folder))
        local.write()
        local.config["evaluate"]["replicates"] = 100
        put_inputs(local, Path(folder))
        check("local disk", evaluate(Path(folder), local.config, {}), 0, (), wrong)
        packages = submit_args("--packages", PACKAGE, "--conf", f"spark.jars.ivy={SERVER / 'ivy'}")
        for scheme in ("s3", "s3a"):
            config = stored(local, scheme, f"by-{scheme}")
            check(f"{scheme}://", evaluate(Path(folder), config, packages), 0, (), wrong)
            wrong += different(local.config, config)
        wrong += doubled()
        jars = ":".join(map(str, sorted((SERVER / "ivy" / "jars").glob("*.jar"))))
        with_jars = submit_args("--driver-class-path", jars)
        for fault in faults(local, with_jars):
            done = evaluate(Path(folder), fault.config, fault.environment)
            check(fault.name, done, fault.exit_code, fault.says, wrong)
            if left := written(fault):
                wrong.append(f"{fault.name}: left {left} in the lake")
    print(f"{time.monotonic() - STARTED:.0f} s; {'; '.join(wrong) if wrong else 'all cases passed'}")
    sys.exit(1 if wrong else 0)


def faults(run: SmallRun, with_jars: dict[str, str]) -> list[Fault]:
    """All faults that are tried."""
    fresh = stored(run, "s3", "fresh") | {"lake": f"s3://{BUCKET}/fresh"}
    nowhere = f"http://127.0.0.1:{free_port()}"
    local_lake = fresh | {"lake": str(run.folder / "fresh")}
    azure = {"path": "abfss://tables@account.dfs.core.windows.net/exposures", "format": "parquet"}
    add = (f"--packages {PACKAGE}", "PYSPARK_SUBMIT_ARGS")
    keys = ("refuses the credentials", "AWS_SECRET_ACCESS_KEY")
    return [
        Fault("wrong secret", fresh, with_jars | {"AWS_SECRET_ACCESS_KEY": "wrong"}, 2, ("lake:", *keys)),
        Fault("wrong key", fresh, with_jars | {"AWS_ACCESS_KEY_ID": "wrong"}, 2, ("lake:", *keys)),
        Fault(
            "wrong secret, inputs only",
            local_lake,
            with_jars | {"AWS_SECRET_ACCESS_KEY": "wrong"},
            2,
            ("catalogue:", *keys),
        ),
        Fault("no bucket", fresh | {"lake": "s3://nobody/lake"}, with_jars, 2, ("no bucket nobody", "Make it")),
        Fault("no server", fresh, with_jars | {"AWS_ENDPOINT_URL": nowhere}, 4, (nowhere, "does not answer")),
        Fault("no hadoop-aws, lake", fresh, {}, 2, ("lake:", "no file system for s3a://", *add)),
        Fault("no hadoop-aws, inputs", local_lake, {}, 2, ("catalogue:", "no file system for s3a://", *add)),
        Fault("no hadoop-aws, wrong secret", fresh, {"AWS_SECRET_ACCESS_KEY": "wrong"}, 2, (*keys, *add)),
        Fault(
            "credentials in the path",
            fresh | {"lake": f"s3://AKIA1:hunter2@{BUCKET}/fresh"},
            with_jars,
            2,
            ("s3://***@", "AWS_ACCESS_KEY_ID"),
        ),
        Fault(
            "no hadoop-azure",
            local_lake | {"inputs": run.config["inputs"] | {"exposures": azure}},
            {},
            2,
            ("exposures:", f"--packages org.apache.hadoop:hadoop-azure:{hadoop_version()}"),
        ),
        Fault(
            "hdfs without format",
            local_lake
            | {"inputs": run.config["inputs"] | {"exposures": {"path": f"hdfs://127.0.0.1:{free_port()}/x"}}},
            {},
            4,
            ("exposures:", "does not answer"),
        ),
    ]


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Starts a server with a bucket and a user; yields the environment variables of that user."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    with (SERVER / "server.log").open("w") as log:
        command = [str(SERVER / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(port)
            made = subprocess.run(
                [str(SERVER / "bin" / "python"), "-c", ACCOUNT, url, BUCKET],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            key, secret = json.loads(made.stdout)
            yield {
                "AWS_ENDPOINT_URL": url,
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": key,
                "AWS_SECRET_ACCESS_KEY": secret,
            }
        finally:
            server.kill()
            server.wait()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait_for(port: int) -> None:
    """Waits until the server answers."""
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit(f"The S3 server did not start: see {SERVER / 'server.log'}")


def put_inputs(run: SmallRun, folder: Path) -> None:
    """Copies the input tables to the bucket."""
    for name in run.tables:
        system, path = located(f"s3://{BUCKET}/in/{name}")
        system.create_dir(path, recursive=True)
        pq.write_table(
            pq.read_table(folder / "in" / name / "part-0.parquet"), f"{path}/part-0.parquet", filesystem=system
        )


def stored(run: SmallRun, scheme: str, run_id: str) -> dict[str, object]:
    """The run's config with all paths but the report's in the bucket."""
    text = yaml.safe_dump(run.config | {"run_id": run_id, "lake": f"{scheme}://{BUCKET}/lake"})
    config: dict[str, object] = yaml.safe_load(text.replace(str(run.folder / "in"), f"{scheme}://{BUCKET}/in"))
    return config


def submit_args(*arguments: str) -> dict[str, str]:
    return {"PYSPARK_SUBMIT_ARGS": " ".join((*arguments, "pyspark-shell"))}


def evaluate(
    folder: Path, config: Mapping[str, object], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs `plumbline run` as an operator does."""
    shutil.rmtree(folder / "fresh", ignore_errors=True)
    (folder / "tried.yaml").write_text(yaml.safe_dump(dict(config)))
    command = [sys.executable, "-m", "jobs.cli", "run", str(folder / "tried.yaml")]
    given = os.environ | {"PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true", "COLUMNS": "200"} | environment
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=SECONDS, check=False)


def check(
    name: str, done: subprocess.CompletedProcess[str], exit_code: int, says: tuple[str, ...], wrong: list[str]
) -> None:
    """Prints how the command ended; adds its violations to `wrong`."""
    lines = [line for line in done.stderr.splitlines() if re.match(r"\w*Error: ", line)]
    print(
        f"[{time.monotonic() - STARTED:.0f} s] {name}: exit {done.returncode}{': ' if lines else ''}{' '.join(lines)}",
        flush=True,
    )
    if done.returncode != exit_code:
        wrong.append(f"{name}: exit code {done.returncode}, not {exit_code}: {done.stderr[-3000:]}")
    elif exit_code and (len(lines) != 1 or "Traceback" in done.stderr):
        wrong.append(f"{name}: not one line: {done.stderr[-3000:]}")
    wrong += [
        f"{name}: does not say {text!r}" for text in says if exit_code and not any(text in line for line in lines)
    ]
    if "hunter2" in done.stdout + done.stderr:
        wrong.append(f"{name}: the secret is shown")


def different(local: Mapping[str, object], remote: Mapping[str, object]) -> list[str]:
    """The tables of two runs that are not equal, row for row."""
    differences = []
    for name in COMPARED:
        table = getattr(tables, name)
        rows = [
            sorted(
                repr({column: value for column, value in row.items() if column not in PER_RUN})
                for row in DeltaTable(delta_uri(f"{config['lake']}/{table.name}"))
                .to_pyarrow_table(filters=[("run_id", "=", config["run_id"])])
                .to_pylist()
            )
            for config in (local, remote)
        ]
        print(
            f"  {table.name}: {len(rows[0])} rows on disk, {len(rows[1])} at {remote['lake']}, "
            f"equal: {rows[0] == rows[1]}"
        )
        if rows[0] != rows[1] or (name in ("RANKS", "ESTIMATES") and not rows[0]):
            differences.append(f"{table.name} at {remote['lake']} differs from the run on disk")
    return differences


def doubled() -> list[str]:
    """Commits one version twice, one after the other: the second must be refused. No race: delta-rs sees the first."""
    place = delta_uri(f"s3://{BUCKET}/two")
    write_deltalake(place, pa.table({"n": [0]}))
    first, second = DeltaTable(place), DeltaTable(place)
    schema, once = first.schema(), CommitProperties(max_commit_retries=0)
    for handle, name in ((first, "first"), (second, "second")):
        add = AddAction(f"{name}.parquet", 1, {}, 0, True, '{"numRecords": 1}')
        try:
            handle.create_write_transaction([add], "append", schema, commit_properties=once)
        except CommitFailedError as error:
            print(f"two commits of one version: {name} refused: {str(error).splitlines()[0][:120]}", flush=True)
            return [] if name == "second" else ["the first of two commits was refused"]
    return ["two commits of one version both went through"]


def written(fault: Fault) -> list[str]:
    """The files in the fault's lake; there must be none."""
    lake = str(fault.config["lake"])
    if "nobody" in lake or "@" in lake:
        return []
    system, path = located(lake)
    return [
        file.path
        for file in system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        if file.is_file
    ]


if __name__ == "__main__":
    main()
