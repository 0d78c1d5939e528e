# docker build --tag replay-rl . && docker run --rm replay-rl
# Debian 12 has Python 3.11. EGL is for videos.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates g++ libegl1 libgl1-mesa-dri make python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /replay_rl
# First what seldom changes.
COPY Makefile requirements.lock ./
RUN make .venv/.locked
COPY . .
RUN make setup
CMD [".venv/bin/python", "-m", "binaries.evaluate", "--policy=d4pg_cartpole_swingup"]
