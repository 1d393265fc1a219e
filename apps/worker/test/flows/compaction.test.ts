import type {} from '../../../../test/global-setup.ts';
import { auditInvariants, inTransaction, resetMessages, DEFAULT_PROJECT_ID } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import type { HookPoint } from '../../src/flow-parts/deps.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { call, openHouse, type House, type SubmittedRun } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

interface SentRequest {
  readonly max_tokens: number;
  readonly output_config?: unknown;
  readonly system?: unknown;
  readonly tools?: unknown;
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

/** A provider that records every request in order. */
function recording(): { provider: ProviderPort; sent: SentRequest[] } {
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  const sent: SentRequest[] = [];
  return {
    sent,
    provider: {
      ...real,
      async createBatch(body, asked) {
        const { requests } = JSON.parse(await body.text()) as { requests: { params: SentRequest }[] };
        sent.push(...requests.map(({ params }) => params));
        return real.createBatch(body, asked);
      },
    },
  };
}

const isSummaryRequest = (request: SentRequest): boolean =>
  JSON.stringify(request.messages).includes('<transcript>');

/** Sets the simulated model's summary. */
function summariseAs(text: string): void {
  house.simulator.control.addRule({
    op: 'request',
    match: { contains: '<transcript>' },
    outcome: { type: 'script', script: 'fixed', args: { text } },
  });
}

const append = (content: string): string => call('core_memory_append', { label: 'notes', content });
const filler = (name: string): string => `${name}: ${'x'.repeat(1_000)}`;

/** A run that writes three notes of a thousand characters each: its window overflows after the second. */
const THREE_NOTES: SubmittedRun = {
  input: [filler('preamble').repeat(2), ...[filler('one'), filler('two'), filler('three')].map(append)].join(
    '\n',
  ),
  blocks: { notes: '' },
  tools: ['core_memory_append'],
  agent: { context_window_limit: 4_400 },
};
/** A summary after which the simulated model goes on behind the step that is still shown. */
const STILL_OPEN = `Ann's first notes are written.\n${append('two')}\n${append('three')}`;

const stepsOf = (runId: string | undefined) =>
  house.rows<{ number: number; state: string; is_summary: boolean }>(
    'select number, state, is_summary from step where run_id = $1 order by number, attempt',
    [runId],
  );
const summaries = () =>
  house.rows<{ summary: string; hidden: number; to_seq: number }>(
    'select summary, hidden, to_seq from conversation_summary order by created_at',
  );

async function money(): Promise<{ billed: number; booked: number; tallied: number; twice: number }> {
  const { totals, repeated } = house.simulator.control.ledger();
  const [row] = await house.rows<{ booked: string; tallied: string }>(
    'select (select sum(cost_nanousd) from step) as booked, (select sum(cost_nanousd) from batch_tally) as tallied',
  );
  return {
    billed: Math.round(totals.usd * 1e9),
    booked: Number(row?.booked),
    tallied: Number(row?.tallied),
    twice: repeated.content_hashes,
  };
}

describe('a conversation that outgrows its window', () => {
  test('is summarised by a separate step within a run, which then goes on', async () => {
    summariseAs(STILL_OPEN);
    const { provider, sent } = recording();
    const batch = await house.submit([THREE_NOTES]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    const steps = await stepsOf(batch.run_ids[0]);
    expect(steps.every(({ state }) => state === 'done')).toBe(true);
    expect(steps.map(({ is_summary }) => is_summary)).toEqual([false, false, true, false, false]);
    const at = sent.findIndex(isSummaryRequest);
    expect(sent.filter(isSummaryRequest)).toHaveLength(1);
    // Neither tools nor memory; the transcript contains the notes.
    expect(sent[at]?.tools).toBeUndefined();
    expect(JSON.stringify(sent[at]?.system)).not.toContain('memory_blocks');
    expect(JSON.stringify(sent[at]?.messages)).toContain('one: xxx');

    const [made] = await summaries();
    expect(made?.summary).toBe(STILL_OPEN);
    const [first, ...rest] = sent[at + 1]?.messages ?? [];
    expect(first?.role).toBe('user');
    expect(JSON.stringify(first)).toContain(`${made?.hidden} earlier messages are no longer shown`);
    expect(JSON.stringify(first)).toContain("Ann's first notes are written.");
    // The complete step that is still shown: a call and its result.
    expect(rest.map(({ role }) => role)).toEqual(['assistant', 'user']);
    expect(JSON.stringify(rest)).not.toContain(filler('three'));
    expect(JSON.stringify(sent[at + 1]?.system)).toContain('one: xxx');
  });

  test('the summary is stored separately: no block and no message holds it', async () => {
    summariseAs(STILL_OPEN);
    const batch = await house.submit([THREE_NOTES]);
    await house.drive(house.worker());
    const blocks = await house.rows<{ value: string }>('select value from block_revision order by revision');
    expect(blocks.at(-1)?.value).toBe(`\n${filler('one')}\n${filler('two')}\nthree`);
    expect(await house.rows(`select 1 from block_revision where value like '%first notes%'`)).toEqual([]);
    expect(await house.rows(`select 1 from message where content::text like '%first notes%'`)).toEqual([]);
    // All messages are kept, unchanged and in order.
    const kept = await house.rows('select role from message where run_id = $1 and shown', [batch.run_ids[0]]);
    expect(kept.map((row) => (row as { role: string }).role)).toEqual([
      ...['user', 'assistant', 'user', 'assistant', 'user', 'assistant', 'user', 'assistant'],
    ]);
  });

  test('the summary does not count towards max_steps, but towards total usage', async () => {
    summariseAs(STILL_OPEN);
    const batch = await house.submit([{ ...THREE_NOTES, max_steps: 4 }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', step_number: 5 }]);
    const short = await house.submit([{ ...THREE_NOTES, max_steps: 3 }]);
    await house.drive(house.worker());
    expect(await house.runsOf(short.id)).toMatchObject([{ stop_reason: 'max_steps', step_number: 4 }]);
    const { billed, booked, tallied } = await money();
    expect([booked, tallied]).toEqual([billed, billed]);
  });

  test('beyond the static buffer is summarised between runs, and each summary builds on the last', async () => {
    summariseAs('All was said.');
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const compaction = { mode: 'static_buffer', limit: 10, keep: 4 } as const;
    const first = await house.submit([{ input: 'night 0 ⟦sim:fixed⟧', agent: { compaction } }]);
    const agent_id = first.agent_ids[0]!;
    await house.drive(worker);
    for (let night = 1; night <= 9; night++) {
      await house.submit([{ input: `night ${night} ⟦sim:fixed⟧`, agent_id }]);
      await house.drive(worker);
    }
    expect(await summaries()).toMatchObject([
      { hidden: 8, to_seq: 8 },
      { hidden: 16, to_seq: 16 },
    ]);
    const asked = sent.filter(isSummaryRequest).map(({ messages }) => JSON.stringify(messages));
    expect(asked[0]).not.toContain('<earlier_summary>');
    expect(asked[1]).toContain('All was said.');
    expect(asked[1]).not.toContain('night 3');
    expect(sent.at(-1)?.messages).toHaveLength(4);
    expect(JSON.stringify(sent.at(-1)?.messages)).toMatch(/16 earlier messages .*night 8/);
  });
});

describe('the request for a summary', () => {
  const short = (rest: object = {}) => ({
    ...THREE_NOTES,
    max_tokens: 100,
    extra: { output_config: { effort: 'low' } },
    ...rest,
  });

  test.each([
    ['anthropic/claude-sonnet-4-6', 2_048],
    ['anthropic/claude-opus-5-5', 10_240],
  ])('to %s may write %i tokens, even if the answers of its agent are short', async (model, tokens) => {
    summariseAs(STILL_OPEN);
    const { provider, sent } = recording();
    const batch = await house.submit([short({ model })]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }]);
    const of = (summary: boolean) => sent.filter((each) => isSummaryRequest(each) === summary);
    expect(of(true)).toMatchObject([{ max_tokens: tokens, output_config: { effort: 'low' } }]);
    expect(new Set(of(false).map(({ max_tokens }) => max_tokens))).toEqual(new Set([100]));
  });

  test('is sent again with twice the tokens after a cut answer, and half a summary hides nothing', async () => {
    const asking = { op: 'request', match: { contains: '<transcript>' } } as const;
    const control = house.simulator.control;
    control.addRule({
      ...asking,
      match: { ...asking.match, times: 1 },
      outcome: { type: 'script', script: 'maxTokensText', args: {} },
    });
    summariseAs(STILL_OPEN);
    const { provider, sent } = recording();
    const batch = await house.submit([short()]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect(sent.filter(isSummaryRequest).map(({ max_tokens }) => max_tokens)).toEqual([2_048, 4_096]);
    expect(await summaries()).toMatchObject([{ summary: STILL_OPEN }]);
    const { billed, booked } = await money();
    expect(booked).toBe(billed);
  });

  test('is covered by the reservation of its step, and its run ends if a cap leaves no room for it', async () => {
    summariseAs(STILL_OPEN);
    const cap = (output_tokens: number) => ({ cap: { cost_nanousd: 10_000_000_000, output_tokens } });
    const reserved: unknown[] = [];
    const worker = house.worker({
      hooks: async (point) => {
        if (point === 'submit.after_encode')
          reserved.push(
            ...(await house.rows(
              `select reserved_output_tokens, max_tokens_fitted from step where is_summary and state = 'sealed'`,
            )),
          );
      },
    });
    const batch = await house.submit([short(cap(3_000)), short(cap(1_000))]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed' },
      {
        state: 'failed',
        stop_reason: 'budget_exceeded',
        error: { message: expect.stringContaining('may take 2048 tokens') },
      },
    ]);
    expect(reserved).toEqual([{ reserved_output_tokens: 2_048, max_tokens_fitted: 2_048 }]);
  });

  test('does not hold the conversation while it waits for the budget of its batch', async () => {
    summariseAs(STILL_OPEN);
    const batch = await house.submit([short()], { cap: { cost_nanousd: null, output_tokens: 1_000_000 } });
    const { pool } = house.database;
    const free: unknown[] = [];
    const looks: Promise<void>[] = [];
    const worker = house.worker({
      hooks: async (point) => {
        if (point !== 'ingest.after_claim' || looks.length > 0) return;
        const answered = await house.rows(`select from step where is_summary and state = 'sealed'`);
        if (answered.length === 0) return;
        const client = await pool.connect();
        await client.query('begin');
        await client.query('select from batch_budget for no key update');
        const look = async (): Promise<void> => {
          const waiting = (): Promise<unknown[]> =>
            house.rows(
              `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
            );
          await expect.poll(waiting, { timeout: 20_000 }).not.toEqual([]);
          free.push(...(await house.rows('select run_id from conversation for no key update skip locked')));
        };
        looks.push(
          look().finally(async () => {
            await client.query('rollback');
            client.release();
          }),
        );
      },
    });
    await house.drive(worker);
    await Promise.all(looks);
    expect(free).toEqual([{ run_id: batch.run_ids[0] }]);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }]);
    expect(await summaries()).toMatchObject([{ summary: STILL_OPEN }]);
  });

  test('takes the rest of its run’s cap if that is enough', async () => {
    summariseAs(STILL_OPEN);
    const { provider, sent } = recording();
    const cap = { cost_nanousd: 10_000_000_000, output_tokens: 6_000 };
    const batch = await house.submit([short({ model: 'anthropic/claude-opus-5-5', cap })]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }]);
    const [{ max_tokens } = { max_tokens: 0 }] = sent.filter(isSummaryRequest);
    expect(max_tokens).toBeGreaterThan(2_048);
    expect(max_tokens).toBeLessThanOrEqual(6_000);
  });
});

describe('a crash around a summary', () => {
  const points: readonly HookPoint[] = [
    'submit.after_fit',
    'submit.after_encode',
    'submit.after_write_ahead',
    'submit.after_post',
    'ingest.before_commit',
    'ingest.after_commit',
  ];
  test.each(points)('at %s: it is applied once, and nothing is paid twice', async (point) => {
    summariseAs(STILL_OPEN);
    let armed = true;
    const dying = house.worker({
      hooks: async (reached) => {
        const [open] = await house.rows('select 1 from step where is_summary');
        if (!armed || reached !== point || (open === undefined && point !== 'submit.after_fit')) return;
        armed = false;
        // Like a broken connection, which stops its caller.
        throw Object.assign(new Error('killed'), { code: '57P01' });
      },
    });
    const batch = await house.submit([THREE_NOTES]);
    await expect(house.drive(dying)).rejects.toThrow('killed');
    await house.bury(dying);
    await house.drive(house.worker(), { hasten: true });

    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect(await summaries()).toHaveLength(1);
    const applied = await house.rows('select 1 from step where is_summary and applied_at is not null');
    expect(applied).toHaveLength(1);
    const { billed, booked, twice } = await money();
    expect({ booked, twice }).toEqual({ booked: billed, twice: 0 });
  });
});

describe('a run that cannot fit its window', () => {
  test('ends alone with context_overflow before any payment, and later runs do not show its input', async () => {
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const agent = { context_window_limit: 4_000 };
    const batch = await house.submit([
      { input: 'short ⟦sim:fixed⟧', agent },
      { input: `long ${'x'.repeat(20_000)}`, agent },
      { input: 'also short ⟦sim:fixed⟧', agent },
    ]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed' },
      {
        state: 'failed',
        stop_reason: 'context_overflow',
        error: { message: expect.stringContaining('the context window holds 4000') },
      },
      { state: 'completed' },
    ]);
    expect(sent).toHaveLength(2);
    const next = await house.submit([{ input: 'next ⟦sim:fixed⟧', agent_id: batch.agent_ids[1]! }]);
    await house.drive(worker);
    expect(await house.runsOf(next.id)).toMatchObject([{ state: 'completed' }]);
    expect(JSON.stringify(sent.at(-1))).not.toContain('long xxx');
    expect(house.simulator.control.ledger().totals.requests).toBe(3);
  });

  test.each([null, { cost_nanousd: 10_000_000_000, output_tokens: null }])(
    'or whose messages cannot be read ends alone as poison, whatever the cap of its batch: %j',
    async (cap) => {
      const agent = { context_window_limit: 4_000 };
      const batch = await house.submit(
        [
          { input: 'short ⟦sim:fixed⟧', agent },
          { input: `odd ${'x'.repeat(20_000)}`, agent },
          { input: 'also short ⟦sim:fixed⟧', agent },
        ],
        cap === null ? {} : { cap },
      );
      await house.rows(
        `update message set content = ('[null,' || substr(content::text, 2))::json where run_id = $1`,
        [batch.run_ids[1]],
      );
      await house.drive(house.worker());
      expect(await house.runsOf(batch.id)).toMatchObject([
        { state: 'completed' },
        { state: 'failed', stop_reason: 'poison' },
        { state: 'completed' },
      ]);
    },
  );

  test('of many ends alone, all in a few transactions', async () => {
    const agent = { context_window_limit: 4_000 };
    const batch = await house.submit(
      Array.from({ length: 60 }, (_, index) => ({
        input: index % 2 === 0 ? `short ${index} ⟦sim:fixed⟧` : `long ${index} ${'x'.repeat(20_000)}`,
        agent,
      })),
    );
    await house.drive(house.worker());
    const reasons = (await house.runsOf(batch.id)).map((run) => run.stop_reason);
    expect(reasons).toEqual(
      Array.from({ length: 60 }, (_, index) => (index % 2 === 0 ? 'end_turn' : 'context_overflow')),
    );
  });

  test('because the model gives no summary ends as context_overflow after a few attempts', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: '<transcript>' },
      outcome: { type: 'script', script: 'refusal', args: {} },
    });
    const batch = await house.submit([THREE_NOTES, { input: 'other ⟦sim:fixed⟧' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'failed', stop_reason: 'context_overflow' },
      { state: 'completed' },
    ]);
    expect(await summaries()).toEqual([]);
  });
});

describe('a prompt too long for the provider, although the window of its agent has room', () => {
  // The simulated model takes 200,000 tokens of four bytes.
  const agent = { context_window_limit: 1_000_000 };
  const letter = (name: string, chars: number): string => `${name} ⟦sim:fixed⟧ ${'x'.repeat(chars)}`;
  const outcomes = async (runId: string | undefined) =>
    house.rows<{ state: string; is_summary: boolean; reason: string | null }>(
      `select state, is_summary, error->>'message' as reason from step where run_id = $1 order by number, attempt`,
      [runId],
    );

  test('is retried after a summary of earlier messages, and then fits', async () => {
    summariseAs('The first letter was long.');
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const first = await house.submit([{ input: letter('one', 450_000), agent }]);
    await house.drive(worker);
    const batch = await house.submit([{ input: letter('two', 450_000), agent_id: first.agent_ids[0]! }]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect(await outcomes(batch.run_ids[0])).toMatchObject([
      { state: 'errored', reason: expect.stringContaining('prompt is too long') },
      { state: 'done', is_summary: true },
      { state: 'done', is_summary: false },
    ]);
    const [summary, again] = sent.slice(-2);
    expect(isSummaryRequest(summary!)).toBe(true);
    expect(JSON.stringify(again?.messages)).toContain('The first letter was long.');
    expect(JSON.stringify(again?.messages)).not.toContain('one ⟦');
    expect(JSON.stringify(again?.messages)).toContain('two ⟦');
    const { billed, booked, twice } = await money();
    expect({ booked, twice }).toEqual({ booked: billed, twice: 0 });
  });

  test('ends as context_overflow if it does not fit after one summary', async () => {
    summariseAs('Something was said.');
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const first = await house.submit([{ input: letter('one', 300_000), agent }]);
    await house.drive(worker);
    const [agent_id = ''] = first.agent_ids;
    const batch = await house.submit([{ input: letter('two', 900_000), agent_id }]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([
      {
        state: 'failed',
        stop_reason: 'context_overflow',
        error: { message: expect.stringContaining('prompt is too long') },
      },
    ]);
    expect((await outcomes(batch.run_ids[0])).map(({ is_summary }) => is_summary)).toEqual([
      false,
      true,
      false,
    ]);
    expect(sent.filter(isSummaryRequest)).toHaveLength(1);
    const next = await house.submit([{ input: letter('three', 10), agent_id }]);
    await house.drive(worker);
    expect(await house.runsOf(next.id)).toMatchObject([{ state: 'completed' }]);
  });

  test('is summarised if an answer has filled the window, and later requests do not show that answer', async () => {
    summariseAs('The first letter was long.');
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'two ⟦', times: 1 },
      outcome: { type: 'script', script: 'contextExceeded', args: {} },
    });
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const first = await house.submit([{ input: letter('one', 300_000), agent }]);
    await house.drive(worker);
    const [agent_id = ''] = first.agent_ids;
    const batch = await house.submit([{ input: letter('two', 3_000), agent_id }]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect(await outcomes(batch.run_ids[0])).toMatchObject([
      { state: 'errored' },
      { state: 'done', is_summary: true },
      { state: 'done', is_summary: false },
    ]);
    expect(
      await house.rows('select role, shown, step_number from message where run_id = $1 order by seq', [
        batch.run_ids[0],
      ]),
    ).toEqual([
      { role: 'user', shown: true, step_number: null },
      { role: 'assistant', shown: false, step_number: null },
      { role: 'assistant', shown: true, step_number: 2 },
    ]);
    const next = await house.submit([{ input: letter('three', 10), agent_id }]);
    await house.drive(worker);
    expect(await house.runsOf(next.id)).toMatchObject([{ state: 'completed' }]);
    expect(sent.filter((request) => JSON.stringify(request).includes('where it en'))).toEqual([]);
    const { billed, booked, twice } = await money();
    expect({ booked, twice }).toEqual({ booked: billed, twice: 0 });
  });

  test('is summarised with twice the tokens after a cut summary, even if its own answer was cut before', async () => {
    const { control } = house.simulator;
    const once = (contains: string, script: string): unknown =>
      control.addRule({
        op: 'request',
        match: { contains, times: 1 },
        outcome: { type: 'script', script, args: {} },
      });
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const first = await house.submit([
      { input: letter('one', 300_000), agent, blocks: { notes: '' }, tools: ['core_memory_append'] },
    ]);
    await house.drive(worker);
    for (const script of ['maxTokensMidToolUse', 'contextExceeded']) once('two ⟦', script);
    once('<transcript>', 'maxTokensText');
    summariseAs('The first letter was long.');
    const batch = await house.submit([{ input: letter('two', 3_000), agent_id: first.agent_ids[0]! }]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
    expect((await outcomes(batch.run_ids[0])).map(({ state, is_summary }) => [state, is_summary])).toEqual([
      ['errored', false],
      ['errored', false],
      ['errored', true],
      ['done', true],
      ['done', false],
    ]);
    const [cut = 0, again] = sent.filter(isSummaryRequest).map(({ max_tokens }) => max_tokens);
    expect(again).toBe(2 * cut);
    const { billed, booked } = await money();
    expect(booked).toBe(billed);
  });

  test('is summarised once if its worker crashes at any point', async () => {
    for (const point of ['submit.after_fit', 'submit.after_write_ahead', 'submit.after_post'] as const) {
      summariseAs(`The first letter was long, said ${point}.`);
      const { provider, sent } = recording();
      const first = await house.submit([{ input: letter(`one, ${point}`, 450_000), agent }]);
      await house.drive(house.worker({ provider }));
      const batch = await house.submit([
        { input: letter(`two, ${point}`, 450_000), agent_id: first.agent_ids[0]! },
      ]);
      let passes = point === 'submit.after_fit' ? 1 : 2;
      const victim = house.worker({
        provider,
        hooks: (at) => {
          if (at === point && --passes === 0) throw new Error('the power is cut');
          return Promise.resolve();
        },
      });
      await expect(house.drive(victim, { hasten: true })).rejects.toThrow('the power is cut');
      await house.bury(victim);
      await house.drive(house.worker({ provider }), { hasten: true });
      expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', stop_reason: 'end_turn' }]);
      expect(sent.filter(isSummaryRequest)).toHaveLength(1);
      const { billed, booked, twice } = await money();
      expect({ booked, twice }).toEqual({ booked: billed, twice: 0 });
    }
  });
});

test('if the window is nearly full, a shorter answer is requested', async () => {
  const { provider, sent } = recording();
  const model_settings = { max_output_tokens: 3_000, parallel_tool_calls: true, extra: {} };
  await house.submit([
    {
      input: `${'y'.repeat(6_000)} ⟦sim:fixed⟧`,
      agent: { context_window_limit: 4_000, model_settings },
    },
  ]);
  await house.drive(house.worker({ provider }));
  expect(sent).toHaveLength(1);
  expect(sent[0]?.max_tokens).toBeGreaterThan(1_024);
  expect(sent[0]?.max_tokens).toBeLessThan(2_000);
  expect(await house.rows('select max_tokens, max_tokens_fitted from step')).toEqual([
    { max_tokens: 3_000, max_tokens_fitted: sent[0]?.max_tokens },
  ]);
});

test('the estimate is calibrated by the usage of answers', async () => {
  const { provider, sent } = recording();
  const worker = house.worker({ provider });
  const run = { input: `${'z'.repeat(15_000)} ⟦sim:fixed⟧`, agent: { context_window_limit: 5_600 } };
  const first = await house.submit([run]);
  await house.drive(worker);
  expect(await house.runsOf(first.id)).toMatchObject([{ stop_reason: 'context_overflow' }]);
  expect(await house.rows('select 1 from token_calibration')).toEqual([]);

  // The simulated tokenizer counts four bytes a token; before any answer, three are assumed.
  await house.submit([{ input: `${'z'.repeat(12_000)} ⟦sim:fixed⟧` }]);
  await house.drive(worker);
  const [learnt] = await house.rows<{ model: string; bytes_per_token: number; samples: number }>(
    'select model, bytes_per_token, samples from token_calibration',
  );
  expect(learnt).toMatchObject({ model: 'claude-haiku-4-5', samples: 1 });
  expect(learnt?.bytes_per_token).toBeGreaterThan(3.9);
  expect(learnt?.bytes_per_token).toBeLessThan(4.2);

  const again = await house.submit([run]);
  await house.drive(worker);
  expect(await house.runsOf(again.id)).toMatchObject([{ state: 'completed' }]);
  expect(sent).toHaveLength(2);
});

describe('cleared messages stay cleared', () => {
  test('an agent that clears its buffer keeps it between the steps of a run, and clears it with its summary', async () => {
    summariseAs(STILL_OPEN);
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const batch = await house.submit([
      { ...THREE_NOTES, agent: { ...THREE_NOTES.agent, message_buffer_autoclear: true } },
    ]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed', step_number: 5 }]);
    expect(JSON.stringify(sent[1]?.messages)).toContain('one: xxx');
    await house.submit([{ input: 'the next night ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(worker);
    expect(sent.at(-1)?.messages).toHaveLength(1);
    expect(await house.rows('select summary_to_seq from conversation')).toEqual([{ summary_to_seq: null }]);
  });

  test('a reset removes the summary', async () => {
    summariseAs(STILL_OPEN);
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const batch = await house.submit([THREE_NOTES]);
    await house.drive(worker);
    const agent_id = batch.agent_ids[0]!;
    await inTransaction(house.database.db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent_id));
    await house.submit([{ input: 'afresh ⟦sim:fixed⟧', agent_id }]);
    await house.drive(worker);
    expect(sent.at(-1)?.messages).toHaveLength(1);
  });

  test('a summary of a cancelled run was paid, so the next run uses it', async () => {
    summariseAs(STILL_OPEN);
    const { provider, sent } = recording();
    let cancelled = false;
    const batch = await house.submit([THREE_NOTES]);
    const worker = house.worker({
      provider,
      hooks: async (point) => {
        if (cancelled || point !== 'submit.after_commit' || !sent.some(isSummaryRequest)) return;
        cancelled = true;
        await house.cancel(batch.id);
      },
    });
    house.simulator.control.configure({ cancel: { delay_ms: 0, in_work: 1, started_succeed: 1 } });
    await house.drive(worker, { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'cancelled' }]);
    const { billed, booked } = await money();
    expect(booked).toBe(billed);
    await house.submit([{ input: 'go on ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(worker);
    expect(JSON.stringify(sent.at(-1)?.messages)).toContain("Ann's first notes are written.");
  });
});
