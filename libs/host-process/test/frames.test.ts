import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createFrameReader, createFrameWriter } from '../src/frames.ts';

const BYTES_MAX = 100_000;
const VALUES = ['', 'ä😀', { nested: [1, null] }, 'lone \ud800', 'x'.repeat(5_000)];

/** Returns the writes of a writer of the values. */
async function writesOf(values: readonly unknown[], now: unknown): Promise<Buffer[]> {
  const stream = new PassThrough();
  const writes: Buffer[] = [];
  stream.on('data', (piece: Buffer) => writes.push(piece));
  const writer = createFrameWriter(stream, BYTES_MAX);
  const left = values.map(
    (value) => new Promise<void>((resolve) => writer.write(JSON.stringify(value), resolve)),
  );
  left.push(new Promise((resolve) => writer.writeNow(JSON.stringify(now), resolve)));
  await Promise.all(left);
  return writes;
}

test('values arrive whole and in order, wherever the pipe splits them', async () => {
  const bytes = Buffer.concat(await writesOf(VALUES, 'first'));
  for (const size of [1, 2, 3, 5, 7, 64, 4_999, bytes.length]) {
    const received: unknown[] = [];
    const read = createFrameReader(BYTES_MAX, (value) => received.push(value));
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
    expect(received).toEqual(['first', ...VALUES]);
  }
});

test('frames of one turn leave together, except an urgent one', async () => {
  expect(await writesOf(VALUES, 'first')).toHaveLength(2);
});

test('a frame over the limit is neither written nor read', () => {
  const stream = new PassThrough();
  expect(createFrameWriter(stream, 10).write(JSON.stringify('x'.repeat(10)))).toBe(false);
  expect(stream.readableLength + stream.writableLength).toBe(0);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(11);
  expect(() => createFrameReader(10, () => {})(header)).toThrow(RangeError);
});
