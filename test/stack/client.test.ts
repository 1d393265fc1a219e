import type {} from '../global-setup.ts';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { createNightshift, type Retry } from '../../libs/client/src/index.ts';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { openStackHouse, type StackHouse } from './house.ts';
import { findOlderNode, makeProject, type ProgramReport } from './packed-client.ts';

// Real processes on a busy machine.
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
);
const OLDER_NODE = findOlderNode();
const ALL: ProgramReport = { state: 'completed', lines: 1_000, ids: 1_000, percent: 100 };

let project: string;
let house: StackHouse;
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'nightshift-packed-'));
  makeProject(project);
  house = await openStackHouse({ simulatorLatency: 'uniform:50-200', workers: 1 });
});
afterAll(async () => {
  await house.close();
  await rm(project, { recursive: true, force: true });
});

async function runProgram(node: string): Promise<ProgramReport> {
  const { apiUrl, apiKey } = house.stack;
  const { stdout } = await promisify(execFile)(node, [join(project, 'start.js'), apiUrl, apiKey]);
  return JSON.parse(stdout) as ProgramReport;
}

test('the packed client submits 1,000 requests, waits and reads the results on this Node', async () => {
  expect(await runProgram(process.execPath)).toEqual(ALL);
});

test('… and on Node 20 to 23', async ({ skip }) => {
  if (OLDER_NODE === undefined) return skip('There is no Node 20 to 23 on the path.');
  expect(await runProgram(OLDER_NODE)).toEqual(ALL);
});

test('… and in Chromium', async ({ skip }) => {
  if (CHROMIUM === undefined) return skip('There is no Chromium in /usr/bin.');
  const { apiUrl, apiKey } = house.stack;
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  onTestFinished(() => browser.close());
  const page = await browser.newPage();
  // The page and the modules come from the address of the API, as those of a dashboard do.
  await page.route(
    (url) => url.pathname.startsWith('/page/'),
    (route) => {
      const path = new URL(route.request().url()).pathname.replace('/page/', '');
      if (path === '') {
        const imports = { '@nightshift/client': './node_modules/@nightshift/client/dist/index.js' };
        const body = `<script type="importmap">${JSON.stringify({ imports })}</script>`;
        return route.fulfill({ contentType: 'text/html', body });
      }
      return route.fulfill({
        contentType: 'text/javascript',
        body: readFileSync(join(project, path), 'utf8'),
      });
    },
  );
  await page.goto(`${apiUrl}/page/`);
  const call = `import('/page/program.js').then(({ main }) => main('${apiUrl}', '${apiKey}'))`;
  const report = await page.evaluate<ProgramReport>(call);
  expect(report).toEqual(ALL);
});

const RUNS = 600;

test('the API is killed during wait and during results: both go on, with each custom_id once', async () => {
  const { apiUrl: url, apiKey } = house.stack;
  let onRetry: (retry: Retry) => void = () => undefined;
  const nightshift = createNightshift({ url, apiKey, onRetry: (retry) => onRetry(retry) });
  const agent_id = await house.createAgent('killed', []);
  let api = house.stack.processes.find(({ name }) => name === 'api');
  const startApi = async (): Promise<void> => {
    api = await house.stack.startAgain('api');
  };
  /** Resolves after the client has missed the API, and the API is back. */
  const restartWhenMissed = (): Promise<void> =>
    new Promise((resolve, reject) => {
      onRetry = () => {
        onRetry = () => undefined;
        startApi().then(resolve, reject);
      };
    });

  // Long random texts do not fit into the buffers between the API and the client.
  const { id } = await nightshift.batches.createFromFile(
    (async function* () {
      await Promise.resolve();
      // It waits behind its first run until it is resumed.
      yield `${JSON.stringify({ batch: { pilot: { runs: 1, then: 'pause' } } })}\n`;
      for (let place = 0; place < RUNS; place++) {
        const request = { agent_id, custom_id: `ticket-${place}`, conversation: 'isolated' };
        yield `${JSON.stringify({ ...request, input: randomBytes(16_000).toString('base64') })}\n`;
      }
    })(),
  );
  const paused = Promise.withResolvers<void>();
  const phases = new Set<string>();
  const waiting = nightshift.batches.wait(id, {
    onProgress: ({ phase }) => {
      phases.add(phase);
      if (phase === 'paused') paused.resolve();
    },
  });
  await paused.promise;
  let restarted = restartWhenMissed();
  await api?.kill();
  await restarted;
  await nightshift.batches.resume(id);
  expect((await waiting).state).toBe('completed');
  expect([...phases].at(-1)).toBe('done');

  restarted = restartWhenMissed();
  const ids: (string | null)[] = [];
  for await (const { custom_id } of nightshift.batches.results(id, { include: ['messages'] })) {
    if (ids.push(custom_id) === 1) await api?.kill();
  }
  await restarted;
  expect(ids).toEqual(Array.from({ length: RUNS }, (_, place) => `ticket-${place}`));
});
