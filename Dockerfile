# docker build -t open-rl-scheduler:0.1.0 .
#
# Everything that pip installs is checked against the hashes of the lock files. For a release, pin the base
# by its digest as well: --build-arg BASE=python:3.11-slim@sha256:...
#
# Where a build reaches no package index, put the wheels into a folder `wheels` first; then nothing else is asked.
# `make image BASE=... WHEELS=true` does both. Nothing here needs BuildKit.
#
# On Debian's Python 3.11: 216 MB, 66 MB compressed, and `--version` answers 1.2 s after `docker run` (2 cores).
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
# The brackets make the folder optional: a pattern may match nothing. Its wheels land beside the lock files.
COPY requirements.txt requirements-dev.txt wheel[s] ./
RUN python3 -m venv --without-pip /opt/venv \
    && python3 -m venv /opt/build \
    && if ls ./*.whl >/dev/null 2>&1; then printf '[global]\nno-index = true\nfind-links = /src\n' > /etc/pip.conf; fi
RUN /opt/build/bin/pip --python /opt/venv/bin/python install --no-cache-dir --only-binary=:all: --require-hashes \
        -r requirements.txt
# The build back-end is locked among the development requirements; only this stage has it.
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements-dev.txt > requirements-build.txt \
    && /opt/build/bin/pip install --no-cache-dir --only-binary=:all: --require-hashes -r requirements-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY controller/ controller/
COPY informers/ informers/
COPY ledger/ ledger/
COPY placement/ placement/
COPY simulation/ simulation/
COPY manifests/crds/ manifests/crds/
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel . \
    && /opt/build/bin/pip --python /opt/venv/bin/python install --no-cache-dir --no-index --no-deps /wheel/*.whl
# What `--version`, the log and the build metric say; `make image` passes the commit and its date.
ARG REVISION=unknown
ARG CREATED=unknown
RUN printf '{"commit": "%s", "date": "%s"}\n' "${REVISION}" "${CREATED}" \
        > "$(echo /opt/venv/lib/python3*/site-packages/controller)/build.json"

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="open-rl-scheduler" \
      org.opencontainers.image.description="GPU placement controller for reinforcement-learning workers on Kubernetes (DRA)" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build /opt/venv /opt/venv
# The root file system is read-only in the cluster: byte code was compiled above, none is written here.
ENV PATH=/opt/venv/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, so that `runAsNonRoot` can be checked; no entry in /etc/passwd is needed.
USER 65532:65532
# Exec form: the program is process 1 and receives SIGTERM itself.
ENTRYPOINT ["open-rl-scheduler"]
