import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createFrameReader, createFrameWriter, encodeFrame } from '../src/frames.ts';

const BYTES_MAX = 100_000;
const VALUES = ['', 'ä😀', { nested: [1, null] }, 'lone \ud800', 'x'.repeat(5_000)];

test('values arrive whole and in order, wherever the pipe splits them', () => {
  const bytes = Buffer.concat(VALUES.map((value) => encodeFrame(JSON.stringify(value), BYTES_MAX)!));
  for (const size of [1, 2, 3, 5, 7, 64, 4_999, bytes.length]) {
    const received: unknown[] = [];
    const read = createFrameReader(BYTES_MAX, (value) => received.push(value));
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
    expect(received).toEqual(VALUES);
  }
});

test('frames of one turn leave together, and each tells when it has left', async () => {
  const stream = new PassThrough();
  const received: unknown[] = [];
  stream.on(
    'data',
    createFrameReader(BYTES_MAX, (value) => received.push(value)),
  );
  const write = createFrameWriter(stream, BYTES_MAX);
  const left = VALUES.map((value) => new Promise<void>((resolve) => write(JSON.stringify(value), resolve)));
  expect(stream.writableCorked).toBe(1);
  await Promise.all(left);
  expect(stream.writableCorked).toBe(0);
  expect(received).toEqual(VALUES);
});

test('a frame over the limit is neither written nor read', () => {
  const stream = new PassThrough();
  expect(createFrameWriter(stream, 10)(JSON.stringify('x'.repeat(10)))).toBe(false);
  expect(stream.readableLength + stream.writableLength).toBe(0);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(11);
  expect(() => createFrameReader(10, () => {})(header)).toThrow(RangeError);
});
