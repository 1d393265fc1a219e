# A worker with its tool host. Build from the root of the repository, start as many as wanted:
#   docker build -f infra/docker/worker.Dockerfile -t nightshift-worker .
#   docker run --init --read-only --stop-timeout 30 -e DATABASE_URL -e QUEUE_URL -e ANTHROPIC_API_KEY nightshift-worker
# It runs the sources as they are (Node strips the types), so there is no build stage. Run it with --init, which reaps
# what tool code leaves behind, and give it more than 20 seconds to stop: it ends what is under way and returns its leases.

FROM node:24.21-bookworm-slim AS dependencies
WORKDIR /app
# Manifests alone: this layer is made anew when a dependency changes, not when code does.
COPY package.json package-lock.json ./
COPY apps/worker/package.json apps/worker/
COPY apps/tool-host/package.json apps/tool-host/
COPY apps/net-host/package.json apps/net-host/
COPY apps/sandbox-host/package.json apps/sandbox-host/
COPY libs/agent-core/package.json libs/agent-core/
COPY libs/db/package.json libs/db/
COPY libs/egress/package.json libs/egress/
COPY libs/host-process/package.json libs/host-process/
COPY libs/intake/package.json libs/intake/
COPY libs/mcp/package.json libs/mcp/
COPY libs/python-jail/package.json libs/python-jail/
COPY libs/queue/package.json libs/queue/
COPY libs/services/package.json libs/services/
# Optional dependencies are embedded Postgres and speed-ups; a container is given its services. No install script runs.
RUN --mount=type=cache,target=/root/.npm \
    npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund --workspace @nightshift/worker

FROM node:24.21-bookworm-slim
# For uploaded Python, which runs only where the container may open user namespaces.
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap python3 && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production \
    HEALTH_HOST=0.0.0.0 \
    HEALTH_PORT=8284 \
    DATA_DIR=/data
WORKDIR /app
COPY --from=dependencies /app ./
COPY libs/agent-core/src libs/agent-core/src
COPY libs/db/src libs/db/src
COPY libs/egress/src libs/egress/src
COPY libs/host-process/src libs/host-process/src
COPY libs/intake/src libs/intake/src
COPY libs/mcp/src libs/mcp/src
COPY libs/python-jail/src libs/python-jail/src
COPY libs/queue/src libs/queue/src
COPY libs/services/src libs/services/src
COPY apps/tool-host/src apps/tool-host/src
COPY apps/net-host/src apps/net-host/src
COPY apps/sandbox-host/src apps/sandbox-host/src
COPY apps/worker/src apps/worker/src
# Request bodies on their way out lie here, each until it is sent. Nothing here is needed after a restart.
RUN install -d -o node -g node /data
VOLUME /data
USER node
EXPOSE 8284
STOPSIGNAL SIGTERM
# Alive, whatever the database does. A worker that hangs loses its leases anyway, and another goes on with its rows.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.HEALTH_PORT}/livez`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--min-semi-space-size=16", "--max-semi-space-size=16", "--heap-growing-percent=250", "--max-inlined-bytecode-size=100", "--max-inlined-bytecode-size-cumulative=100", "apps/worker/src/main.ts"]
