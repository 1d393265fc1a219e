import { expect, test } from 'vitest';
import { isEnding, stopEverything, stoppedAtEnd } from '../ending.ts';
import { within } from '../measure/within.ts';

test('everything that runs is stopped once, the newest first, and nothing new starts', async () => {
  const stopped: string[] = [];
  const stopOf = (name: string) => async (): Promise<void> => {
    stopped.push(name);
    if (name === 'redis') throw new Error('It would not stop.');
  };
  stoppedAtEnd(stopOf('postgres'));
  const stopWorker = stoppedAtEnd(stopOf('worker'));
  stoppedAtEnd(stopOf('redis'));
  stoppedAtEnd(stopOf('child'));
  await stopWorker();
  expect(isEnding()).toBe(false);
  await stopEverything();
  await stopWorker();
  expect(stopped).toEqual(['worker', 'child', 'redis', 'postgres']);
  expect(() => stoppedAtEnd(stopOf('late'))).toThrow('The bench is being stopped.');
  expect(stopped.at(-1)).toBe('late');
});

test('the error of a timeout names the step', async () => {
  await expect(within(1, 'The start', new Promise(() => undefined))).rejects.toThrow(
    'The start took more than 0.001 s.',
  );
  await expect(within(60_000, 'The start', Promise.resolve(7))).resolves.toBe(7);
});
