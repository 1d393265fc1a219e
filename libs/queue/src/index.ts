export { openBell, type Bell, type BellOptions } from './bell.ts';
export { checkQueue, type CheckOptions } from './check.ts';
export { listen, type Listener, type ListenOptions } from './listen.ts';
export { parseQueueUrl, type QueueBackendName, type QueueTarget } from './queue-url.ts';
export type { CheckRedis } from './redis.ts';
export { queueOf, type QueueName, type Signal, type SignalKind } from './signal.ts';
