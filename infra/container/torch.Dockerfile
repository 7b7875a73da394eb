# Training and scoring: torch, no Java.
#
#   docker build -f infra/container/torch.Dockerfile -t plumbline-torch:0.1.0 .
#
# From the root of the repository. The lock's torch brings its CUDA libraries; the node brings the driver of the GPU.
# Checked by hadolint (make infra-check). Not built and not run by the tests: they have no container engine, no GPU.

FROM python:3.12-slim AS build
WORKDIR /opt/plumbline
COPY requirements/uv.txt requirements/torch.txt requirements/
RUN python -m venv .venv \
    && .venv/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/uv.txt \
    && .venv/bin/uv pip install --no-cache --python .venv/bin/python --require-hashes -r requirements/torch.txt
COPY pyproject.toml README.md LICENSE ./
COPY conf conf/
COPY eval_engine eval_engine/
COPY models models/
COPY jobs jobs/
RUN .venv/bin/uv pip install --no-cache --python .venv/bin/python --no-deps --no-build-isolation .

FROM python:3.12-slim
RUN useradd --uid 185 --gid 0 --home-dir /opt/work-dir --create-home spark
COPY --from=build /opt/plumbline /opt/plumbline
ENV PATH=/opt/plumbline/.venv/bin:/usr/local/bin:/usr/bin:/bin \
    PLUMBLINE_LOG=- \
    NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib
USER 185
WORKDIR /opt/work-dir
# Python is the first process: it has a handler for SIGTERM, marks the stage as failed, and a retry resumes training.
ENTRYPOINT ["plumbline"]
CMD ["--help"]
