import { describe, expect, test } from 'vitest';
import { splitLines, type Line } from '../../src/provider/line-splitter.ts';

async function* chunks(...pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* pieces;
}

/** Longer than the uncut lines of these tests. */
const LINE_BYTES_MAX = 32_000_000;

async function linesOf(source: AsyncIterable<Buffer>, maxLineBytes = LINE_BYTES_MAX): Promise<Line[]> {
  const lines: Line[] = [];
  for await (const some of splitLines(source, maxLineBytes)) {
    expect(some.length).toBeGreaterThan(0);
    lines.push(...some);
  }
  return lines;
}

const line = (number: number, text: string, terminated = true): Line => ({
  kind: 'line',
  number,
  text,
  terminated,
});

/** Twenty lines, some blank, some with multi-byte characters. */
const TEXTS = Array.from({ length: 20 }, (_, n) =>
  n % 7 === 3 ? '' : `{"custom_id":"é${n}","x":"😀\u2028"}`,
);
const EXPECTED = TEXTS.flatMap((text, n) => (text === '' ? [] : [line(n + 1, text)]));

describe('twenty lines cut in two at every byte come out the same', () => {
  test.each([
    ['plain', TEXTS.join('\n') + '\n', EXPECTED],
    ['with CRLF', TEXTS.join('\r\n') + '\r\n', EXPECTED],
    ['after a byte order mark', '\ufeff' + TEXTS.join('\n') + '\n', EXPECTED],
    ['without a final line end', TEXTS.join('\n'), [...EXPECTED.slice(0, -1), line(20, TEXTS[19]!, false)]],
    ['with spaces for blank lines', TEXTS.map((text) => text || ' \t').join('\r\n') + '\n\n\r\n', EXPECTED],
  ])('%s', async (_name, text, expected) => {
    const bytes = Buffer.from(text);
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(await linesOf(chunks(bytes.subarray(0, cut), bytes.subarray(cut)))).toEqual(expected);
    }
  });

  test('and byte by byte', async () => {
    const bytes = Buffer.from('\ufeff' + TEXTS.join('\r\n'));
    const single = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
    expect(await linesOf(chunks(...single))).toEqual([...EXPECTED.slice(0, -1), line(20, TEXTS[19]!, false)]);
  });
});

describe('a line that is too long', () => {
  const long = `{"custom_id":"big","x":"${'y'.repeat(5000)}"}`;

  test('yields its head and tail wherever the chunks end, and its neighbours are whole', async () => {
    const bytes = Buffer.from(`first\n${long}\nlast\n`);
    for (let cut = 0; cut <= bytes.length; cut += 13) {
      const lines = await linesOf(chunks(bytes.subarray(0, cut), bytes.subarray(cut)), 2000);
      expect(lines).toEqual([
        line(1, 'first'),
        {
          kind: 'too_long',
          number: 2,
          byte_length: long.length,
          head: long.slice(0, 1024),
          tail: long.slice(-4096),
          terminated: true,
        },
        line(3, 'last'),
      ]);
    }
  });

  test('yields its own tail, whatever the number of chunks and long lines', async () => {
    const ends = ['a', 'b', 'c'].map((end) => `${end.repeat(5000)}${'0123456789'.repeat(500)}${end}`);
    const bytes = Buffer.from(ends.join('\n'));
    for (const size of [1, 7, 4096, 9_000, 50_000]) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, place) =>
        bytes.subarray(place * size, (place + 1) * size),
      );
      const lines = await linesOf(chunks(...pieces), 2000);
      expect(lines.map((line) => line.kind === 'too_long' && line.tail)).toEqual(
        ends.map((end) => end.slice(-4096)),
      );
    }
  });

  test('is distinguished from a line of exactly the maximum', async () => {
    const bytes = Buffer.from(`${'a'.repeat(100)}\n${'b'.repeat(101)}`);
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(await linesOf(chunks(bytes.subarray(0, cut), bytes.subarray(cut)), 100)).toEqual([
        line(1, 'a'.repeat(100)),
        {
          kind: 'too_long',
          number: 2,
          byte_length: 101,
          head: 'b'.repeat(101),
          tail: 'b'.repeat(101),
          terminated: false,
        },
      ]);
    }
  });

  test('is not buffered: a gigabyte without a line end passes', async () => {
    const megabyte = Buffer.alloc(1024 * 1024, 'z');
    async function* endless(): AsyncGenerator<Buffer> {
      yield Buffer.from('\ufeff{"custom_id":"big"');
      for (let n = 0; n < 1024; n++) yield megabyte;
      yield Buffer.from('\nnext\n');
    }
    const before = process.memoryUsage().arrayBuffers;
    let during = 0;
    async function* watched(): AsyncGenerator<Buffer> {
      for await (const chunk of endless()) {
        yield chunk;
        during = Math.max(during, process.memoryUsage().arrayBuffers - before);
      }
    }
    const [big, next] = await linesOf(watched(), 1024 * 1024);
    expect(big).toMatchObject({ kind: 'too_long', byte_length: 3 + 18 + 2 ** 30, terminated: true });
    expect(big).toMatchObject({ head: expect.stringMatching(/^{"custom_id":"big"zzz/) as unknown });
    expect(next).toEqual(line(2, 'next'));
    expect(during).toBeLessThan(16 * 1024 * 1024);
  });
});

