/** Measures the upload of a batch as lines beside a bare COPY of the rows that it stages. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setTimeout } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import pg from 'pg';
import {
  connect,
  DEFAULT_PROJECT_ID,
  encodeLines,
  stageLines,
  type StagedLine,
} from '../../libs/db/src/index.ts';
import { createPool } from '../../libs/services/src/index.ts';
import { memoryOf, resetPeak, treeCpuMs } from '../measure/processes.ts';
import { within } from '../measure/within.ts';
import { digits } from '../report/table.ts';
import type { Bench, ScenarioResult } from './bench.ts';
import { setUpProduct, type ProductSetup } from './product-setup.ts';
import { API_KEY, startApi } from './status.ts';

const LINES_DEFAULT = 1_000_000;
const AGENTS = 1_000;
const MB_MAX = 400;
const RATIO_MIN = 0.5;
const COPIES = 2;
const ROWS_PER_READ = 20_000;
const NEVER_MS = 30 * 24 * 3_600_000;
const LOOK_MS = 200;
const ANSWER_MS_MAX = 2_000;

/** The time of an upload, and the largest memory of the API meanwhile. */
interface Measured {
  readonly name: string;
  readonly ms: number;
  /** CPU time of the API. */
  readonly cpuMs: number | null;
  readonly peakMb: number | null;
}

export async function upload(bench: Bench): Promise<ScenarioResult> {
  const lines = bench.options.runs?.[0] ?? LINES_DEFAULT;
  const setup = await setUpProduct(bench, AGENTS);
  const client = new pg.Client({ connectionString: setup.context.url });
  try {
    await client.connect();
    bench.say(`upload: writing ${lines} lines`);
    const plain = await writeLines(client, join(setup.context.dir, 'tasks.jsonl'), lines);
    const gzip = `${plain}.gz`;
    await pipeline(createReadStream(plain), createGzip(), createWriteStream(gzip));
    const { uploads, batchIds } = await uploadAll(bench, setup, client, { plain, gzip, lines });
    const [received = '', run = ''] = batchIds;
    const copyMs = await copyAlone(bench, setup, client, received);
    const answers = await changeStates(bench, setup, { received, run });
    return report(lines, uploads, copyMs, answers);
  } finally {
    await client.end();
    await setup.stop();
  }
}

async function writeLines(client: pg.Client, path: string, lines: number): Promise<string> {
  const { rows } = await client.query<{ id: string }>('select id from agent order by id');
  const file = createWriteStream(path);
  for (let n = 0; n < lines; n++) {
    const line = {
      custom_id: `ticket-${n}`,
      agent_id: `agent-${rows[n % rows.length]?.id ?? ''}`,
      conversation: 'isolated',
      input: `Ticket ${n}: my invoice of May names the wrong address, and the sum differs from the offer. Which team should answer?`,
    };
    if (!file.write(`${JSON.stringify(line)}\n`)) await once(file, 'drain');
  }
  file.end();
  await once(file, 'finish');
  return path;
}

async function uploadAll(
  bench: Bench,
  setup: ProductSetup,
  client: pg.Client,
  { plain, gzip, lines }: { readonly plain: string; readonly gzip: string; readonly lines: number },
) {
  const { url, dir } = setup.context;
  const api = await startApi({ databaseUrl: url, queueUrl: setup.store.queueUrl, dataDir: dir });
  try {
    // The first upload starts the API's thread; this one is refused.
    await send(api.url, Buffer.from('{"batch":{}}\n'), {}).catch(() => undefined);
    const uploads: Measured[] = [];
    const batchIds: string[] = [];
    for (const [name, path, headers] of [
      ['plain', plain, {}],
      ['gzip', gzip, { 'content-encoding': 'gzip' }],
    ] as const) {
      bench.say(`upload: ${name}`);
      await client.query('checkpoint');
      resetPeak(api.pid);
      const cpuBefore = treeCpuMs(api.pid);
      const from = performance.now();
      const sent = send(api.url, path, headers);
      const batch = await within(bench.options.timeoutMs, 'The upload', sent);
      const ms = performance.now() - from;
      if (batch.counts.total !== lines) throw new Error(`The batch has ${batch.counts.total} runs.`);
      const cpuMs = treeCpuMs(api.pid) - cpuBefore;
      uploads.push({ name, ms, cpuMs, peakMb: memoryOf(api.pid).peak_kb / 1024 });
      batchIds.push(batch.id.slice('job-'.length));
    }
    return { uploads, batchIds };
  } finally {
    await api.stop();
  }
}

interface Batch {
  readonly id: string;
  readonly counts: { readonly total: number };
}

interface BatchState {
  readonly state: string;
  readonly counts: { readonly accepted: number };
}

async function send(
  url: string,
  body: string | Buffer,
  headers: Readonly<Record<string, string>>,
): Promise<Batch> {
  const posted = request(`${url}/v1/batches`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/jsonl', ...headers },
  });
  const answered = once(posted, 'response') as Promise<[IncomingMessage]>;
  if (typeof body === 'string') await pipeline(createReadStream(body), posted);
  else posted.end(body);
  const [response] = await answered;
  const value = await json(response);
  if (response.statusCode !== 200) throw new Error(`The upload was answered: ${JSON.stringify(value)}`);
  return value as Batch;
}

