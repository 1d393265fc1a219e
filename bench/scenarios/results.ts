/** Measures downloading the results of a batch, beside reading the same runs with a cursor of the database. */
import { get } from 'node:http';
import pg from 'pg';
import { memoryOf, resetPeak, treeCpuMs } from '../measure/processes.ts';
import { digits } from '../report/table.ts';
import type { Bench, ScenarioResult } from './bench.ts';
import { setUpProduct } from './product-setup.ts';
import { API_KEY, startApi } from './status.ts';

const RUNS_DEFAULT = 1_000_000;
const MB_MAX = 300;
/** Rows that the cursor fetches at a time. */
const FETCHED = 1_000;
const BATCH_ID = '01a00000-0000-7000-8000-000000000001';

/** A run of one step, with an answer of 640 characters. Commits end 500 runs each, over eight slots. */
const STORE = `
  insert into batch (id, project_id, state, total, accepted, completed_at)
  select '${BATCH_ID}', id, 'completed', $1, $1, app_now() from project;
  insert into run (id, project_id, batch_id, agent_id, conversation_id, definition_id, ordinal, custom_id, state, stop_reason,
                   max_steps, first_seq, last_seq, started_at, ended_at)
  select (i || '-0000-7000-8000-000000000000')::uuid, p.id, '${BATCH_ID}', '01a00000-0000-7000-8000-000000000002',
         (i || '-0000-7000-8001-000000000000')::uuid, '01a00000-0000-7000-8000-000000000003', n, 'task-' || n, 'completed',
         'end_turn', 10, 1, 2, app_now(), app_now()
    from project p, generate_series(0, $1 - 1) n, lateral (select lpad(to_hex(n), 8, '0') as i) t;
  insert into message (project_id, conversation_id, seq, run_id, step_number, role, content)
  select r.project_id, r.conversation_id, m.seq, r.id, case m.seq when 2 then 1 end, m.role,
         json_build_array(json_build_object('type', 'text', 'text', r.custom_id || ': ' || repeat('answer ', m.words)))
    from run r cross join (values (1, 'user', 20), (2, 'assistant', 90)) as m(seq, role, words);
  insert into step (project_id, run_id, number, attempt, provider_batch_id, ordinal, state, context_from_seq, context_to_seq,
                    block_ids, block_revisions, max_tokens, stop_reason, model, input_tokens, output_tokens, cost_nanousd,
                    sealed_at, applied_at, ended_at)
  select project_id, id, 1, 1, '01a00000-0000-7000-8000-000000000004', ordinal, 'done', 1, 1, '{}', '{}', 4096, 'end_turn',
         'claude-haiku-4-5', 1200, 160, 1000000, app_now(), app_now(), app_now()
    from run;
  insert into batch_tally (batch_id, slot, project_id, completed, version)
  select '${BATCH_ID}', slot, p.id, $1 / 8, $1 from project p, generate_series(0, 7) slot;
  insert into ended_runs (batch_id, slot, version, project_id, run_ids, ended_at)
  select batch_id, part % 8, part + 1, project_id, array_agg(id), app_now()
    from (select *, ordinal / 500 as part from run) r group by batch_id, part, project_id order by part;
  analyze;`;

/** The columns of a line, as the database has them. */
const BARE = `
  select r.id, r.custom_id, r.agent_id, r.state, r.stop_reason, r.error, r.result, r.attempt, m.content, s.*
    from run r
   cross join lateral (
     select content from message where conversation_id = r.conversation_id and role = 'assistant' and seq between r.first_seq and r.last_seq
      order by seq desc limit 1) m
   cross join lateral (
     select count(*), sum(input_tokens), sum(output_tokens), sum(cost_nanousd) from step where run_id = r.id) s
   where r.batch_id = '${BATCH_ID}' order by r.ordinal`;

interface Measured {
  readonly name: string;
  readonly ms: number;
  readonly apiCpuMs: number;
  readonly peakMb: number;
  readonly bytes: number;
}

