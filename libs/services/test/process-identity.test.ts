import { spawnSync } from 'node:child_process';
import { expect, onTestFinished, test, vi } from 'vitest';
import { processIdentity } from '../src/process-identity.ts';

test('the identity of a process by ps does not depend on time zone and language', ({ skip }) => {
  if (spawnSync('ps', ['-p', `${process.pid}`]).status !== 0) skip('no ps on PATH');
  onTestFinished(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });
  vi.spyOn(process, 'platform', 'get').mockReturnValue('darwin');
  const seenFrom = (zone: string | undefined, language: string | undefined) => {
    vi.stubEnv('TZ', zone);
    vi.stubEnv('LC_ALL', language);
    return processIdentity(process.pid);
  };
  const identity = seenFrom('Europe/Vienna', 'de_AT.UTF-8');
  expect(identity).toMatch(new RegExp(`^${process.pid} .*\\d\\d:\\d\\d:\\d\\d`));
  expect(seenFrom('America/New_York', 'en_US.UTF-8')).toBe(identity);
  // The watchdog has an empty environment.
  vi.stubEnv('PATH', undefined);
  expect(seenFrom(undefined, undefined)).toBe(identity);
});
