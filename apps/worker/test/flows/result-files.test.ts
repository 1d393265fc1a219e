import type {} from '../../../../test/global-setup.ts';
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest';
import type { RuleInput } from '../../../simulator/src/index.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import { ResultsInterrupted, type ProviderPort } from '../../src/provider/port.ts';
import { createPumps } from '../../src/queues/pumps.ts';
import { call, openHouse, type House } from './house.ts';

let house: House;
/** Rows of an undisturbed run. */
let undisturbed: unknown;

beforeAll(async () => {
  house = await openHouse(inject('postgresUrl'));
  undisturbed = await rowsAfter([]);
});
afterEach(() => house.simulator.control.clearRules());
afterAll(() => house.close());

const RUNS = Array.from({ length: 12 }, (_, index) => ({
  input: [
    `Customer ${index}.`,
    call('core_memory_append', { label: 'notes', content: `first ${index}` }),
    call('core_memory_append', { label: 'notes', content: `second ${index}` }),
  ].join('\n'),
  blocks: { notes: 'old' },
  tools: ['core_memory_append'],
}));

/** Takes the runs through a provider with these faults, and returns every row visible to users. */
async function rowsAfter(rules: readonly RuleInput[]): Promise<unknown> {
  for (const rule of rules) house.simulator.control.addRule(rule);
  const batch = await house.submit(RUNS);
  // Small chunks, so that faults fall between commits as well as inside them.
  await house.drive(house.worker({ settings: { chunk_lines: 5 } }), { hasten: true, rounds: 500 });
  for (const { fired } of house.simulator.control.rules()) expect(fired).toBeGreaterThan(0);
  const runs = await house.rows(
    `select ordinal, state, stop_reason, step_number, attempt, failures, error, last_seq - first_seq as span
       from run where batch_id = $1 order by ordinal`,
    [batch.id],
  );
  const steps = await house.rows<{ provider_message_id: string | null }>(
    `select r.ordinal, s.number, s.attempt, s.state, s.stop_reason, s.provider_message_id, s.output_tokens
       from step s join run r on r.id = s.run_id where r.batch_id = $1 order by 1, 2, 3`,
    [batch.id],
  );
  const messages = await house.rows(
    `select r.ordinal, m.seq - r.first_seq as place, m.role, m.shown, m.content
       from message m join run r on r.id = m.run_id where r.batch_id = $1 order by 1, 2`,
    [batch.id],
  );
  const calls = await house.rows(
    `select r.ordinal, c.step_number, c.call_index, c.tool_use_id, c.state
       from tool_call c join run r on r.id = c.run_id where r.batch_id = $1 order by 1, 2, 3`,
    [batch.id],
  );
  const blocks = await house.rows(
    `select r.ordinal, v.revision, v.value from run r join agent_block ab on ab.agent_id = r.agent_id
       join block_revision v on v.block_id = ab.block_id where r.batch_id = $1 order by 1, 2`,
    [batch.id],
  );
  const [tally] = await house.rows(
    `select sum(completed)::int completed, sum(failed)::int failed, sum(steps)::int steps,
            sum(tool_calls)::int tool_calls, sum(output_tokens)::int output_tokens
       from batch_tally where batch_id = $1`,
    [batch.id],
  );
  const [state] = await house.rows('select state from batch where id = $1', [batch.id]);
  // The id of an answer depends on the custom id of its request, which is new each time.
  for (const step of steps) step.provider_message_id = step.provider_message_id === null ? null : 'msg';
  return { runs, steps, messages, calls, blocks, tally, state };
}

type Action = NonNullable<Extract<RuleInput, { action?: unknown }>['action']>;

