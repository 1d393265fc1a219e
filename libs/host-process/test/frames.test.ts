import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createFrameReader, createFrameWriter } from '../src/frames.ts';

const BYTES_MAX = 100_000;
const VALUES = ['', 'ä😀', { nested: [1, null] }, 'lone \ud800', 'x'.repeat(5_000)];

/** Returns the bytes of the values as frames. */
function framesOf(values: readonly unknown[]): Buffer {
  const stream = new PassThrough();
  const writer = createFrameWriter(stream, BYTES_MAX);
  for (const value of values) writer.write(JSON.stringify(value));
  writer.flush();
  return stream.read() as Buffer;
}

test('values arrive whole and in order, wherever the pipe splits them', () => {
  const bytes = framesOf(VALUES);
  for (const size of [1, 2, 3, 5, 7, 64, 4_999, bytes.length]) {
    const received: unknown[] = [];
    const read = createFrameReader(BYTES_MAX, (value) => received.push(value));
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
    expect(received).toEqual(VALUES);
  }
});

test('frames of one turn leave together, and each tells when it has left', async () => {
  const stream = new PassThrough();
  const pieces: unknown[] = [];
  stream.on('data', (piece) => pieces.push(piece));
  const writer = createFrameWriter(stream, BYTES_MAX);
  const left = VALUES.map(
    (value) => new Promise<void>((resolve) => writer.write(JSON.stringify(value), resolve)),
  );
  await Promise.all(left);
  expect(pieces).toEqual([framesOf(VALUES)]);
});

test('a frame over the limit is neither written nor read', () => {
  const stream = new PassThrough();
  expect(createFrameWriter(stream, 10).write(JSON.stringify('x'.repeat(10)))).toBe(false);
  expect(stream.readableLength + stream.writableLength).toBe(0);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(11);
  expect(() => createFrameReader(10, () => {})(header)).toThrow(RangeError);
});
