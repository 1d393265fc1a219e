# The API and the migrate step. Build from the root of the repository:
#   docker build -f infra/docker/api.Dockerfile -t nightshift-api .
#   docker run --rm -e DATABASE_URL -e QUEUE_URL nightshift-api node scripts/migrate.ts
#   docker run --init --read-only -e DATABASE_URL -e QUEUE_URL -e NIGHTSHIFT_API_KEY -p 127.0.0.1:8283:8283 nightshift-api
# It runs the sources as they are (Node strips the types); the dashboard alone is built. Run it with --init: Node is no
# init process, and one belongs above everything that starts children.

FROM node:24.21-bookworm-slim AS dependencies
WORKDIR /app
# Manifests alone: this layer is made anew when a dependency changes, not when code does.
COPY package.json package-lock.json ./
COPY apps/api/package.json apps/api/
COPY libs/agent-core/package.json libs/agent-core/
COPY libs/db/package.json libs/db/
COPY libs/egress/package.json libs/egress/
COPY libs/intake/package.json libs/intake/
COPY libs/mcp/package.json libs/mcp/
COPY libs/python-jail/package.json libs/python-jail/
COPY libs/queue/package.json libs/queue/
COPY libs/services/package.json libs/services/
# Optional dependencies are embedded Postgres and speed-ups; a container is given its services. No install script runs.
RUN --mount=type=cache,target=/root/.npm \
    npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund --workspace @nightshift/api

# The dashboard is built from its own and the client's sources; its packages do not reach the image.
FROM node:24.21-bookworm-slim AS dashboard
WORKDIR /app
COPY package.json package-lock.json ./
COPY apps/dashboard/package.json apps/dashboard/
COPY libs/client/package.json libs/client/
RUN --mount=type=cache,target=/root/.npm \
    npm ci --ignore-scripts --no-audit --no-fund --workspace @nightshift/dashboard
COPY tsconfig.base.json ./
COPY libs/client/src libs/client/src
COPY apps/dashboard/index.html apps/dashboard/vite.config.ts apps/dashboard/tsconfig.json apps/dashboard/
COPY apps/dashboard/public apps/dashboard/public
COPY apps/dashboard/src apps/dashboard/src
COPY scripts/command-line.ts scripts/build-dashboard.ts scripts/
COPY scripts/dashboard scripts/dashboard
RUN node scripts/build-dashboard.ts

FROM node:24.21-bookworm-slim
# For uploaded Python, which runs only where the container may open user namespaces.
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap python3 && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    PORT=8283 \
    DATA_DIR=/data
WORKDIR /app
COPY --from=dependencies /app ./
COPY libs/agent-core/src libs/agent-core/src
COPY libs/db/src libs/db/src
COPY libs/egress/src libs/egress/src
COPY libs/intake/src libs/intake/src
COPY libs/mcp/src libs/mcp/src
COPY libs/python-jail/src libs/python-jail/src
COPY libs/queue/src libs/queue/src
COPY libs/services/src libs/services/src
COPY apps/api/src apps/api/src
COPY scripts/command-line.ts scripts/migrate.ts scripts/rotate-secrets.ts scripts/
COPY --from=dashboard /app/apps/dashboard/dist apps/dashboard/dist
# The only place that is written to; the rest may be mounted read-only.
RUN install -d -o node -g node /data
VOLUME /data
USER node
EXPOSE 8283
STOPSIGNAL SIGTERM
# Alive, not ready: a database that is away is no reason to replace this process.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/livez`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--max-semi-space-size=8", "--heap-growing-percent=100", "apps/api/src/main.ts"]
