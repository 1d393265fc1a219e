export type Report = (error: unknown) => void;

interface Held {
  sinceMs: number;
  count: number;
}

const quietMs = 10_000;
const maxTopics = 32;

/**
 * Passes errors to `onError`, each kind of message at most once in ten seconds, with the number of suppressed ones.
 *
 * `onError` gets a new error: those of client libraries hold the failed command, for example AUTH with its password. An error
 * that `onError` throws is ignored.
 */
export function throttleErrors(
  onError: (error: Error) => void,
  nowMs: () => number = () => performance.now(),
): Report {
  const topics = new Map<string, Held>();
  return (given) => {
    const message = messageOf(given);
    const topic = message.replace(/[0-9]+/g, '#').slice(0, 200);
    const held = topics.get(topic);
    const now = nowMs();
    if (held !== undefined && now - held.sinceMs < quietMs) {
      held.count += 1;
      return;
    }
    if (held === undefined && topics.size >= maxTopics) topics.clear();
    topics.set(topic, { sinceMs: now, count: 0 });
    const more = held !== undefined && held.count > 0 ? ` (and ${held.count} more like it before)` : '';
    const error = new Error(`queue: ${message}${more}`);
    if (given instanceof Error) error.stack = `${error.name}: ${error.message}${framesOf(given)}`;
    try {
      onError(error);
    } catch {
      // The doorbell must not fail because a log does.
    }
  };
}

function messageOf(given: unknown): string {
  if (!(given instanceof Error)) return String(given);
  if (given.message !== '') return given.message;
  // A failed connection to several addresses is an AggregateError without a message.
  const code = (given as NodeJS.ErrnoException).code;
  return code ?? given.name;
}

function framesOf(error: Error): string {
  const frames = error.stack?.split('\n').filter((line) => line.startsWith('    at ')) ?? [];
  return frames.map((frame) => `\n${frame}`).join('');
}
