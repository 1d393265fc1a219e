import type {} from '../../../../test/global-setup.ts';
import { batchCostNanoUsd, SHIPPED_PRICES, type Usage } from '@nightshift/agent-core';
import { DEFAULT_PROJECT_ID, inTransaction, resumeBatch } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { call, openHouse, type House, type SubmittedRun, type SubmittedBatch } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(() => house.close());

interface MessageRow {
  readonly role: string;
  readonly shown: boolean;
  readonly content: readonly { readonly type: string; readonly [member: string]: unknown }[];
}

function messagesOf(runId: string | undefined): Promise<MessageRow[]> {
  return house.rows<MessageRow>('select role, shown, content from message where run_id = $1 order by seq', [
    runId,
  ]);
}

function stepsOf(batch: SubmittedBatch): Promise<Record<string, unknown>[]> {
  return house.rows(
    `select s.number, s.attempt, s.state, s.max_tokens from step s join run r on r.id = s.run_id
      where r.batch_id = $1 order by r.ordinal, s.number, s.attempt`,
    [batch.id],
  );
}

/** A provider that records the params of every request by custom id, in the order sent. */
function recording(): { provider: ProviderPort; sent: { custom_id: string; params: Params }[] } {
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  const sent: { custom_id: string; params: Params }[] = [];
  return {
    sent,
    provider: {
      ...real,
      async createBatch(body, asked) {
        sent.push(...(JSON.parse(await body.text()) as { requests: typeof sent }).requests);
        return real.createBatch(body, asked);
      },
    },
  };
}

interface Params {
  readonly max_tokens: number;
  readonly messages: readonly { readonly role: string; readonly content: readonly unknown[] }[];
}

