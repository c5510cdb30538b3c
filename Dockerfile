# The daemon, its page and workers in one image; compose.yml and conf/kubernetes.yaml start them.
FROM python:3.13-bookworm AS build
WORKDIR /sources
COPY setup.py setup.cfg pyproject.toml MANIFEST.in README.md LICENSE ./
COPY conf conf
COPY taskqueue taskqueue
RUN TASKQUEUE_COMPILE=1 pip wheel --no-cache-dir --wheel-dir /wheels '.[web,robots,postgres]'

FROM python:3.13-slim-bookworm
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index /wheels/*.whl
# Volumes get the owner of the folders that they cover.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin taskqueue \
    && install -d -o taskqueue -g taskqueue -m 700 /data /keys && install -d -o taskqueue -g taskqueue /tokens
USER 10001
WORKDIR /data
# Other machines need a key: docs/howto/keys.md.
ENV TASKQUEUE_BIND=tcp://*:7400 \
    TASKQUEUE_STORE=/data/store \
    TASKQUEUE_DAEMON_KEYS=/data/access.json \
    PYTHONDONTWRITEBYTECODE=1
VOLUME /data
EXPOSE 7400 7401
# Of a daemon; a worker has none.
HEALTHCHECK --interval=30s --timeout=15s --start-period=10m CMD ["taskqueue", "status", "--limit", "1", "--timeout", "10s"]
ENTRYPOINT ["taskqueue"]
CMD ["daemon", "start"]
