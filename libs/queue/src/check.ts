import { checkPostgresQueue } from './postgres.ts';
import { parseQueueUrl } from './queue-url.ts';
import { assertRedisAllowed, type CheckRedis } from './redis.ts';

export interface CheckOptions {
  readonly checkRedis?: CheckRedis | undefined;
}

/**
 * Checks that the queue can be used.
 * Throws: for an unusable URL, an unreachable backend, or a refused Redis.
 */
export async function checkQueue(queueUrl: string, options: CheckOptions = {}): Promise<void> {
  const target = parseQueueUrl(queueUrl);
  if (target.backend === 'postgres') await checkPostgresQueue(target);
  if (target.backend === 'redis') await assertRedisAllowed(target, options.checkRedis);
}
