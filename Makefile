# The commands every clone has. `make demo` needs nothing but Debian, Python 3.11 and root; each target sets up what it uses.
SHELL := /bin/bash
PY := .venv/bin/python
PROTOS := drivers/ballast_cxl/node/protos

.PHONY: help demo test e2e test-long qemu lint cluster-up cluster-down images deploy bench crds docs protos
help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.venv/bin/pip:
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; python3 here is $$(python3 -V)"; exit 1; }
	@python3 -c 'import ensurepip' 2>/dev/null || { apt-get update -q && apt-get install -y -q python3-venv; }
	python3 -m venv .venv

.venv/ready: pyproject.toml | .venv/bin/pip
	$(PY) -m pip install -q --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@

demo: .venv/bin/pip ## a CFRSolve from applied to Complete on a real cluster made here
	@$(PY) -m e2e.ahead '$(MAKE) .venv/ready' '$(PY) -m e2e.demo'

test: .venv/ready ## unit tests and one real flow per kind
	$(PY) -m pytest -m 'not e2e and not long and not gpu and not qemu'

e2e: .venv/ready ## all scenarios; K=expr picks some
	$(PY) -m pytest -rP -m 'cluster or e2e' $(if $(K),-k '$(K)')

test-long: .venv/ready ## races, crash matrices, scale
	$(PY) -m pytest -rP -m long $(if $(K),-k '$(K)')

qemu: .venv/ready ## emulated machines with CXL memory and the kernel's own drivers
	$(PY) -m pytest -rP -m qemu

lint: .venv/ready ## ruff, mypy strict, import rules
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy crds operator drivers workloads charts e2e
	.venv/bin/lint-imports

cluster-up: .venv/ready ## the local Kubernetes; writes .cluster/kubeconfig
	$(PY) -m e2e.cluster up

cluster-down: .venv/ready ## end it and leave nothing behind
	$(PY) -m e2e.cluster down

images: .venv/ready ## build the images and load them into the cluster's nodes
	$(PY) -m e2e.cluster images

deploy: .venv/ready ## the chart into the current KUBECONFIG
	$(PY) -m e2e.deploy

bench: .venv/ready ## measured tables for docs/performance
	$(PY) -m ballast_cfr bench

docs: .venv/ready ## write the generated pages and the picture
	@command -v dot >/dev/null || { apt-get update -q && apt-get install -y -q graphviz; }
	$(PY) -m ballast_operator.cli.page > docs/not-ready.md
	dot -Tsvg docs/architecture.dot > docs/architecture.svg

protos: .venv/ready ## write the messages that kubelet and the node plugin exchange from kubelet.proto
	$(PY) -m grpc_tools.protoc -I $(PROTOS) --python_out=$(PROTOS) --pyi_out=$(PROTOS) kubelet.proto

crds: .venv/ready ## write crds/*.yaml, the chart's CRDs and docs/reference.md from the models
	$(PY) -m ballast_api.schema --write
