import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdtemp, open, readFile, readdir, rm, stat } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../src/config.ts';
import { plainHeaders } from './support/running.ts';

interface Started {
  readonly child: ChildProcess;
  readonly apiUrl: string;
  readonly dataDir: string;
}

const main = join(import.meta.dirname, '../src/main.ts');

async function started(environment: Record<string, string> = {}): Promise<Started> {
  const dataDir = await mkdtemp(join(tmpdir(), 'simulator-process-'));
  const child = spawn(process.execPath, ['--max-semi-space-size=4', main], {
    env: {
      ...process.env,
      SIMULATOR_PORT: '0',
      SIMULATOR_CONTROL_PORT: '0',
      SIMULATOR_LATENCY_MS: 'fixed:1',
      SIMULATOR_DATA_DIR: dataDir,
      SIMULATOR_EXIT_WITH_PARENT: '1',
      ...environment,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await rm(dataDir, { recursive: true, force: true });
  });
  const [line] = (await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), 'line')) as [
    string,
  ];
  const { listening } = JSON.parse(line) as { listening: { api_url: string; control_url: string } };
  expect(listening.control_url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  return { child, apiUrl: listening.api_url, dataDir };
}

test('the process prints its URLs, ends on SIGTERM, and leaves no files', async () => {
  const { child, apiUrl, dataDir } = await started();
  expect((await fetch(`${apiUrl}/v1/models`, { headers: plainHeaders })).status).toBe(200);
  expect(await readdir(dataDir)).toHaveLength(1);
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
  expect(await readdir(dataDir)).toEqual([]);
});

test('the process ends when its standard input closes', async () => {
  const { child } = await started();
  child.stdin?.end();
  expect(await once(child, 'exit')).toEqual([0, null]);
});

test('the next process deletes the files of a killed one', async () => {
  const { child, dataDir } = await started();
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(await readdir(dataDir)).toHaveLength(1);
  const next = await started({ SIMULATOR_DATA_DIR: dataDir });
  const [only, ...others] = await readdir(dataDir);
  expect(only).toContain(`spool-${next.child.pid ?? 0}-`);
  expect(others).toEqual([]);
});

test('an invalid environment is refused with the name of the variable', () => {
  expect(() => readConfig({ SIMULATOR_PORT: 'x' })).toThrow(/SIMULATOR_PORT/);
  expect(() => readConfig({ SIMULATOR_LATENCY_MS: 'later' })).toThrow(/fixed:<ms>/);
  expect(() => readConfig({ SIMULATOR_CLOCK: 'warp' })).toThrow(/real, virtual/);
  expect(readConfig({ SIMULATOR_API_KEY: '' })).toMatchObject({
    apiPort: 8290,
    controlPort: 8291,
    host: '127.0.0.1',
    apiKey: undefined,
  });
});

const COUNT = Number(process.env['SIMULATOR_LOAD_REQUESTS'] ?? 100_000);
const PAD_BYTES = Number(process.env['SIMULATOR_LOAD_PAD_BYTES'] ?? 1_200);
/**
 * Memory beyond the idle process. Garbage is collected late on a busy machine: 136 MB were measured. A buffered body
 * would add 138 MB.
 */
const MAX_GROWTH_MB = 180;
/** Far below the measured rate per second of its own CPU time, which does not depend on other processes. */
const MIN_LINES_PER_CPU_SECOND = 5_000;

/** Reads the peak resident memory of a process; undefined where the system does not report it. */
async function peakRssMb({ pid = 0 }: ChildProcess): Promise<number | undefined> {
  if (process.platform !== 'linux') return undefined;
  const kilobytes = /VmHWM:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) / 1024;
}

/** Reads the CPU seconds of a process; undefined where the system does not report them. */
async function cpuSecondsOf({ pid = 0 }: ChildProcess): Promise<number | undefined> {
  if (process.platform !== 'linux') return undefined;
  // The fields after the name start with the state; times are in hundredths of a second.
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).replace(/^.*\) /s, '').split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function writeBody(path: string): Promise<void> {
  const file = await open(path, 'w');
  const pad = 'lorem ipsum '.repeat(PAD_BYTES / 12);
  await file.write('{"requests":[');
  let piece = '';
  for (let i = 0; i < COUNT; i++) {
    const content = `${i} ${pad}\n{"tool":"look","args":{"n":${i}}}`;
    const params = { model: 'claude-opus-5', max_tokens: 1000, messages: [{ role: 'user', content }] };
    piece += `${i === 0 ? '' : ','}${JSON.stringify({ custom_id: `n0nce-${i}-1`, params })}`;
    if (piece.length < 500_000) continue;
    await file.write(piece);
    piece = '';
  }
  await file.write(`${piece}]}`);
  await file.close();
}

test(`${COUNT} requests are accepted, answered and sent with ${MAX_GROWTH_MB} MB of memory`, async () => {
  const { child, apiUrl, dataDir } = await started();
  const idleMb = await peakRssMb(child);
  const path = join(dataDir, 'body.json');
  await writeBody(path);
  const sending = httpRequest(`${apiUrl}/v1/messages/batches`, {
    method: 'POST',
    headers: {
      ...plainHeaders,
      'content-type': 'application/json',
      'content-length': (await stat(path)).size,
    },
  });
  createReadStream(path).pipe(sending);
  const [response] = (await once(sending, 'response')) as [AsyncIterable<Buffer>];
  const { id } = JSON.parse(await text(response)) as { id: string };
  const batchUrl = `${apiUrl}/v1/messages/batches/${id}`;
  const cpuBefore = await cpuSecondsOf(child);
  const status = async (): Promise<unknown> => (await fetch(batchUrl, { headers: plainHeaders })).json();
  await expect.poll(status, { timeout: 100_000, interval: 100 }).toMatchObject({
    processing_status: 'ended',
    request_counts: { processing: 0, succeeded: COUNT },
  });
  const cpuAfter = await cpuSecondsOf(child);
  const results = await fetch(`${batchUrl}/results`, { headers: plainHeaders });
  let lines = 0;
  for await (const chunk of results.body ?? [])
    for (const byte of chunk as Uint8Array) if (byte === 0x0a) lines++;
  expect(lines).toBe(COUNT);
  if (cpuBefore !== undefined && cpuAfter !== undefined)
    expect(COUNT / (cpuAfter - cpuBefore)).toBeGreaterThan(MIN_LINES_PER_CPU_SECOND);
  if (idleMb !== undefined) expect(((await peakRssMb(child)) ?? 0) - idleMb).toBeLessThan(MAX_GROWTH_MB);
});
