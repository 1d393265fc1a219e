import type {} from '../global-setup.ts';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, request as requestOf } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test, type TestContext } from 'vitest';
import { signatureHeaders } from '../../apps/worker/src/callbacks/post-callback.ts';
import { auditInvariants } from '../../libs/db/src/index.ts';
import { fencesOf, openDirectory, run, startFastStack } from './session.ts';

/** Writes the code of docs/python.md as a module. Skips the test without python3. Returns its folder. */
function writeModule(context: TestContext): string {
  const found = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']);
  if (found.status !== 0) context.skip('there is no python3 of 3.9 or newer here');
  const directory = openDirectory();
  writeFileSync(join(directory, 'round.py'), fencesOf('docs/python.md', 'python').join('\n\n'));
  return directory;
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly encoding: string | undefined;
  readonly ifNoneMatch: string | undefined;
  readonly etag: string | undefined;
}

/**
 * Starts a proxy that cuts the first results amid a line, refuses the first upload as "not now", and answers the second
 * question for a progress as if nothing had changed.
 */
async function startProxy(
  apiUrl: string,
): Promise<{ readonly url: string; readonly asked: readonly Asked[] }> {
  const asked: Asked[] = [];
  const isFirst = (path: string): boolean => !asked.some((earlier) => earlier.path.startsWith(path));
  const proxy = createServer((request, response) => {
    const { method = 'GET', url: path = '', headers } = request;
    const note = (status: number, etag?: string): unknown =>
      asked.push({
        ...{ method, path, status, etag },
        encoding: headers['content-encoding'],
        ifNoneMatch: headers['if-none-match'],
      });
    if (path === '/v1/batches' && isFirst(path)) {
      note(503);
      request.resume().once('end', () => response.writeHead(503, { 'retry-after': '1' }).end());
      return;
    }
    const before = asked.filter((earlier) => earlier.path === path);
    const isUnchanged = path.endsWith('/progress') && before.length === 1;
    if (isUnchanged && headers['if-none-match'] === before[0]?.etag) {
      note(304, before[0]?.etag);
      response.writeHead(304).end();
      return;
    }
    const isCut = path.includes('/results') && isFirst(path.split('?')[0] ?? path);
    const passed = requestOf(`${apiUrl}${path}`, { method, headers }, (answer) => {
      const { statusCode = 0 } = answer;
      note(statusCode, answer.headers.etag);
      response.writeHead(statusCode, answer.headers);
      if (!isCut) answer.pipe(response);
      else
        void answer.toArray().then((parts: Buffer[]) => {
          const body = Buffer.concat(parts);
          response.write(body.subarray(0, body.indexOf('\n') + 20), () => response.destroy());
        });
    });
    request.pipe(passed);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void proxy.close());
  await once(proxy, 'listening');
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, asked };
}

test('the round of docs/python.md submits, waits, retries and reads each result once', async (context) => {
  const directory = writeModule(context);
  const stack = await startFastStack();
  const rule = {
    op: 'request',
    match: { contains: 'I moved.', nth: 1 },
    outcome: { type: 'errored', error_type: 'invalid_request_error', message: 'Not this time.' },
  };
  const ruled = await fetch(`${stack.simulatorControlUrl ?? ''}/rules`, {
    method: 'POST',
    body: JSON.stringify(rule),
  });
  expect(ruled.status).toBe(200);
  const proxy = await startProxy(stack.apiUrl);

  const env = { NIGHTSHIFT_URL: proxy.url, NIGHTSHIFT_API_KEY: stack.apiKey };
  const { output, errors, code } = await run(['python3', 'round.py'], env, directory);
  expect({ errors, code }).toMatchObject({ code: 0 });
  const lines = output.trimEnd().split('\n');
  expect(lines.map((line) => line.split(' ').slice(0, 2).join(' '))).toEqual(
    [0, 1, 2].map((place) => `ticket-${place} completed`),
  );
  expect(errors.match(/^done: \d of \d$/gm)).toEqual(['done: 3 of 3', 'done: 1 of 1']);
  expect(errors.match(/^The download was cut/gm)).toHaveLength(1);

  const { asked } = proxy;
  const uploads = asked.filter(({ method, path }) => method === 'POST' && path === '/v1/batches');
  expect(uploads.map(({ status, encoding }) => [status, encoding])).toEqual([
    [503, 'gzip'],
    [200, 'gzip'],
  ]);
  const looks = Object.values(Object.groupBy(asked, ({ path }) => path)).filter((of) =>
    of?.[0]?.path.endsWith('/progress'),
  );
  expect(looks).toHaveLength(2);
  for (const of of looks)
    for (const [place, look] of (of ?? []).slice(1).entries())
      expect(look.ifNoneMatch).toBe(of?.[place]?.etag);
  const downloads = asked.filter(({ path }) => path.includes('/results'));
  expect(downloads.map(({ path }) => path.replace(/^.*\?/, ''))).toEqual([
    'include=retries&',
    expect.stringMatching(/^include=retries&after=./),
  ]);
  expect(await auditInvariants(stack.db)).toEqual([]);
});

test("the verification in docs/python.md accepts a worker's signature only", async (context) => {
  const directory = writeModule(context);
  const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
  const timestamp = Math.floor(Date.now() / 1000);
  const callback = { id: 'job-1', url: 'https://example.com', body: '{"status":"completed"}', timestamp };
  const headers = signatureHeaders(callback, secret);
  const old = signatureHeaders({ ...callback, timestamp: timestamp - 600 }, secret);
  const cases = [
    [headers, callback.body],
    [{ ...headers, 'webhook-signature': `v1,other ${headers['webhook-signature'] ?? ''}` }, callback.body],
    [headers, '{"status":"failed"}'],
    [signatureHeaders(callback, undefined), callback.body],
    [old, callback.body],
    [{ ...headers, 'webhook-timestamp': 'now' }, callback.body],
    [{}, callback.body],
  ];
  writeFileSync(join(directory, 'cases.json'), JSON.stringify(cases));
  const code = `
import json, round
print(json.dumps([round.is_genuine(h, b.encode(), ${JSON.stringify(secret)}) for h, b in json.load(open("cases.json"))]))`;
  const ended = await run(['python3', '-c', code], { NIGHTSHIFT_API_KEY: 'ns_key' }, directory);
  expect(ended).toMatchObject({ code: 0, errors: '' });
  expect(JSON.parse(ended.output)).toEqual([true, true, false, false, false, false, false]);
});
