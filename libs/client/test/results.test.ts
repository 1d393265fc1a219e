import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { RunResult } from '../src/index.ts';
import { refuse, serve } from './server.ts';

const RUNS = 60;
const IDS = Array.from({ length: RUNS }, (_, index) => `ticket-${index + 1}`);

/** Returns a text that gzip cannot shorten much. */
const hashOf = (place: number): string => createHash('sha512').update(String(place)).digest('hex');

/** Returns the file behind a cursor. */
function fileAfter(after: string | null, count = RUNS): Buffer {
  const from = after === null ? 0 : Number(after.split('.')[1]);
  const lines = IDS.slice(from).map((custom_id, index) => {
    const place = from + index + 1;
    return JSON.stringify({ custom_id, text: `ä…${hashOf(place)}`, cursor: `key.${place}` });
  });
  const end = { end: { count, complete: true, cursor: `key.${RUNS}` } };
  return Buffer.from([...lines, JSON.stringify(end), ''].join('\n'));
}

async function idsOf(results: AsyncIterable<RunResult>): Promise<(string | null)[]> {
  const ids: (string | null)[] = [];
  for await (const { custom_id } of results) ids.push(custom_id);
  return ids;
}

test.each([
  ['plain', (bytes: Buffer) => bytes, {}],
  ['gzip', (bytes: Buffer) => gzipSync(bytes), { 'content-encoding': 'gzip' }],
])('a %s download that is cut at any byte goes on behind the last line', async (_, encode, headers) => {
  let cuts = 0;
  const { client, received } = await serve(({ url }, response) => {
    const file = encode(fileAfter(url.searchParams.get('after')));
    // A prime step walks through lines, their ends and the bytes of a character.
    const cut = 250 + ((cuts * 131) % 997);
    if (cut >= file.length) {
      response.writeHead(200, headers).end(file);
      return;
    }
    cuts += 1;
    response.writeHead(200, headers).write(file.subarray(0, cut), () => response.destroy());
  });
  expect(await idsOf(client.batches.results('job-1', { state: ['completed', 'failed'] }))).toEqual(IDS);
  expect(cuts).toBeGreaterThan(3);
  for (const { url } of received) expect(url.searchParams.getAll('state')).toEqual(['completed', 'failed']);
});

test('the iterator returns the end of the file', async () => {
  const { client } = await serve((_, response) => response.end(fileAfter(null)));
  const results = client.batches.results('job-1');
  let next = await results.next();
  while (next.done !== true) next = await results.next();
  expect(next.value).toEqual({ count: RUNS, complete: true, cursor: `key.${RUNS}` });
});

test('a count that does not fit is an error', async () => {
  const { client } = await serve((_, response) => response.end(fileAfter(null, RUNS + 1)));
  await expect(idsOf(client.batches.results('job-1'))).rejects.toThrow(
    /^The results of job-1 are not whole: the file counts 61 runs, but 60 came\. Download them again\.$/,
  );
});

test('a file that begins behind a cursor is checked with the count before it', async () => {
  const { client } = await serve(({ url }, response) =>
    response.end(fileAfter(url.searchParams.get('after'))),
  );
  const query = { after: 'key.50' };
  expect(await idsOf(client.batches.results('job-1', query))).toEqual(IDS.slice(50));
  expect(await idsOf(client.batches.results('job-1', query, { countBefore: 50 }))).toEqual(IDS.slice(50));
  await expect(idsOf(client.batches.results('job-1', query, { countBefore: 49 }))).rejects.toThrow(/59 came/);
});

test('a download ends when its reader stops', async () => {
  const closed = Promise.withResolvers<undefined>();
  const { client } = await serve((_, response) => {
    response.once('close', () => closed.resolve(undefined));
    response.write(fileAfter(null).subarray(0, 2_000));
  });
  for await (const { custom_id } of client.batches.results('job-1')) {
    expect(custom_id).toBe('ticket-1');
    break;
  }
  await closed.promise;
});

test('an abort ends a download that waits for a line', async () => {
  const abort = new AbortController();
  const { client } = await serve((_, response) => response.write(fileAfter(null).subarray(0, 200)));
  const read = async (): Promise<void> => {
    for await (const _ of client.batches.results('job-1', {}, { signal: abort.signal }))
      setImmediate(() => abort.abort(new Error('enough')));
  };
  await expect(read()).rejects.toThrow('enough');
});

test('a refusal after a cut is thrown', async () => {
  const { client } = await serve((_, response, place) => {
    if (place > 0) refuse(response, 404, 'not_found');
    else response.write(fileAfter(null).subarray(0, 900), () => response.destroy());
  });
  await expect(idsOf(client.batches.results('job-1'))).rejects.toMatchObject({ code: 'not_found' });
});
