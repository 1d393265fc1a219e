import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createOutput, endWithReader, type Output } from '../src/output.ts';

interface Screen {
  readonly out: Output;
  stdout(): string;
  stderr(): string;
}

function open(options: {
  readonly isTTY?: boolean;
  readonly hasColor?: boolean;
  readonly isJson?: boolean;
  readonly columns?: number;
}): Screen {
  const { isTTY = false, hasColor = true, isJson = false, columns = 60 } = options;
  const [stdout, stderr] = [0, 1].map(() => Object.assign(new PassThrough(), { isTTY, columns }));
  if (stdout === undefined || stderr === undefined) throw new Error('two streams');
  const text = (stream: PassThrough): string => (stream.read() as Buffer | null)?.toString() ?? '';
  return {
    out: createOutput({ stdout, stderr, isJson, hasColor, isQuiet: false, columns: undefined }),
    stdout: () => text(stdout),
    stderr: () => text(stderr),
  };
}

test('a bar is drawn on a terminal alone, and a message clears it', () => {
  const terminal = open({ isTTY: true });
  terminal.out.draw('50%');
  terminal.out.note('A message.');
  expect(terminal.stderr()).toBe('\r\u001B[K50%\r\u001B[KA message.\n');
  for (const other of [open({ isTTY: false }), open({ isTTY: true, hasColor: false })]) {
    other.out.draw('50%');
    expect(other.out.isTerminal).toBe(false);
    expect(other.stderr()).toBe('');
  }
});

test('messages and bars hold no control characters', () => {
  const { out, stderr } = open({ isTTY: true });
  out.note('a\u001B]0;title\u0007\nb');
  out.warn('c\u202E');
  out.draw('50% waits\u001B[2J\nfor');
  expect(stderr()).toBe('a\uFFFD]0;title\uFFFD\nb\nc\uFFFD\n\r\u001B[K50% waits\uFFFD[2J for');
});

test('colour is for a terminal that may have it', () => {
  expect(open({ isTTY: true }).out.paint('red', 'x')).toBe('\u001B[31mx\u001B[39m');
  expect(open({ isTTY: true, hasColor: false }).out.paint('red', 'x')).toBe('x');
  expect(open({ isTTY: true, isJson: true }).out.paint('red', 'x')).toBe('x');
  expect(open({ isTTY: false }).out.paint('red', 'x')).toBe('x');
});

test('a list is a line of JSON per item with --json; a pipe gets whole cells, a terminal cut ones', async () => {
  const items = [{ name: 'x'.repeat(100) }];
  const table = { head: ['name'], row: ({ name }: { name: string }) => [name], empty: 'None.' };
  const [json, pipe, terminal] = [open({ isJson: true }), open({}), open({ isTTY: true })];
  for (const { out } of [json, pipe, terminal]) await out.list(items, table);
  expect(json.stdout()).toBe(`${JSON.stringify(items[0])}\n`);
  expect(pipe.stdout()).toContain('x'.repeat(100));
  expect(terminal.stdout()).toContain(`${'x'.repeat(59)}…`);
});

test('a terminal that tells no width has a usual one', () => {
  expect(open({ isTTY: true, columns: 0 }).out.columns).toBe(120);
  expect(open({ isTTY: true }).out.columns).toBe(60);
});

test('an empty list says so beside the data', async () => {
  const { out, stdout, stderr } = open({});
  await out.list([], { head: ['name'], row: () => [], empty: 'None.' });
  expect([stdout(), stderr()]).toEqual(['', 'None.\n']);
});

test('a closed pipe does not end a command that waits, and hides no failed end', () => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const codes: number[] = [];
  endWithReader({ stdout, stderr }, (ended) => codes.push(ended));
  const options = { isJson: true, isQuiet: false, hasColor: false, columns: undefined };
  const out = createOutput({ stdout, stderr, ...options });
  const close = () => stdout.emit('error', Object.assign(new Error('EPIPE'), { code: 'EPIPE' }));
  out.atClosedPipe(null);
  close();
  expect(codes).toEqual([]);
  out.atClosedPipe(1);
  close();
  expect(codes).toEqual([1]);
});

test.each([
  ['EPIPE', 0, ''],
  ['ENOSPC', 1, /cannot be written.*Free space/],
])('%s of standard output ends with %i', (code, exitCode, message) => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const codes: number[] = [];
  endWithReader({ stdout, stderr }, (ended) => codes.push(ended));
  stdout.emit('error', Object.assign(new Error(code), { code }));
  expect(codes).toEqual([exitCode]);
  expect((stderr.read() as Buffer | null)?.toString() ?? '').toMatch(message);
});
