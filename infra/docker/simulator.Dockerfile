# The simulated provider: Anthropic's message batches without a model and without a bill. For development and tests.
#   docker build -f infra/docker/simulator.Dockerfile -t nightshift-simulator .
#   docker run --init --read-only -p 127.0.0.1:8290:8290 nightshift-simulator
# Its control port (8291) can make it fail on purpose: keep it inside the network.

FROM node:24.21-bookworm-slim AS dependencies
WORKDIR /app
# Manifests alone: this layer is made anew when a dependency changes, not when code does.
COPY package.json package-lock.json ./
COPY apps/simulator/package.json apps/simulator/
RUN --mount=type=cache,target=/root/.npm \
    npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund --workspace @nightshift/simulator

FROM node:24.21-bookworm-slim
ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    SIMULATOR_PORT=8290 \
    SIMULATOR_DATA_DIR=/data
WORKDIR /app
COPY --from=dependencies /app ./
COPY apps/simulator/src apps/simulator/src
# Bodies it was sent and results it will give. It forgets its batches when it ends.
RUN install -d -o node -g node /data
VOLUME /data
USER node
EXPOSE 8290 8291
STOPSIGNAL SIGTERM
# Any answer will do: without a key it is a refusal.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.SIMULATOR_PORT}/v1/models`).then(() => process.exit(0), () => process.exit(1))"]
CMD ["node", "apps/simulator/src/main.ts"]
