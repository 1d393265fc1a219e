import { describe, expect, test } from 'vitest';
import type { FromSandboxHost } from '../src/messages.ts';
import { readMessage } from '../src/read-message.ts';

const OUTCOME = {
  status: 'succeeded',
  result: 'a \0 \u{1F600}',
  duration_ms: 1.5,
  truncated: false,
  stdout: '',
  stderr: '',
} as const;
const ENDED: FromSandboxHost = { kind: 'ended', id: 1, reply: OUTCOME, isBroken: false };

describe('a message of the host process', () => {
  test.each([[{ kind: 'ready' }], [{ kind: 'pong' }], [ENDED]])('is read: %j', (message) => {
    expect(readMessage(message)).toEqual(message);
  });

  test.each([
    [null],
    [{ kind: 'other' }],
    [{ kind: 'fetch', id: '1', fetch: 1, request: '' }],
    [{ ...ENDED, reply: { ...OUTCOME, status: 'done' } }],
    [{ ...ENDED, reply: { ...OUTCOME, result: { then: 1 } } }],
    [{ ...ENDED, reply: { ...OUTCOME, stdout: 'x'.repeat(5_000) } }],
    [{ ...ENDED, reply: { ...OUTCOME, started: false } }],
  ])('is refused: %j', (message) => {
    expect(() => readMessage(message)).toThrow();
  });
});
