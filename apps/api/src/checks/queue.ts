import { isError } from '@nightshift/agent-core';
import { judge, type CheckFunction } from './judged.ts';

/** Checks that the queue answers, and that it may carry signals. */
export const checkQueue: CheckFunction<'queue'> = async ({ context: { queue } }) => {
  const { backend } = queue;
  const failure = await queue.check().then(
    () => null,
    (error: unknown) => error as Error,
  );
  const sound =
    backend === 'none'
      ? 'No queue: workers look for work at every SWEEP_INTERVAL_MS.'
      : `The queue on ${backend === 'redis' ? 'Redis' : 'PostgreSQL'} answers.`;
  return judge<'queue'>({ backend }, sound, [
    failure !== null && [
      isError(failure, 'bad_configuration') ? 'failing' : 'warning',
      failure.message,
      'Start it, or correct QUEUE_URL. Meanwhile workers find all work by their sweep, some seconds later.',
    ],
  ]);
};
