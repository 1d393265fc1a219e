import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import type { BatchProgress } from '../src/index.ts';
import { refuse, sendJson, serve } from './server.ts';

const BATCH = { id: 'job-1', state: 'completed' };

/** A progress of ten runs; the tenth end is the last. */
function progressOf(ended: number): Partial<BatchProgress> {
  return { phase: ended === 10 ? 'done' : 'running', ended, total: 10, version: ended };
}

const tagOf = (ended: number): string => `${ended}-kX0a9bQ2f_L`;

function sendEvents(response: ServerResponse, ...ends: readonly number[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('retry: 3000\n\n: a comment\n\n');
  for (const ended of ends) {
    const name = ended === 10 ? 'done' : 'progress';
    response.write(`id: ${tagOf(ended)}\nevent: ${name}\ndata: ${JSON.stringify(progressOf(ended))}\n\n`);
  }
}

function sendProgress(response: ServerResponse, known: string | undefined, ended: number): void {
  const etag = `"${tagOf(ended)}"`;
  if (known === etag) response.writeHead(304, { etag }).end();
  else sendJson(response, progressOf(ended), 200, { etag });
}

test('events are followed to the end, and the batch is returned', async () => {
  const { client, received } = await serve(({ url }, response) => {
    if (url.pathname.endsWith('/events')) sendEvents(response, 3, 7, 10);
    else sendJson(response, BATCH);
  });
  const ends: number[] = [];
  const batch = await client.batches.wait('job-1', { onProgress: ({ ended }) => ends.push(ended) });
  expect(batch).toEqual(BATCH);
  expect(ends).toEqual([3, 7, 10]);
  expect(received.map(({ url }) => url.pathname)).toEqual(['/v1/batches/job-1/events', '/v1/batches/job-1']);
});

test('after a cut it goes on behind the last event', async () => {
  let streams = 0;
  const { client, received } = await serve(({ url, headers }, response) => {
    if (url.pathname.endsWith('/progress')) sendProgress(response, headers['if-none-match'], 3);
    else if (!url.pathname.endsWith('/events')) sendJson(response, BATCH);
    else if ((streams += 1) === 1) {
      sendEvents(response, 3);
      response.write('id: 4-half', () => response.destroy());
    } else sendEvents(response, 10);
  });
  const ends: number[] = [];
  await client.batches.wait('job-1', { onProgress: ({ ended }) => ends.push(ended) });
  expect(ends).toEqual([3, 10]);
  expect(received.map(({ headers }) => headers['last-event-id'] ?? headers['if-none-match'])).toEqual([
    undefined,
    `"${tagOf(3)}"`,
    tagOf(3),
    undefined,
  ]);
});

test.each([
  ['refuses streams for now', 503, 'not_ready'],
  ['has no streams', 404, 'unknown_path'],
])('an API that %s is polled by ETag', async (_, status, code) => {
  let polls = 0;
  const { client, received } = await serve(({ url, headers }, response) => {
    if (url.pathname.endsWith('/events')) refuse(response, status, code);
    else if (!url.pathname.endsWith('/progress')) sendJson(response, BATCH);
    else sendProgress(response, headers['if-none-match'], (polls += 1) < 3 ? 5 : 10);
  });
  const ends: number[] = [];
  await client.batches.wait('job-1', { onProgress: ({ ended }) => ends.push(ended) });
  expect(ends).toEqual([5, 10]);
  expect(received.map(({ headers }) => headers['if-none-match'])).toEqual([
    undefined,
    undefined,
    `"${tagOf(5)}"`,
    `"${tagOf(5)}"`,
    undefined,
  ]);
});

test('an API that answers "not now" for longer than a request is retried is waited for', async () => {
  const { client, received } = await serve(
    ({ url, headers }, response, place) => {
      if (place === 0) sendEvents(response, 3);
      if (place === 0) setImmediate(() => response.destroy());
      else if (place < 6) refuse(response, 503, 'not_ready', { 'retry-after': '0.01' });
      else if (url.pathname.endsWith('/progress')) sendProgress(response, headers['if-none-match'], 10);
      else sendJson(response, BATCH);
    },
    { retriesMax: 1 },
  );
  expect(await client.batches.wait('job-1')).toEqual(BATCH);
  expect(received.length).toBeGreaterThan(6);
});

test('an unknown batch is an error at once', async () => {
  const { client, received } = await serve((_, response) => refuse(response, 404, 'not_found'));
  await expect(client.batches.wait('job-1')).rejects.toMatchObject({ code: 'not_found' });
  expect(received).toHaveLength(1);
});

test.each(['while a stream is silent', 'between two polls'])('an abort ends it %s', async (when) => {
  const abort = new AbortController();
  const { client } = await serve(({ url }, response) => {
    const isStream = url.pathname.endsWith('/events');
    if (isStream && when !== 'while a stream is silent') refuse(response, 503, 'not_ready');
    else if (isStream) sendEvents(response, 3);
    else sendProgress(response, undefined, 3);
  });
  const onProgress = (): unknown => setImmediate(() => abort.abort(new Error('enough')));
  await expect(client.batches.wait('job-1', { onProgress, signal: abort.signal })).rejects.toThrow('enough');
});

test('an error of onProgress ends it', async () => {
  const { client } = await serve((_, response) => sendEvents(response, 3));
  const onProgress = (): void => {
    throw new Error('a bug');
  };
  await expect(client.batches.wait('job-1', { onProgress })).rejects.toThrow('a bug');
});

test('events of all batches go on behind the last after a cut', async () => {
  const { client, received } = await serve(({ headers }, response) => {
    const from = Number(String(headers['last-event-id']).split('-')[1]);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const place of [from + 1, from + 2])
      response.write(`id: event-${place}\nevent: batch.running\ndata: {"id":"event-${place}"}\n\n`);
    setImmediate(() => response.destroy());
  });
  const ids: string[] = [];
  for await (const { id } of client.events({ after: 'event-10' })) {
    if (ids.push(id) === 4) break;
  }
  expect(ids).toEqual(['event-11', 'event-12', 'event-13', 'event-14']);
  expect(received.map(({ headers }) => headers['last-event-id'])).toEqual(['event-10', 'event-12']);
});
