import { checkPostgresQueue, migratePostgresQueue } from './postgres.ts';
import { parseQueueUrl } from './queue-url.ts';
import { assertRedisAllowed, type CheckRedis } from './redis.ts';

export interface PrepareOptions {
  /** Says why this Redis must not be used. */
  readonly checkRedis?: CheckRedis | undefined;
}

/**
 * Rejects, as {@link prepareQueue} does, when the queue cannot be used: a URL that means nothing, a backend that is away, a
 * Redis that is refused. Changes nothing.
 */
export async function checkQueue(queueUrl: string, options: PrepareOptions = {}): Promise<void> {
  const target = parseQueueUrl(queueUrl);
  if (target.backend === 'postgres') await checkPostgresQueue(target);
  if (target.backend === 'redis') await assertRedisAllowed(target, options.checkRedis);
}

/**
 * The queue's part of the migrate step, to be run before anything listens: creates or upgrades BullMQ's tables on
 * Postgres, has Redis checked. Harmless to repeat. Rejects when the backend is away or refuses; `none` needs nothing.
 */
export async function prepareQueue(queueUrl: string, options: PrepareOptions = {}): Promise<void> {
  const target = parseQueueUrl(queueUrl);
  if (target.backend === 'postgres') await migratePostgresQueue(target);
  if (target.backend === 'redis') await assertRedisAllowed(target, options.checkRedis);
}
