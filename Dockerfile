# KernelBench with the CUDA build of the lock. Build and run as docs/container.md says:
#   docker build -t kernelbench .
#   docker run --rm --gpus all -v "$PWD/results:/kernelbench/results" kernelbench --cores 1 --resources gpu=1
# torch brings CUDA's libraries itself; the image brings what the driver needs to be found, and a compiler.
FROM nvidia/cuda:13.0.1-base-ubuntu24.04

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PATH=/kernelbench/.venv/bin:$PATH
# The versions are those of the distribution's release; what is measured is pinned in the lock.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential ca-certificates git make python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /kernelbench
# The lock first: a change of the sources then leaves the layer with its packages.
COPY envs envs
COPY Makefile pyproject.toml README.md LICENSE ./
COPY workflow workflow
COPY kernels kernels
RUN make
COPY . .

ENTRYPOINT ["snakemake"]
CMD ["--cores", "1", "--resources", "gpu=1"]