export async function results(bench: Bench): Promise<ScenarioResult> {
  const runs = bench.options.runs?.[0] ?? RUNS_DEFAULT;
  const setup = await setUpProduct(bench, 1);
  const client = new pg.Client({ connectionString: setup.context.url });
  try {
    await client.connect();
    bench.say(`results: storing ${runs} ended runs`);
    for (const statement of STORE.replaceAll('$1', String(runs)).split(';\n')) await client.query(statement);
    const bareMs = await readBare(client, runs);
    const api = await startApi({
      databaseUrl: setup.context.url,
      queueUrl: setup.store.queueUrl,
      dataDir: setup.context.dir,
    });
    try {
      const idleMb = memoryOf(api.pid).rss_kb / 1024;
      bench.say(`results: the API takes ${digits(idleMb)} MB at rest`);
      const measured: Measured[] = [];
      for (const [name, query, encoding] of DOWNLOADS) {
        bench.say(`results: ${name}`);
        const path = `/v1/batches/job-${BATCH_ID}/results?${query}`;
        resetPeak(api.pid);
        const cpu = treeCpuMs(api.pid);
        const from = performance.now();
        const bytes = await download(`${api.url}${path}`, encoding, runs);
        const ms = performance.now() - from;
        const apiCpuMs = treeCpuMs(api.pid) - cpu;
        measured.push({ name, ms, apiCpuMs, peakMb: memoryOf(api.pid).peak_kb / 1024, bytes });
      }
      return reportOf(runs, bareMs, measured);
    } finally {
      await api.stop();
    }
  } finally {
    await client.end();
    await setup.stop();
  }
}

const DOWNLOADS = [
  ['order=input', 'order=input', 'identity'],
  ['order=input, gzip', 'order=input', 'gzip'],
  ['order=finished', 'order=finished', 'identity'],
  ['include=messages', 'include=messages', 'identity'],
] as const;

function reportOf(runs: number, bareMs: number, measured: readonly Measured[]): ScenarioResult {
  const peakMb = Math.max(...measured.map((each) => each.peakMb));
  return {
    title: `Results of a batch of ${runs} runs`,
    table: {
      head: ['read', 'seconds', 'lines/s', 'x bare cursor', 'API CPU us/line', 'API peak MB', 'MB sent'],
      rows: [
        ['bare cursor', digits(bareMs / 1000), digits((runs * 1000) / bareMs), '1.00', '', '', ''],
        ...measured.map(({ name, ms, apiCpuMs, peakMb: peak, bytes }) => [
          name,
          digits(ms / 1000),
          digits((runs * 1000) / ms),
          digits(bareMs / ms),
          digits((apiCpuMs * 1000) / runs),
          digits(peak),
          digits(bytes / 1e6),
        ]),
      ],
    },
    figures: { runs, bare_ms: bareMs, measured },
    goals: [
      {
        goal: `API under ${MB_MAX} MB (${runs} runs)`,
        measured: `${digits(peakMb)} MB`,
        met: peakMb < MB_MAX,
      },
    ],
    notes: [
      'The cursor fetches the same runs, answers and sums, 1,000 rows at a time, over one connection, and writes no JSON.',
    ],
  };
}

/** Reads the runs with a cursor and returns the milliseconds. */
async function readBare(client: pg.Client, runs: number): Promise<number> {
  const from = performance.now();
  await client.query('begin');
  await client.query(`declare runs cursor for ${BARE}`);
  let read = 0;
  for (;;) {
    const { rowCount } = await client.query(`fetch ${FETCHED} from runs`);
    if (rowCount === 0) break;
    read += rowCount ?? 0;
  }
  await client.query('commit');
  if (read !== runs) throw new Error(`The cursor read ${read} runs.`);
  return performance.now() - from;
}

/** Downloads a file, checks its last line if it is not compressed, and returns the bytes received. */
function download(url: string, encoding: string, runs: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${API_KEY}`, 'accept-encoding': encoding };
    const request = get(url, { headers }, (answer) => {
      let bytes = 0;
      let tail = '';
      answer.on('error', reject);
      answer.on('data', (part: Buffer) => {
        bytes += part.length;
        if (encoding === 'identity') tail = (tail + part.toString('latin1')).slice(-1_000);
      });
      answer.on('end', () => {
        if (encoding === 'identity' && !tail.includes(`{"end":{"count":${runs},"complete":true`))
          reject(
            new Error(`GET ${url} answered ${answer.statusCode}, and its end is not as expected: ${tail}`),
          );
        else resolve(bytes);
      });
    });
    request.on('error', reject);
  });
}