/** Copies the staged rows of a batch into the same table again, with one statement. Returns the shortest time. */
async function copyAlone(
  bench: Bench,
  setup: ProductSetup,
  client: pg.Client,
  batchId: string,
): Promise<number> {
  const pool = createPool({ url: setup.context.url });
  try {
    const times: number[] = [];
    for (let copy = 1; copy <= COPIES; copy++) {
      bench.say(`upload: bare COPY ${copy}`);
      const id = randomUUID();
      const encoded = await encodeStaged(client, batchId, id);
      const db = connect(pool);
      await client.query('checkpoint');
      const from = performance.now();
      await stageLines(db, encoded);
      times.push(performance.now() - from);
      await client.query('delete from staged_line where batch_id = $1', [id]);
    }
    return Math.min(...times);
  } finally {
    await pool.end();
  }
}

/** Encodes the staged lines of a batch for one COPY under another id. */
async function encodeStaged(client: pg.Client, batchId: string, id: string): Promise<readonly Buffer[]> {
  const parts: Buffer[] = [];
  for (let from = 0; ; from += ROWS_PER_READ) {
    const { rows } = await client.query<StagedLine>(
      `select custom_id, run::text as run from staged_line
        where batch_id = $1 and ordinal >= $2 and ordinal < $2 + $3::int order by ordinal`,
      [batchId, from, ROWS_PER_READ],
    );
    parts.push(encodeLines({ batch_id: id, project_id: DEFAULT_PROJECT_ID }, from, rows));
    if (rows.length < ROWS_PER_READ) return parts;
  }
}

/** Cancels a batch that is received; pauses, resumes and cancels another that runs. Returns the time of each answer. */
async function changeStates(
  bench: Bench,
  setup: ProductSetup,
  { received, run }: { readonly received: string; readonly run: string },
): Promise<Readonly<Record<string, number>>> {
  const { url, dir } = setup.context;
  const api = await startApi({ databaseUrl: url, queueUrl: setup.store.queueUrl, dataDir: dir });
  const ask = async (method: string, id: string, path = ''): Promise<BatchState> => {
    const headers = { authorization: `Bearer ${API_KEY}` };
    const response = await fetch(`${api.url}/v1/batches/job-${id}${path}`, { method, headers });
    const value = await response.json();
    if (!response.ok) throw new Error(`${method} ${path} was answered: ${JSON.stringify(value)}`);
    return value as BatchState;
  };
  const until = async (id: string, isReached: (batch: BatchState) => boolean): Promise<void> => {
    const endsAt = performance.now() + bench.options.timeoutMs;
    while (!isReached(await ask('GET', id))) {
      if (performance.now() > endsAt) throw new Error('The batch was not received in time.');
      await setTimeout(LOOK_MS);
    }
  };
  const timed = async (id: string, path: string): Promise<number> => {
    const from = performance.now();
    await ask(path === '/cancel' ? 'PATCH' : 'POST', id, path);
    return performance.now() - from;
  };
  try {
    const worker = await setup.startWorker(NEVER_MS, { GATHER_WINDOW_MS: '600000', REQUESTS_MAX: '100000' });
    worker.start();
    bench.say('upload: cancelling while it is received');
    await until(received, ({ counts }) => counts.accepted > 0);
    const cancelReceived = await timed(received, '/cancel');
    bench.say('upload: waiting until the other batch runs');
    await until(run, ({ state }) => state === 'running');
    const pause = await timed(run, '/pause');
    const resume = await timed(run, '/resume');
    const cancel = await timed(run, '/cancel');
    return { 'cancel while received': cancelReceived, pause, resume, cancel };
  } finally {
    await api.stop();
  }
}

function report(
  lines: number,
  uploads: readonly Measured[],
  copyMs: number,
  answers: Readonly<Record<string, number>>,
): ScenarioResult {
  const measured = [...uploads, { name: 'bare COPY', ms: copyMs, cpuMs: null, peakMb: null }];
  return {
    title: `An upload of ${lines} lines`,
    table: {
      head: ['way', 'seconds', 'lines per second', 'of bare COPY', 'API CPU seconds', 'API peak MB'],
      rows: measured.map(({ name, ms, cpuMs, peakMb }) => [
        name,
        digits(ms / 1000),
        digits((lines * 1000) / ms),
        digits(copyMs / ms),
        cpuMs === null ? '' : digits(cpuMs / 1000),
        peakMb === null ? '' : digits(peakMb),
      ]),
    },
    figures: {
      lines,
      ...Object.fromEntries(
        Object.entries(answers).map(([name, ms]) => [`${name.replaceAll(' ', '_')}_ms`, ms]),
      ),
      copy_ms: copyMs,
      ...Object.fromEntries(
        uploads.flatMap(({ name, ms, peakMb }) => [
          [`${name}_ms`, ms],
          [`${name}_api_peak_mb`, peakMb],
        ]),
      ),
    },
    goals: [
      ...goalsOf(uploads, copyMs),
      ...Object.entries(answers).map(([name, ms]) => ({
        goal: `${name}: answered within ${ANSWER_MS_MAX / 1000} s`,
        measured: `${digits(ms / 1000)} s`,
        met: ms < ANSWER_MS_MAX,
      })),
    ],
    notes: [
      `From the first byte to the answer, ${AGENTS} agents. The bare COPY is the faster of ${COPIES}: one statement with the same rows, encoded before.`,
    ],
  };
}

function goalsOf(uploads: readonly Measured[], copyMs: number): ScenarioResult['goals'] {
  return uploads.flatMap(({ name, ms, peakMb }) => [
    {
      goal: `${name}: lines per second at least ${RATIO_MIN} of a bare COPY`,
      measured: digits(copyMs / ms),
      met: copyMs / ms >= RATIO_MIN,
    },
    {
      goal: `${name}: API under ${MB_MAX} MB`,
      measured: `${digits(peakMb ?? 0)} MB`,
      met: (peakMb ?? 0) < MB_MAX,
    },
  ]);
}
