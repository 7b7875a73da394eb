"""A standalone Spark cluster on this machine: a master and workers, each a Java of its own. For tests, not for work.

    python -m infra.cluster.standalone                                two workers of one core; Ctrl-C or SIGTERM ends it
    python -m infra.cluster.standalone --workers 3 --memory 2g --logs /tmp/cluster

It prints the URL of the master when every worker has registered. Spark is that of this environment. Every port is one
that the system gives (`--port 0`), so that several clusters can run, and all listen on 127.0.0.1 only. The folder of
logs has `master.log`, `worker-N.log`, and in `worker-N/APP/EXECUTOR/stderr` the log of each executor. The settings are
Spark's defaults: the cluster reads no `conf` folder.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from eval_engine.errors import PlumblineError
from eval_engine.spark.delta_jars import spark_home
from eval_engine.spark.java import java_home

HOST = "127.0.0.1"
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master (spark://\S+)")
START_SECONDS = 120  # of one process, on a busy machine
STOP_SECONDS = 30  # then it is killed


class ClusterError(PlumblineError):
    """A process of the cluster did not start."""


@contextmanager
def standalone_cluster(logs: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """Starts a cluster, gives the URL of its master, stops it; cores and memory: those that one worker has to give."""
    logs.mkdir(parents=True, exist_ok=True)
    conf = logs / "conf"
    conf.mkdir(exist_ok=True)
    with ExitStack() as running:
        command = ["master.Master", "--host", HOST, "--port", "0", "--webui-port", "0"]
        master = running.enter_context(_process(command, logs / "master.log", conf))
        url = _said(master, logs / "master.log", MASTER_URL)
        started = []
        for number in range(workers):
            log = logs / f"worker-{number}.log"
            command = ["worker.Worker", "--host", HOST, "--port", "0", "--webui-port", "0", "--cores", str(cores)]
            command += ["--memory", memory, "--work-dir", str(logs / f"worker-{number}"), url]
            started.append((running.enter_context(_process(command, log, conf)), log))
        for worker, log in started:
            _said(worker, log, REGISTERED)
        yield url  # workers end before the master, and end their executors


@contextmanager
def _process(command: Sequence[str], log: Path, conf: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of Spark, which ends with the block."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {
        "JAVA_HOME": java_home(),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(conf),  # empty
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    spark_class = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{command[0]}", *command[1:]]
    with log.open("wb") as output:  # spark-class becomes Java by exec, so this is the process that is ended
        process = subprocess.Popen(
            spark_class, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _said(process: subprocess.Popen[bytes], log: Path, pattern: re.Pattern[str]) -> str:
    """The URL in the first line of the log that fits; waits for it."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        text = log.read_text(errors="replace")
        if match := pattern.search(text):
            return match[1]
        if process.poll() is not None:
            last = "\n".join(text.strip().splitlines()[-5:])
            raise ClusterError(f"{log.stem} ended with exit code {process.returncode}; {log} ends with\n{last}")
        time.sleep(0.1)
    raise ClusterError(f"{log.stem} did not start within {START_SECONDS} s. Its log is {log}.")


def main() -> None:
    """Runs a cluster until it is told to end."""
    parser = argparse.ArgumentParser(prog="python -m infra.cluster.standalone", description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2, help="number of workers")
    parser.add_argument("--cores", type=int, default=1, help="cores that one worker gives")
    parser.add_argument("--memory", default="1g", help="memory that one worker gives")
    parser.add_argument("--logs", type=Path, help="folder of the logs; left out: a new one")
    given = parser.parse_args()
    logs = given.logs or Path(tempfile.mkdtemp(prefix="cluster-"))
    signal.signal(signal.SIGTERM, _end)
    try:
        with standalone_cluster(logs.resolve(), given.workers, given.cores, given.memory) as url:
            print(
                f"{url}\nlogs: {logs.resolve()}\nspark-submit --master {url} jobs/rank.py --config run.yaml", flush=True
            )
            signal.pause()
    except KeyboardInterrupt:
        print("stopped")
    except ClusterError as error:
        sys.exit(f"ClusterError: {error}")


def _end(number: int, frame: object) -> NoReturn:
    """The handler of SIGTERM: the same as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