test('a line in many small chunks takes linear time', async () => {
  const small = Buffer.alloc(64, 'a');
  async function* many(): AsyncGenerator<Buffer> {
    for (let n = 0; n < 250_000; n++) yield small;
  }
  const [only] = await linesOf(many());
  expect(only).toMatchObject({ kind: 'line', number: 1, terminated: false });
  expect(only?.kind === 'line' && only.text.length).toBe(16_000_000);
});

test('invalid UTF-8 affects no other line', async () => {
  const bytes = Buffer.concat([
    Buffer.from('a\n'),
    Buffer.from([0x78, 0xff, 0xc3, 0x0a]),
    Buffer.from('b\n'),
  ]);
  expect(await linesOf(chunks(bytes))).toEqual([line(1, 'a'), line(2, 'x\ufffd\ufffd'), line(3, 'b')]);
});

test('an empty stream and blank lines yield no lines', async () => {
  expect(await linesOf(chunks())).toEqual([]);
  expect(await linesOf(chunks(Buffer.from('\n\r\n \n\n')))).toEqual([]);
  expect(await linesOf(chunks(Buffer.from('\ufeff')))).toEqual([]);
});

test('an error of the source is thrown after the lines before it', async () => {
  async function* breaking(): AsyncGenerator<Buffer> {
    yield Buffer.from('one\ntwo\nthr');
    throw new Error('cut');
  }
  const seen: Line[] = [];
  const read = async () => {
    for await (const lines of splitLines(breaking(), LINE_BYTES_MAX)) seen.push(...lines);
  };
  await expect(read()).rejects.toThrow('cut');
  expect(seen).toEqual([line(1, 'one'), line(2, 'two')]);
});

test('a stream cut at any byte has yielded exactly the complete lines', async () => {
  const bytes = Buffer.from(TEXTS.join('\n') + '\n');
  for (let cut = 0; cut <= bytes.length; cut++) {
    async function* breaking(): AsyncGenerator<Buffer> {
      yield bytes.subarray(0, cut);
      throw new Error('cut');
    }
    const seen: Line[] = [];
    const read = async () => {
      for await (const lines of splitLines(breaking(), LINE_BYTES_MAX)) seen.push(...lines);
    };
    await expect(read()).rejects.toThrow('cut');
    const whole = bytes.subarray(0, cut).filter((byte) => byte === 0x0a).length;
    expect(seen).toEqual(EXPECTED.filter(({ number }) => number <= whole));
  }
});

test('leaving the loop returns the source', async () => {
  let returned = false;
  async function* source(): AsyncGenerator<Buffer> {
    try {
      for (;;) yield Buffer.from('x\n');
    } finally {
      returned = true;
    }
  }
  for await (const _lines of splitLines(source(), LINE_BYTES_MAX)) break;
  expect(returned).toBe(true);
});
