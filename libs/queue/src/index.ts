export { openBell, type Bell, type BellOptions } from './bell.ts';
export { listen, type Listener, type ListenOptions } from './listen.ts';
export { QueueRefusedError } from './port.ts';
export { checkQueue, prepareQueue, type PrepareOptions } from './prepare.ts';
export { parseQueueUrl, type QueueBackendName, type QueueTarget } from './queue-url.ts';
export type { CheckRedis } from './redis.ts';
export {
  MAX_SIGNALS_PER_RING,
  parseSignal,
  queueOf,
  SIGNAL_KINDS,
  type QueueName,
  type Signal,
  type SignalKind,
} from './signal.ts';
