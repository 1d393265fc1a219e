import { checkPostgresQueue } from './postgres.ts';
import { parseQueueUrl } from './queue-url.ts';
import { assertRedisAllowed, type CheckRedis } from './redis.ts';

export interface CheckOptions {
  /** Says why this Redis must not be used. */
  readonly checkRedis?: CheckRedis | undefined;
}

/** Rejects when the queue cannot be used: an unusable URL, a backend that is away, a Redis that is refused. */
export async function checkQueue(queueUrl: string, options: CheckOptions = {}): Promise<void> {
  const target = parseQueueUrl(queueUrl);
  if (target.backend === 'postgres') await checkPostgresQueue(target);
  if (target.backend === 'redis') await assertRedisAllowed(target, options.checkRedis);
}
