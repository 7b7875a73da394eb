# Driver and executors of every stage, on Kubernetes or any other cluster; `plumbline run` in one container.
#
#   docker build -f infra/container/spark.Dockerfile -t plumbline-spark:0.1.0 .
#
# From the root of the repository. With `--build-arg LOCK=torch` it can train too, and is several GB larger.
# Checked by hadolint (make infra-check). Not built and not run by the tests: they have no container engine.

FROM eclipse-temurin:21-jre-noble AS java

FROM python:3.12-slim AS build
ARG LOCK=spark
ENV JAVA_HOME=/opt/java/openjdk
COPY --from=java /opt/java/openjdk /opt/java/openjdk
WORKDIR /opt/plumbline
COPY requirements/uv.txt requirements/${LOCK}.txt requirements/
RUN python -m venv .venv \
    && .venv/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/uv.txt \
    && .venv/bin/uv pip install --no-cache --python .venv/bin/python --require-hashes -r "requirements/${LOCK}.txt"
COPY pyproject.toml README.md LICENSE ./
COPY conf conf/
COPY eval_engine eval_engine/
COPY models models/
COPY jobs jobs/
# The package, the Delta jars among Spark's jars (from Maven Central), Delta's two settings as Spark's defaults.
RUN .venv/bin/uv pip install --no-cache --python .venv/bin/python --no-deps --no-build-isolation . \
    && .venv/bin/python -m eval_engine.spark.delta_jars \
    && .venv/bin/python -m eval_engine.spark.environment

FROM python:3.12-slim
# No version of tini: Debian removes the older version of a package when it has a newer one.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 185 --gid 0 --home-dir /opt/spark/work-dir --create-home spark
COPY --from=java /opt/java/openjdk /opt/java/openjdk
COPY --from=build /opt/plumbline /opt/plumbline
COPY --chmod=755 infra/container/entrypoint.sh /opt/entrypoint.sh
# PLUMBLINE_LOG: traces go to stderr, which the cluster collects. The two caches: only /tmp need be writable.
ENV JAVA_HOME=/opt/java/openjdk \
    SPARK_HOME=/opt/plumbline/.venv/lib/python3.12/site-packages/pyspark \
    PYSPARK_PYTHON=/opt/plumbline/.venv/bin/python \
    PATH=/opt/plumbline/.venv/bin:/opt/java/openjdk/bin:/usr/local/bin:/usr/bin:/bin \
    PLUMBLINE_LOG=- \
    NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib
# The UID of Spark's own images, which volumes and policies of Spark clusters expect.
USER 185
WORKDIR /opt/spark/work-dir
ENTRYPOINT ["/opt/entrypoint.sh"]
CMD ["plumbline", "--help"]
