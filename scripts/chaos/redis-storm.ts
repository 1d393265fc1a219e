import { Redis } from 'ioredis';
import { startRedisServer, type RedisServer } from '../../libs/services/src/index.ts';

/** A Redis that loses its data and restarts from time to time. */
export interface RedisStorm {
  readonly url: string;
  readonly flushes: () => number;
  readonly restarts: () => number;
  stop(): Promise<void>;
}

/** Starts a Redis. Flushes it every `flushMs`, and restarts it on the same port every third time. */
export async function startRedisStorm(dir: string, flushMs: number): Promise<RedisStorm> {
  let server: RedisServer = await startRedisServer({ dir });
  const counts = { flushes: 0, restarts: 0 };
  let stopped = false;
  const storm = async (): Promise<void> => {
    while (!stopped) {
      await new Promise((resolve) => setTimeout(resolve, flushMs));
      if ((counts.flushes + counts.restarts) % 3 === 2) {
        const { port } = server;
        await server.stop();
        server = await startRedisServer({ dir, port });
        counts.restarts += 1;
      } else {
        const redis = new Redis(server.url, { maxRetriesPerRequest: 1 });
        redis.on('error', () => undefined);
        await redis.flushall().catch(() => undefined);
        redis.disconnect();
        counts.flushes += 1;
      }
    }
  };
  const running = storm();
  return {
    url: server.url,
    flushes: () => counts.flushes,
    restarts: () => counts.restarts,
    async stop() {
      stopped = true;
      await running;
      await server.stop();
    },
  };
}