/** Each fault, and whether it strikes every download or only the first. */
const FAULTS: readonly (readonly [string, 'always' | 'once', Action])[] = [
  ['cut in the middle of a line', 'once', { type: 'cut', at_fraction: 0.6, boundary: 'midline' }],
  ['cut at the end of a line, which looks complete', 'once', { type: 'cut', at_fraction: 0.6 }],
  ['cut before the first line', 'once', { type: 'cut', at_lines: 0 }],
  ['cut by a reset connection', 'once', { type: 'cut', at_fraction: 0.5, how: 'rst' }],
  ['cut by a closed connection', 'once', { type: 'cut', at_fraction: 0.5, how: 'fin' }],
  ['shorter than announced', 'once', { type: 'cut', at_fraction: 0.5, how: 'short_content_length' }],
  ['cut with no announced length', 'once', { type: 'cut', at_fraction: 0.5, how: 'close_delimited' }],
  ['cut in compressed form', 'once', { type: 'cut', at_fraction: 0.5, how: 'gzip' }],
  ['with every line twice', 'always', { type: 'duplicateLines' }],
  [
    'with a second, different answer behind every line',
    'always',
    { type: 'duplicateLines', mode: 'conflicting' },
  ],
  ['in reverse', 'always', { type: 'reorder', how: 'reverse' }],
  ['shuffled', 'always', { type: 'reorder', how: 'shuffle' }],
  ['with a foreign line', 'always', { type: 'foreignLine', at: 0 }],
  ['with garbage between lines', 'always', { type: 'garbageLine', at: 3 }],
  ['with text that is not JSON', 'always', { type: 'garbageLine', at: 0, text: '<html>oops</html>' }],
  ['with a blank line', 'always', { type: 'blankLine', at: 2 }],
  ['with a line that says null', 'always', { type: 'nullLine', at: 2 }],
  ['with CRLF line ends', 'always', { type: 'crlf' }],
  ['with a byte order mark', 'always', { type: 'bom' }],
  ['without a final line end', 'always', { type: 'noFinalNewline' }],
  ['with one line end too many', 'always', { type: 'extraNewline' }],
  ['without two of its lines at first', 'once', { type: 'dropLines', at: [0, 7] }],
  ['without most of its lines at first', 'once', { type: 'dropLines', probability: 0.8 }],
  ['in chunks of three bytes', 'always', { type: 'chunks', bytes: 3 }],
  ['compressed', 'always', { type: 'gzip', on: true }],
  ['under no content type', 'always', { type: 'contentType', value: null }],
  ['refused by a server error at first', 'once', { type: 'status', code: 500 }],
  ['not there yet', 'once', { type: 'status', code: 404 }],
  ['answered with a page of HTML', 'once', { type: 'status', code: 200, body: '<html>\n</html>\n' }],
];

test.each(FAULTS)('a result file %s changes nothing in the end', async (_name, when, action) => {
  const match = when === 'once' ? { times: 1 } : {};
  expect(await rowsAfter([{ op: 'results', match, action }])).toEqual(undisturbed);
});

test('five downloads broken in different ways change nothing in the end', async () => {
  const breaks: readonly Action[] = [
    { type: 'cut', at_fraction: 0.2, boundary: 'midline' },
    { type: 'cut', at_fraction: 0.4, how: 'rst' },
    { type: 'dropLines', probability: 0.5 },
    { type: 'status', code: 529 },
    { type: 'cut', at_fraction: 0.8, how: 'fin' },
  ];
  const rules = breaks.map((action): RuleInput => ({ op: 'results', match: { times: 1 }, action }));
  expect(await rowsAfter(rules)).toEqual(undisturbed);
});

test('a proxy’s own pages, however often, settle nothing', async () => {
  const page = { type: 'status', code: 200, content_type: 'text/html', body: '<html>\n</html>\n' } as const;
  expect(await rowsAfter([{ op: 'results', match: { times: 5 }, action: page }])).toEqual(undisturbed);
});

test('results that are refused for a while are requested again later', async () => {
  house.simulator.control.addRule({
    op: 'results',
    action: { type: 'status', code: 429, headers: { 'retry-after': '900' } },
  });
  await house.submit([{ input: 'Wait.' }]);
  const worker = house.worker();
  await expect(house.drive(worker, { rounds: 20 })).rejects.toThrow(/not ended/);
  const waits = await house.rows(
    `select next_due_at - app_now() between interval '14 minutes' and interval '15 minutes' as is_due_then
       from provider_batch where state = 'ended'`,
  );
  expect(waits).toEqual([{ is_due_then: true }]);
  house.simulator.control.clearRules();
  await house.drive(worker, { hasten: true });
});

