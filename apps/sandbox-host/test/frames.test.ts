import { describe, expect, test } from 'vitest';
import { createFrameReader, encodeFrame, FRAME_BYTES_MAX, type FromHost } from '../src/frames.ts';
import { readMessage } from '../src/read-message.ts';

const OUTCOME = {
  status: 'succeeded',
  result: 'a \0 \u{1F600}',
  duration_ms: 1.5,
  truncated: false,
  stdout: '',
  stderr: '',
} as const;
const ENDED: FromHost = { kind: 'ended', id: 1, outcome: OUTCOME, isBroken: false };

test('messages arrive whole and in order, wherever the pipe splits them', () => {
  const messages: readonly FromHost[] = [{ kind: 'ready' }, ENDED, { kind: 'pong' }];
  const bytes = Buffer.concat(messages.map((message) => encodeFrame(message)!));
  for (let size = 1; size <= bytes.length; size += 1) {
    const read: unknown[] = [];
    const push = createFrameReader((message) => read.push(message));
    for (let at = 0; at < bytes.length; at += size) push(bytes.subarray(at, at + size));
    expect(read).toEqual(messages);
  }
});

test('a message that is too large has no frame, and a frame that announces too much is refused', () => {
  const request = 'x'.repeat(FRAME_BYTES_MAX);
  expect(encodeFrame({ kind: 'fetch', id: 1, fetch: 1, request })).toBeUndefined();
  const header = Buffer.alloc(4);
  header.writeUInt32BE(FRAME_BYTES_MAX + 1, 0);
  expect(() => createFrameReader(() => {})(header)).toThrow(RangeError);
});

describe('a message of the host process', () => {
  test.each([[{ kind: 'ready' }], [{ kind: 'pong' }], [ENDED]])('is read: %j', (message) => {
    expect(readMessage(message)).toEqual(message);
  });

  test.each([
    [null],
    [{ kind: 'other' }],
    [{ kind: 'fetch', id: '1', fetch: 1, request: '' }],
    [{ ...ENDED, outcome: { ...OUTCOME, status: 'done' } }],
    [{ ...ENDED, outcome: { ...OUTCOME, result: { then: 1 } } }],
    [{ ...ENDED, outcome: { ...OUTCOME, stdout: 'x'.repeat(5_000) } }],
    [{ ...ENDED, outcome: { ...OUTCOME, started: false } }],
  ])('is refused: %j', (message) => {
    expect(() => readMessage(message)).toThrow();
  });
});
