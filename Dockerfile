# evo in a container.
#   docker build -t evo .                              # the simulator, no GPU
#   docker build -t evo --build-arg CUDA=cu13 .        # a GPU too (cu12 for a driver before the 580 series)
#   docker run --rm -it -v "$PWD:/work" evo init       # add --gpus all for a GPU
# PIP_ARGS: what pip needs to find the CPU build of torch, which is gigabytes smaller than the default one.
FROM python:3.12-slim
ARG CUDA=sim
ARG PIP_ARGS=
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
# The mounted repository belongs to another user than the container's.
RUN git config --system --add safe.directory '*'
WORKDIR /opt/evo
COPY . .
RUN make ready EXTRAS="$CUDA" PIP_ARGS="$PIP_ARGS"
ENV PATH="/opt/evo/.venv/bin:$PATH"
WORKDIR /work
ENTRYPOINT ["evo"]
