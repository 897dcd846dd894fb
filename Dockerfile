# Every image of Ballast. `make images` builds them here with buildah, on a base made by debootstrap where no registry
# can be reached; elsewhere `docker build --target operator .` does. Layers go from what changes rarely to what changes
# often, so an edit of our source costs a copy and not a reinstallation.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS python
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
 && groupadd --gid 65532 ballast \
 && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin ballast

# What each image needs from PyPI, taken from pyproject.toml: editing other lines of that file reinstalls nothing.
FROM python AS requirements
COPY pyproject.toml .
RUN python3 -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; x = p['optional-dependencies']; \
open('/operator.txt', 'w').write('\n'.join(p['dependencies'] + x['operator'])); \
open('/cfr.txt', 'w').write('\n'.join(x['cfr'])); \
open('/cxl.txt', 'w').write('\n'.join(r for r in x['cxl'] if not r.startswith('ballast')))"

FROM python AS pip
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends python3-pip ca-certificates \
 && rm -rf /var/lib/apt/lists/*
# Another bundle of certificates, where the package index is reached through a proxy of one's own.
ARG PIP_CERT=/etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=${PIP_CERT}

# Compiled once here: a pod cannot write into its image. By hash and never checked again, since modification times do
# not survive every way an image is moved.
FROM pip AS operator-wheels
COPY --from=requirements /operator.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m pip install -q --no-compile --target /opt/ballast/site -r operator.txt \
 && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ballast/site

FROM pip AS cfr-wheels
COPY --from=requirements /cfr.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m pip install -q --no-compile --target /opt/ballast/site -r cfr.txt \
 && rm -rf /opt/ballast/site/numba/tests /opt/ballast/site/llvmlite/tests \
 && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ballast/site

FROM operator-wheels AS cxl-wheels
COPY --from=requirements /cxl.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m pip install -q --no-compile --target /opt/ballast/site -r cxl.txt \
 && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ballast/site

# Write-back of cache lines, which Python has no word for.
FROM python AS flush
RUN apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev
COPY drivers/ballast_cxl/scrubber/flush.c .
RUN cc -O2 -Wall -Werror -shared -fPIC -o /libflush.so flush.c

FROM python AS runtime
ENV PYTHONPATH=/opt/ballast/app:/opt/ballast/site PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/ballast

FROM runtime AS operator
COPY --from=operator-wheels /opt/ballast/site site
COPY crds/ballast_api app/ballast_api
COPY operator/ballast_operator app/ballast_operator
RUN python3 -m compileall -q --invalidation-mode unchecked-hash app \
 && python3 -m ballast_operator --help > /dev/null
USER 65532:65532
ENTRYPOINT ["python3", "-m", "ballast_operator"]
CMD ["run"]

# The region controller and the node plugin; the second runs as root, by its pod's word.
FROM runtime AS cxl
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends cxl daxctl \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
COPY --from=cxl-wheels /opt/ballast/site site
COPY crds/ballast_api app/ballast_api
COPY operator/ballast_operator app/ballast_operator
COPY drivers/ballast_cxl app/ballast_cxl
COPY --from=flush /libflush.so app/ballast_cxl/scrubber/libflush.so
RUN python3 -m compileall -q --invalidation-mode unchecked-hash app \
 && python3 -m ballast_cxl node --help > /dev/null
USER 65532:65532
ENTRYPOINT ["python3", "-m", "ballast_cxl"]

FROM runtime AS cfr
ENV NUMBA_CACHE_DIR=/opt/ballast/numba
COPY --from=cfr-wheels /opt/ballast/site site
COPY workloads/ballast_cfr app/ballast_cfr
# The inner loops are compiled into the image: a pod then starts solving at once.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash app \
 && python3 -m ballast_cfr warm
USER 65532:65532
ENTRYPOINT ["python3", "-m", "ballast_cfr"]
