import { Readable } from 'node:stream';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import type { LineCoding } from '../src/uploads/line-upload.ts';
import { readLines, type UploadLimits } from '../src/uploads/read-lines.ts';

const LIMITS: UploadLimits = { line_bytes: 40, lines: 1_000, bytes: 100_000, idle_ms: 60_000 };

async function linesOf(
  parts: Iterable<Uint8Array> | Readable,
  coding: LineCoding = 'identity',
  limits: Partial<UploadLimits> = {},
) {
  const lines: [number, string][] = [];
  const seen: Buffer[] = [];
  const body = parts instanceof Readable ? parts : Readable.from(parts, { objectMode: false });
  for await (const { first, texts } of readLines(body, coding, { ...LIMITS, ...limits }, (part) =>
    seen.push(part),
  ))
    for (const [index, text] of texts.entries()) lines.push([first + index, text]);
  return { lines, bytes: Buffer.concat(seen).toString() };
}

/** Cuts bytes at a place. */
const cutAt = (bytes: Buffer, place: number) => [bytes.subarray(0, place), bytes.subarray(place)];

describe('lines are the same', () => {
  const text = '{"ä":"€😀"}\n1\n{"last":true}\n\n';
  const expected = [
    [1, '{"ä":"€😀"}'],
    [2, '1'],
    [3, '{"last":true}'],
  ];

  test.each([
    ['identity', Buffer.from(text)],
    ['gzip', gzipSync(text)],
    ['zstd', zstdCompressSync(text)],
  ] as const)('wherever %s bytes are cut, and byte by byte', async (coding, bytes) => {
    for (let place = 0; place <= bytes.length; place++)
      expect(await linesOf(cutAt(bytes, place), coding)).toEqual({ lines: expected, bytes: text });
    expect(
      await linesOf(
        [...bytes].map((byte) => Buffer.of(byte)),
        coding,
      ),
    ).toEqual({
      lines: expected,
      bytes: text,
    });
  });

  test('without an end of the last line', async () => {
    expect((await linesOf([Buffer.from('1\n2')])).lines).toEqual([
      [1, '1'],
      [2, '2'],
    ]);
  });
});

describe('an upload ends with an error', () => {
  test('when its gzip or zstd is cut anywhere', async () => {
    for (const [coding, bytes] of [
      ['gzip', gzipSync('{"a":1}\n'.repeat(50))],
      ['zstd', zstdCompressSync('{"a":1}\n'.repeat(50))],
    ] as const)
      for (let end = 1; end < bytes.length; end++)
        await expect(linesOf([bytes.subarray(0, end)], coding)).rejects.toMatchObject({
          code: 'invalid_argument',
        });
  });

  test('after its time without a byte, however it is encoded', async () => {
    for (const coding of ['identity', 'gzip', 'zstd'] as const) {
      const silent = new Readable({ read: () => undefined });
      await expect(linesOf(silent, coding, { idle_ms: 5 })).rejects.toMatchObject({
        code: 'request_timeout',
      });
      expect(silent.destroyed).toBe(false);
    }
  });

  test('when the connection is cut, with the error of the connection', async () => {
    const cut = new Readable({ read: () => undefined });
    cut.push('1\n');
    const reading = linesOf(cut, 'gzip');
    cut.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
    await expect(reading).rejects.toThrow('aborted');
  });

  test('with the number of a line that is too long, wherever the bytes are cut', async () => {
    const bytes = Buffer.from(`1\n${'2'.repeat(41)}\n3\n`);
    for (let place = 0; place <= bytes.length; place++)
      await expect(linesOf(cutAt(bytes, place))).rejects.toMatchObject({
        code: 'payload_too_large',
        fields: [{ path: '/lines/2' }],
      });
    expect((await linesOf([Buffer.from(`1\n${'2'.repeat(40)}\n`)])).lines).toHaveLength(2);
  });

  test('with the number of a line that is not UTF-8, wherever the bytes are cut', async () => {
    const bytes = Buffer.from([0x31, 0x0a, 0x32, 0x0a, 0xe2, 0x82, 0x0a, 0x33]);
    for (let place = 0; place <= bytes.length; place++)
      await expect(linesOf(cutAt(bytes, place))).rejects.toMatchObject({ fields: [{ path: '/lines/3' }] });
  });

  test('for more bytes or lines than it may have', async () => {
    const bytes = gzipSync('1\n'.repeat(600));
    await expect(linesOf([bytes], 'gzip', { bytes: 1_000 })).rejects.toMatchObject({
      code: 'payload_too_large',
    });
    await expect(linesOf([bytes], 'gzip', { lines: 599 })).rejects.toThrow('more than 599 lines');
    expect((await linesOf([bytes], 'gzip', { lines: 600, bytes: 1_200 })).lines).toHaveLength(600);
  });
});