describe('steps without an answer', () => {
  test('an expired step is sent again, and the run ends expired when no attempt is left', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'always late' },
      outcome: { type: 'expire' },
    });
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'late at first', times: 2 },
      outcome: { type: 'expire' },
    });
    const batch = await house.submit([
      { input: 'always late' },
      { input: 'late at first' },
      { input: 'in time' },
    ]);
    await house.drive(house.worker(), { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'expired', stop_reason: 'expired', attempt: 4 },
      { state: 'completed', stop_reason: 'end_turn', attempt: 3 },
      { state: 'completed', stop_reason: 'end_turn', attempt: 1 },
    ]);
    const steps = await stepsOf(batch);
    expect(steps.filter((step) => step['state'] === 'expired')).toHaveLength(6);
  });

  test('a request that the busy provider refused is sent again and succeeds', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'busy' },
      outcome: { type: 'errorTimesThenSucceed', times: 2 },
    });
    const batch = await house.submit([{ input: 'busy 1' }, { input: 'busy 2' }]);
    await house.drive(house.worker(), { hasten: true });
    expect((await house.runsOf(batch.id)).map((run) => run.stop_reason)).toEqual(['end_turn', 'end_turn']);
    expect(await stepsOf(batch)).toMatchObject(
      [1, 2].flatMap(() => [
        { number: 1, attempt: 1, state: 'errored' },
        { number: 1, attempt: 2, state: 'errored' },
        { number: 1, attempt: 3, state: 'done' },
      ]),
    );
    const { totals, repeated } = house.simulator.control.ledger();
    expect([totals.requests, repeated.content_hashes]).toEqual([2, 0]);
  });

  test('a request that never succeeds ends its run after the last attempt, with the provider’s error', async () => {
    house.simulator.control.addRule({
      op: 'request',
      outcome: { type: 'errored', error_type: 'api_error', message: 'Come back another day' },
    });
    const batch = await house.submit([{ input: 'hello' }]);
    await house.drive(house.worker(), { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([
      {
        state: 'failed',
        stop_reason: 'provider_error',
        attempt: 4,
        error: { message: 'Come back another day' },
      },
    ]);
    expect(await house.rows('select state from batch')).toEqual([{ state: 'failed' }]);
  });

  test('an invalid request fails at once with the provider’s error, and no other run fails', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'wrong' },
      outcome: { type: 'errored', error_type: 'invalid_request_error', message: 'messages.0: is no message' },
    });
    const batch = await house.submit([{ input: 'wrong' }, { input: 'right' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([
      {
        state: 'failed',
        stop_reason: 'invalid_request',
        attempt: 1,
        error: { message: 'messages.0: is no message' },
      },
      { state: 'completed', stop_reason: 'end_turn' },
    ]);
  });

  test('a request too long for the model ends its run as context_overflow if nothing in it can be summarised', async () => {
    house.simulator.control.addRule({
      op: 'request',
      outcome: {
        type: 'errored',
        error_type: 'invalid_request_error',
        message: 'prompt is too long: 250000 tokens > 200000 maximum',
      },
    });
    const batch = await house.submit([
      { input: 'long' },
      { input: 'long, and never summarised', agent: { compaction: { mode: 'none' } } },
    ]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([
      { stop_reason: 'context_overflow', attempt: 2 },
      { stop_reason: 'context_overflow', attempt: 1 },
    ]);
    // Once each: a refused request is not sent again unchanged.
    expect(house.simulator.control.ledger().totals.requests).toBe(0);
  });

  test('a request that the provider cancelled by itself pauses its batch, and is sent again after a resume', async () => {
    house.simulator.control.addRule({ op: 'request', match: { times: 1 }, outcome: { type: 'cancel' } });
    const batch = await house.submit([{ input: 'hello' }]);
    await house.drive(house.worker(), { hasten: true });
    expect(await house.rows('select state from batch')).toEqual([{ state: 'paused' }]);
    await inTransaction(house.database.db, (trx) => resumeBatch(trx, DEFAULT_PROJECT_ID, batch.id));
    await house.drive(house.worker(), { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', attempt: 2 }]);
  });
});

describe('answers cut off at max_tokens', () => {
  const notes = { blocks: { notes: 'old' }, tools: ['core_memory_append'] };
  const input = call('core_memory_append', { label: 'notes', content: 'more' });
  const cutOff = {
    type: 'script',
    script: 'maxTokensMidToolUse',
    args: { tool: 'core_memory_append' },
  } as const;

  test('inside a call: the step is sent again with twice the tokens, and the cut call is never made', async () => {
    house.simulator.control.addRule({ op: 'request', match: { times: 1 }, outcome: cutOff });
    const { provider, sent } = recording();
    const batch = await house.submit([{ input, ...notes }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', step_number: 2 }]);
    expect(await stepsOf(batch)).toEqual([
      { number: 1, attempt: 1, state: 'errored', max_tokens: 1024 },
      { number: 1, attempt: 2, state: 'done', max_tokens: 2048 },
      { number: 2, attempt: 1, state: 'done', max_tokens: 1024 },
    ]);
    expect(sent.map(({ params }) => params.max_tokens)).toEqual([1024, 2048, 1024]);
    expect(sent[1]?.params.messages).toEqual(sent[0]?.params.messages);
    expect(await house.rows('select tool_name, state from tool_call')).toEqual([
      { tool_name: 'core_memory_append', state: 'succeeded' },
    ]);
    // The cut answer was paid.
    const [paid] = await house.rows<{ cost: number }>(
      `select cost_nanousd::float8 as cost from step where state = 'errored'`,
    );
    expect(paid?.cost).toBeGreaterThan(0);
  });

  test('inside a call twice: the run ends as max_tokens, and no later request shows the open call', async () => {
    house.simulator.control.addRule({ op: 'request', match: { contains: 'twice' }, outcome: cutOff });
    const first = await house.submit([{ input: `twice\n${input}`, ...notes }]);
    await house.drive(house.worker());
    expect(await house.runsOf(first.id)).toMatchObject([
      { state: 'failed', stop_reason: 'max_tokens', attempt: 2 },
    ]);
    house.simulator.control.clearRules();
    const next = await house.submit([{ input: 'And now?', agent_id: first.agent_ids[0]! }]);
    await house.drive(house.worker());
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
  });

  test.each<[string, Partial<SubmittedRun>]>([
    ['the model’s maximum is reached', { max_tokens: 64_000 }],
    ['the window has no room for more', { max_tokens: 8_000, agent: { context_window_limit: 8_000 } }],
  ])('inside a call where %s: the request is not paid a second time', async (_why, run) => {
    house.simulator.control.addRule({ op: 'request', match: {}, outcome: cutOff });
    const { provider, sent } = recording();
    const batch = await house.submit([{ input, ...notes, ...run }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'failed', stop_reason: 'max_tokens', attempt: 1 },
    ]);
    expect(sent).toHaveLength(1);
  });

  test('in a text: the run ends as max_tokens and keeps the text', async () => {
    const batch = await house.submit([{ input: '⟦sim:maxTokensText⟧' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'failed', stop_reason: 'max_tokens' }]);
    const messages = await messagesOf(batch.run_ids[0]);
    expect(messages.at(-1)).toMatchObject({ role: 'assistant', content: [{ type: 'text' }] });
  });
});

describe('ends of a turn', () => {
  test('a refusal ends the run and is kept out of later requests', async () => {
    const { provider, sent } = recording();
    const batch = await house.submit([{ input: '⟦sim:refusal?mid=1⟧' }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'failed', stop_reason: 'refusal' }]);
    expect(await messagesOf(batch.run_ids[0])).toMatchObject([
      { role: 'user', shown: true },
      { role: 'assistant', shown: false, content: [{ type: 'text', text: 'Certainly. First you need' }] },
    ]);
    const next = await house.submit([
      { input: 'Something else ⟦sim:fixed?text=fine⟧', agent_id: batch.agent_ids[0]! },
    ]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    expect(JSON.stringify(sent.at(-1))).not.toContain('Certainly');
  });

  test('a paused turn goes on: its content is sent back unchanged, step after step', async () => {
    const { provider, sent } = recording();
    const batch = await house.submit([{ input: '⟦sim:pauseTurn?k=2⟧' }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', step_number: 3 }]);
    const messages = await messagesOf(batch.run_ids[0]);
    expect(messages.map((message) => message.content.map((block) => block.type).join())).toEqual([
      'text',
      'text,server_tool_use,web_search_tool_result',
      'text,server_tool_use,web_search_tool_result',
      'text',
    ]);
    expect(sent).toHaveLength(3);
    const shown = sent[2]!.params.messages.slice(1).flatMap((message) => message.content);
    expect(shown).toEqual(messages.slice(1, 3).flatMap((message) => message.content));
  });

  test('the web searches of a turn are booked at their price', async () => {
    const batch = await house.submit([{ input: '⟦sim:pauseTurn?k=2⟧' }]);
    await house.drive(house.worker());
    const [booked] = await house.rows<{ cost: number; tokens: Usage[] }>(
      `select sum(cost_nanousd)::float8 as cost, json_agg(json_build_object('input_tokens', input_tokens,
              'output_tokens', output_tokens, 'cache_write_5m_tokens', cache_write_5m_tokens,
              'cache_write_1h_tokens', cache_write_1h_tokens, 'cache_read_tokens', cache_read_tokens)) as tokens
         from step where run_id = $1`,
      [batch.run_ids[0]],
    );
    const model = 'claude-haiku-4-5';
    const ofTokens = booked!.tokens.map((usage) => batchCostNanoUsd(SHIPPED_PRICES, model, usage) ?? 0);
    expect(booked!.cost).toBe(ofTokens.reduce((sum, cost) => sum + cost, 0) + 2 * 10_000_000);
    expect(house.simulator.control.ledger().totals.usd).toBeCloseTo(booked!.cost / 1e9, 6);
  });

  test('pauses count as steps: max_steps ends an endlessly paused run', async () => {
    const batch = await house.submit([{ input: '⟦sim:pauseTurn?k=50⟧', max_steps: 2 }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed', stop_reason: 'max_steps', step_number: 2 },
    ]);
  });

  test('a stop sequence ends the run as stop_sequence', async () => {
    const batch = await house.submit([{ input: '⟦sim:stopSequence⟧' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed', stop_reason: 'stop_sequence' },
    ]);
  });

  test('a run without any words fails and leaves no empty message', async () => {
    const batch = await house.submit([{ input: '⟦sim:emptyEndTurn⟧' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'failed', stop_reason: 'loop_detected', step_number: 4 },
    ]);
    expect((await messagesOf(batch.run_ids[0])).map(({ role }) => role)).toEqual(Array(4).fill('user'));
    const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker());
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
  });

  test('an unknown stop reason ends the run with an error that names it', async () => {
    const batch = await house.submit([{ input: '⟦sim:unknownStopReason⟧' }]);
    await house.drive(house.worker());
    const [run] = await house.runsOf(batch.id);
    expect(run).toMatchObject({ state: 'failed', stop_reason: 'provider_error' });
    expect(run?.error?.message).toContain('quantum_decoherence');
  });

  test('a full context window ends the run as context_overflow, and its last answer is kept', async () => {
    const batch = await house.submit([{ input: '⟦sim:contextExceeded⟧' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'failed', stop_reason: 'context_overflow' },
    ]);
    // Nothing could be summarised. The paid answer is kept for readers, and no request shows it.
    const said = [{ type: 'text', text: 'The context window is full, so this is where it en' }];
    expect(
      await house.rows(
        'select role, content, shown, step_number from message where run_id = $1 order by seq',
        [batch.run_ids[0]],
      ),
    ).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: said, shown: false, step_number: null },
    ]);
  });
});

describe('content', () => {
  test('an unknown block type is kept and sent back byte for byte', async () => {
    const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
    const bodies: string[] = [];
    const provider: ProviderPort = {
      ...real,
      async createBatch(body, asked) {
        bodies.push(await body.text());
        return real.createBatch(body, asked);
      },
    };
    const batch = await house.submit([{ input: '⟦sim:unknownBlockType⟧' }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker({ provider }));
    const hologram = '{"type":"hologram","payload":{"z":1,"a":[1.5,null,"é"]},"opaque":"c2ltdWxhdG9y"}';
    expect(bodies[1]).toContain(hologram);
  });

  test('text that breaks naive stores and splitters comes back unchanged', async () => {
    const { provider, sent } = recording();
    const batch = await house.submit([{ input: '⟦sim:unicode⟧' }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    const next = await house.submit([{ input: 'And now? ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(next.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    const [said] = sent[1]!.params.messages[1]!.content as { text: string }[];
    expect(said?.text).toContain('separators:\u2028\u2029\u0085 emoji:😀👩‍👩‍👧‍👦');
    expect(said?.text).toContain('nul:\u0000 controls:\u0001\u001b\u007f bom:\ufeff');
    expect(said?.text).toContain('crlf:\r\n tab:\t');
    // Half a surrogate pair is stored as the model wrote it, but the provider refuses it.
    expect(said?.text).toContain('lone:\ufffd end');
    const [stored] = (await messagesOf(batch.run_ids[0])).filter(({ role }) => role === 'assistant');
    expect(stored?.content).toContain(String.raw`lone:\ud83d end`);
  });

  test('half a surrogate pair of any writer keeps no request of its batch from being sent', async () => {
    const { provider, sent } = recording();
    const half = 'half an emoji: \ud83d';
    const batch = await house.submit([
      { input: `${half} ⟦sim:fixed⟧` },
      { input: 'a whole one: 😀 ⟦sim:fixed⟧' },
      {
        input: `⟦sim:fixed?text={"${half}":1}⟧`,
        result_schema: { additionalProperties: false },
        max_steps: 2,
      },
    ]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed' },
      { state: 'completed' },
      { state: 'failed', stop_reason: 'max_steps', step_number: 2 },
    ]);
    expect(house.simulator.control.journal().entries.filter(({ op }) => op === 'create')).toMatchObject([
      { status: 200 },
      { status: 200 },
    ]);
    expect(JSON.stringify(sent)).toContain('half an emoji: \ufffd');
    expect(JSON.stringify(sent)).toContain('a whole one: 😀');
  });

  test('thinking is sent back with its signature, beside the results of the calls that followed', async () => {
    const batch = await house.submit([
      {
        input: '⟦sim:thinking?display=summarized&n=2⟧',
        blocks: { notes: '' },
        tools: ['core_memory_append'],
      },
    ]);
    await house.drive(house.worker());
    // The simulator checks signatures as the provider does, and refuses a changed conversation.
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', step_number: 3 }]);
  });

  test('blank texts are stored unchanged, and no request shows them', async () => {
    const { provider, sent } = recording();
    const run = { input: '⟦sim:blankTexts⟧', blocks: { notes: '' }, tools: ['core_memory_append'] };
    const batch = await house.submit([run]);
    await house.drive(house.worker({ provider }));
    const next = await house.submit([{ input: 'next ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker({ provider }));
    expect([...(await house.runsOf(batch.id)), ...(await house.runsOf(next.id))]).toMatchObject([
      { state: 'completed', step_number: 2 },
      { state: 'completed', step_number: 1 },
    ]);
    const stored = (await messagesOf(batch.run_ids[0])).filter(({ role }) => role === 'assistant');
    const kinds = (content: readonly unknown[]): unknown =>
      (content as MessageRow['content']).map(({ type, text }) => text ?? type);
    expect(stored.map(({ content }) => kinds(content))).toEqual([
      ['', 'tool_use', '\n'],
      [' \n', 'Done.', ''],
    ]);
    const shown = sent.at(-1)?.params.messages.filter(({ role }) => role === 'assistant');
    expect(shown?.map(({ content }) => kinds(content))).toEqual([['tool_use'], ['Done.']]);
    // A blank answer that an earlier release showed does no harm any more.
    await house.rows(
      `update message set content = '[{"type":"text","text":""}]' where run_id = $1 and seq = 4`,
      [batch.run_ids[0]],
    );
    const later = await house.submit([{ input: 'later ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker({ provider }));
    expect(await house.runsOf(later.id)).toMatchObject([{ state: 'completed' }]);
    expect(JSON.stringify(sent.at(-1)?.params.messages)).toContain('(nothing)');
  });

  test('the same call twice in an answer is made twice', async () => {
    const batch = await house.submit([
      {
        input: '⟦sim:duplicateToolUse?ids=distinct⟧',
        blocks: { notes: '' },
        tools: ['core_memory_append'],
      },
    ]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn', step_number: 2 }]);
  });

  test('two calls under the same id are neither made nor shown, and their agent goes on to its next run', async () => {
    const batch = await house.submit([
      { input: '⟦sim:duplicateToolUse⟧', blocks: { notes: 'old' }, tools: ['core_memory_append'] },
    ]);
    await house.drive(house.worker(), { hasten: true });
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'failed', stop_reason: 'unusable_answer', step_number: 1, attempt: 1 },
    ]);
    expect(await house.rows('select value from block_revision')).toEqual([{ value: 'old' }]);
    const next = await house.submit([{ input: 'next ⟦sim:fixed⟧', agent_id: batch.agent_ids[0]! }]);
    await house.drive(house.worker());
    expect(await house.runsOf(next.id)).toMatchObject([{ state: 'completed' }]);
  });

  test('a very long answer is applied', async () => {
    const batch = await house.submit([{ input: '⟦sim:hugeText?bytes=900000⟧' }]);
    await house.drive(house.worker());
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'end_turn' }]);
    const messages = await messagesOf(batch.run_ids[0]);
    expect((messages[1]?.content[0]?.['text'] as string).length).toBe(900_000);
  });

  test('a line that is too long affects only its own run', async () => {
    const batch = await house.submit([{ input: '⟦sim:hugeText?bytes=300000⟧' }, { input: 'short' }]);
    await house.drive(house.worker({ settings: { line_bytes_max: 100_000 } }), { hasten: true });
    const [huge, short] = await house.runsOf(batch.id);
    expect(huge).toMatchObject({ state: 'failed', stop_reason: 'unusable_answer', attempt: 1 });
    expect(short).toMatchObject({ state: 'completed' });
  });
});