test('an unreadable result file blocks no other', async () => {
  const { control } = house.simulator;
  control.addRule({
    op: 'results',
    match: { batch_seq: seqOfNext() },
    action: { type: 'status', code: 500 },
  });
  const batch = await house.submit(['unlucky', 'lucky'].map((word) => ({ input: word.repeat(500) })));
  const worker = house.worker({ settings: { body_bytes_max: 5_000 } });
  await expect(house.drive(worker, { hasten: true, rounds: 20 })).rejects.toThrow(/not ended/);
  expect((await house.runsOf(batch.id)).map((run) => run.state).toSorted()).toEqual([
    'completed',
    'in_flight',
  ]);
  control.clearRules();
  await house.drive(worker, { hasten: true });
  expect((await house.runsOf(batch.id)).every((run) => run.stop_reason === 'end_turn')).toBe(true);
});

test('a result file without progress blocks no other of its worker', async () => {
  const stuck = Promise.withResolvers<void>();
  const slow = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  let streams = 0;
  const provider: ProviderPort = {
    ...slow,
    async streamResults(id, options) {
      if (++streams > 1) return slow.streamResults(id, options);
      async function* never(): AsyncGenerator<Buffer> {
        yield Buffer.from('{"custom_id":');
        await stuck.promise;
        throw new ResultsInterrupted('slower than the rate');
      }
      return { outcome: 'open', chunks: never() };
    },
  };
  const batch = await house.submit(['unlucky', 'lucky'].map((word) => ({ input: word.repeat(500) })));
  const worker = house.worker({ provider, settings: { body_bytes_max: 5_000, chunks_in_flight: 1 } });
  const pumps = createPumps(worker, { report: () => undefined, failure: () => undefined });
  while (!(await house.runsOf(batch.id)).some((run) => run.state === 'completed')) {
    for (const kind of ['compose', 'submit', 'poll', 'ingest'] as const) pumps.kick(kind);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect((await house.runsOf(batch.id)).map((run) => run.state).toSorted()).toEqual([
    'completed',
    'in_flight',
  ]);
  stuck.resolve();
  await pumps.stop();
  await house.drive(worker, { hasten: true });
  expect((await house.runsOf(batch.id)).every((run) => run.state === 'completed')).toBe(true);
});

test('a line set aside is kept for a person once, however often the file is read', async () => {
  await house.rows('delete from result_line');
  house.simulator.control.addRule({
    op: 'results',
    match: { times: 1 },
    actions: [
      { type: 'garbageLine', at: 1, text: 'garbage' },
      { type: 'foreignLine', at: 0 },
      { type: 'cut', at_lines: 9 },
    ],
  });
  house.simulator.control.addRule({
    op: 'results',
    match: { times: 1 },
    actions: [
      { type: 'garbageLine', at: 1, text: 'garbage' },
      { type: 'foreignLine', at: 0 },
    ],
  });
  await house.submit(RUNS.map(({ input }) => ({ input: input.split('\n')[0]! })));
  await house.drive(house.worker(), { hasten: true });
  expect(
    await house.rows('select line_number, reason, custom_id, excerpt from result_line order by line_number'),
  ).toMatchObject([
    { reason: 'foreign', custom_id: 'not-in-this-batch' },
    { reason: 'unreadable', custom_id: null, excerpt: 'garbage' },
  ]);
});

test('steps whose lines never come are sent again, within their attempts', async () => {
  house.simulator.control.addRule({
    op: 'results',
    match: { batch_seq: seqOfNext() },
    action: { type: 'dropLines', at: [0] },
  });
  const batch = await house.submit([{ input: 'one' }, { input: 'two' }, { input: 'three' }]);
  await house.drive(house.worker(), { hasten: true });
  expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual([
    'end_turn',
    'end_turn',
    'end_turn',
  ]);
  const steps = await house.rows(
    `select s.state, s.attempt from step s join run r on r.id = s.run_id where r.batch_id = $1 and s.state <> 'done'`,
    [batch.id],
  );
  expect(steps).toEqual([{ state: 'lost', attempt: 1 }]);
});

test('results that the provider no longer keeps count as lost, and their steps are sent again', async () => {
  const { control } = house.simulator;
  const batch = await house.submit([{ input: 'one' }, { input: 'two' }]);
  const id = control.addRule({ op: 'results', action: { type: 'status', code: 500 } });
  const worker = house.worker();
  await expect(house.drive(worker, { hasten: true, rounds: 4 })).rejects.toThrow(/not ended/);
  await control.command(control.batches().at(-1)!.id, 'archive');
  control.removeRule(id);
  await house.drive(worker, { hasten: true });
  expect(await house.runsOf(batch.id)).toMatchObject([
    { stop_reason: 'end_turn', attempt: 2 },
    { stop_reason: 'end_turn', attempt: 2 },
  ]);
});

function seqOfNext(): number {
  return house.simulator.control.batches().length + 1;
}

test('a line in two concurrent chunks is applied by one; the other decides again and refuses it', async () => {
  house.simulator.control.addRule({ op: 'results', action: { type: 'duplicateLines' } });
  const batch = await house.submit([{ input: 'Twice at once.' }]);
  const isTransactionWaiting = async (): Promise<boolean> => {
    const waiting = await house.rows(
      `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
    );
    return waiting.length > 0;
  };
  let commits = 0;
  const worker = house.worker({
    settings: { chunk_lines: 1, chunks_in_flight: 2 },
    async hooks(point) {
      if (point !== 'ingest.before_commit') return;
      commits += 1;
      // The first has written; the other has read the rows from before and waits for their locks.
      if (commits === 1) await expect.poll(isTransactionWaiting, { timeout: 20_000 }).toBe(true);
    },
  });
  await house.drive(worker, { hasten: true });
  expect(commits).toBe(2);
  const aside = await house.rows(
    `select l.reason from result_line l join step s on s.provider_batch_id = l.provider_batch_id
       join run r on r.id = s.run_id where r.batch_id = $1`,
    [batch.id],
  );
  expect(aside).toEqual([]);
  expect(await house.runsOf(batch.id)).toMatchObject([
    { state: 'completed', stop_reason: 'end_turn', attempt: 1 },
  ]);
});

test('an open result stream is closed even if the database is away from then on', async () => {
  const line = { isCut: false };
  const streams = { opened: 0, closed: 0 };
  const honest = house.worker({
    // The worker before it is gone.
    async hooks(point) {
      if (point !== 'poll.after_commit') return;
      await house.rows(
        `update provider_batch set lease_owner = 'gone', lease_until = app_now() - interval '1 millisecond'
          where state = 'ended' and next_due_at <= app_now()`,
      );
    },
  });
  const { provider } = honest;
  const worker: FlowDeps = {
    ...honest,
    db: honest.db.withPlugin({
      transformQuery({ node }) {
        if (line.isCut) throw Object.assign(new Error('the line is cut'), { code: 'ECONNRESET' });
        return node;
      },
      transformResult: ({ result }) => Promise.resolve(result),
    }),
    provider: {
      ...provider,
      async streamResults(...asked) {
        const opened = await provider.streamResults(...asked);
        if (opened.outcome !== 'open') return opened;
        streams.opened += 1;
        line.isCut = true;
        const chunks = (async function* () {
          try {
            yield* opened.chunks;
          } finally {
            streams.closed += 1;
          }
        })();
        return { outcome: 'open', chunks };
      },
    },
  };
  const batch = await house.submit([{ input: 'Close it.' }]);
  await expect(house.drive(worker, { hasten: true })).rejects.toThrow('the line is cut');
  expect(streams).toEqual({ opened: 1, closed: 1 });
  await house.drive(house.worker(), { hasten: true });
  expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', attempt: 1 }]);
});
