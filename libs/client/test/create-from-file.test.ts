import { appendFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createNightshift, NightshiftFileError } from '../src/index.ts';
import { refuse, sendJson, serve } from './server.ts';

const BATCH = { id: 'job-1', state: 'receiving' };
const LINES =
  '{"custom_id":"a","agent_id":"agent-1","input":"ä"}\n{"custom_id":"b","agent_id":"agent-1","input":"…"}\n';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-client-'));
});
afterAll(() => rm(dir, { recursive: true }));

async function write(name: string, content: string | Uint8Array = LINES): Promise<string> {
  const path = join(dir, name);
  await writeFile(path, content);
  return path;
}

/** Number of files below the directory that this process has open. Linux only. */
async function openFiles(): Promise<number> {
  const { readlink } = await import('node:fs/promises');
  const fds = await readdir('/proc/self/fd');
  const paths = await Promise.all(fds.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
  return paths.filter((path) => path.startsWith(dir)).length;
}

test.each(['tasks.jsonl', 'tasks.jsonl.gz', 'tasks.jsonl.zst'])('%s is sent as it is', async (name) => {
  const { client, received } = await serve((_, response) => sendJson(response, BATCH));
  const path = await write(name);
  const bytes: [number, number | null][] = [];
  const onBytes = (...each: [number, number | null]): unknown => bytes.push(each);
  expect(await client.batches.createFromFile(path, { idempotencyKey: 'monday', onBytes })).toEqual(BATCH);
  await client.batches.createFromFile(pathToFileURL(path), {
    encoding: 'identity',
    type: 'application/x-ndjson',
  });
  const { gz, zst } = { gz: name.endsWith('gz'), zst: name.endsWith('zst') };
  expect(received[0]).toMatchObject({
    method: 'POST',
    headers: { 'content-type': 'application/jsonl', 'idempotency-key': 'monday' },
    body: LINES,
  });
  expect(received[0]?.headers['content-encoding']).toBe(gz ? 'gzip' : zst ? 'zstd' : undefined);
  expect(received[1]?.headers).toMatchObject({ 'content-type': 'application/x-ndjson' });
  expect(received[1]?.headers).not.toHaveProperty('content-encoding');
  expect(bytes.at(-1)).toEqual([Buffer.byteLength(LINES), Buffer.byteLength(LINES)]);
});

test.each([
  [
    'texts',
    () =>
      (async function* () {
        yield* LINES;
      })(),
  ],
  [
    'bytes',
    () =>
      (async function* () {
        yield* [Buffer.from(LINES)];
      })(),
  ],
  ['a stream', () => new Blob([LINES]).stream()],
  ['a Blob', () => new Blob([LINES])],
])('%s are sent', async (_, source) => {
  const { client, received } = await serve((__, response) => sendJson(response, BATCH));
  await client.batches.createFromFile(source());
  expect(received[0]?.body).toBe(LINES);
});

test('compressed bytes of a stream are sent with the encoding of the caller', async () => {
  const { client, received } = await serve((_, response) => sendJson(response, BATCH));
  await client.batches.createFromFile(new Blob([gzipSync(LINES)]).stream(), { encoding: 'gzip' });
  expect(received[0]?.headers['content-encoding']).toBe('gzip');
});

/** Starts a server that cuts the first uploads after some bytes. */
async function cutting(
  cuts: number,
): Promise<{ readonly url: string; readonly keys: unknown[]; readonly bodies: string[] }> {
  const keys: unknown[] = [];
  const bodies: string[] = [];
  const server: Server = createServer((request, response) => {
    const place = keys.push(request.headers['idempotency-key']);
    let body = '';
    request.setEncoding('utf8').on('data', (part: string) => {
      body += part;
      if (place <= cuts) request.destroy();
    });
    request
      .on('error', () => undefined)
      .on('end', () => {
        bodies.push(body);
        sendJson(response, BATCH);
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, keys, bodies };
}

test('a path is read again after a cut, under the same key, and its file is closed', async () => {
  const { url, keys, bodies } = await cutting(2);
  const path = await write('long.jsonl', LINES.repeat(20_000));
  const batch = await createNightshift({ url, apiKey: 'k' }).batches.createFromFile(path);
  expect(batch).toEqual(BATCH);
  expect(new Set(keys).size).toBe(1);
  expect(keys).toHaveLength(3);
  expect(bodies).toEqual([LINES.repeat(20_000)]);
  await expect.poll(openFiles).toBe(0);
});

test('a stream that is cut is not sent again, and the error tells the key', async () => {
  const { url, keys } = await cutting(1);
  const stream = new Blob([LINES.repeat(20_000)]).stream();
  const error: unknown = await createNightshift({ url, apiKey: 'k' })
    .batches.createFromFile(stream)
    .catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(NightshiftFileError);
  expect(error).toHaveProperty('message', expect.stringContaining(`idempotencyKey: '${String(keys[0])}'`));
  expect(keys).toHaveLength(1);
});

test('a file that changes while it is sent makes no batch', async () => {
  let finished = 0;
  const { client } = await serve((_, response) => {
    finished += 1;
    sendJson(response, BATCH);
  });
  const path = await write('growing.jsonl', LINES.repeat(20_000));
  let isChanged = false;
  const onBytes = (): void => {
    if (isChanged) return;
    isChanged = true;
    void appendFile(path, LINES);
  };
  await expect(client.batches.createFromFile(path, { onBytes })).rejects.toThrow(
    /growing\.jsonl changed while it was sent, so the upload was broken off, and no batch was made\./,
  );
  expect(finished).toBe(0);
  await expect.poll(openFiles).toBe(0);
});

test('a file that changes between two attempts is not sent again', async () => {
  const path = await write('changing.jsonl');
  const { client, received } = await serve((_, response) => response.destroy(), {
    onRetry: () => void appendFile(path, LINES),
  });
  await expect(client.batches.createFromFile(path)).rejects.toThrow(/See the list of batches/);
  expect(received).toHaveLength(1);
});

test('a missing file, and a directory, are errors that say so', async () => {
  const { client, received } = await serve((_, response) => sendJson(response, BATCH));
  await expect(client.batches.createFromFile(join(dir, 'none'))).rejects.toThrow(
    /none cannot be read: ENOENT/,
  );
  await expect(client.batches.createFromFile(dir)).rejects.toThrow(/cannot be read: EISDIR/);
  expect(received).toEqual([]);
});

test('an error of the source, and an abort, end the upload', async () => {
  const { client, received } = await serve((_, response) => sendJson(response, BATCH));
  const failing = (async function* () {
    yield LINES;
    await Promise.resolve();
    throw new Error('a broken pipe');
  })();
  await expect(client.batches.createFromFile(failing)).rejects.toThrow('a broken pipe');
  const abort = new AbortController();
  const endless = (async function* () {
    yield LINES;
    setImmediate(() => abort.abort(new Error('enough')));
    await new Promise(() => undefined);
  })();
  await expect(client.batches.createFromFile(endless, { signal: abort.signal })).rejects.toThrow('enough');
  expect(received).toEqual([]);
});

test('a refusal of the lines is thrown with the lines', async () => {
  const { client } = await serve((_, response) => refuse(response, 422, 'validation_failed'));
  await expect(client.batches.createFromFile(await write('bad.jsonl'))).rejects.toMatchObject({
    code: 'validation_failed',
  });
});
