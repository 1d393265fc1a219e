import type {} from '../../../../test/global-setup.ts';
import { createHash } from 'node:crypto';
import { stepUuid, toCustomId } from '@nightshift/agent-core';
import { DEFAULT_PROJECT_ID, deleteBlock, inTransaction, resetMessages, writeBlock } from '@nightshift/db';
import { rebuildRequest } from '@nightshift/intake';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { longestHoldMsOf } from '../../../../test/cpu-time.ts';
import { composeProviderBatch } from '../../src/flows/compose-provider-batch/compose-provider-batch.ts';
import type { FlowDeps } from '../../src/flow-parts/deps.ts';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import { openHouseApi, type HouseApi } from './house-api.ts';
import { answering, call, noted, openHouse, script, type House, type SubmittedBatch } from './house.ts';

let house: House;
let api: HouseApi;
let worker: FlowDeps;
/** The bodies that were sent. */
let bodies: string[];
/** Runs while the provider batch with this place is away. */
let during: (create: number) => Promise<void>;

beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    simulator: { settings: { cache_miss: 0 } },
    modules: ['look', 'judge'].map((name) => ({
      name,
      description: `Does: ${name}.`,
      input_schema: { type: 'object', properties: { n: { type: 'integer' } } },
      side_effects: 'none' as const,
      return_char_limit: 10_000,
      timeout_ms: 1_000,
    })),
  });
  api = await openHouseApi(house.database.db);
  bodies = [];
  during = () => Promise.resolve();
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  worker = house.worker({
    provider: {
      ...real,
      async createBatch(body, asked) {
        bodies.push(await body.text());
        await during(bodies.length);
        return real.createBatch(body, asked);
      },
    },
    tools: answering(({ tool_name }) => (tool_name === 'judge' ? 'good' : 'seen')),
  });
});
afterEach(async () => {
  await api.close();
  await house.close();
});

interface StepRow {
  readonly provider_batch_id: string;
  readonly nonce: string;
  readonly run_id: string;
  readonly number: number;
  readonly attempt: number;
  readonly is_summary: boolean;
}

const stepsOf = (where = 'true') =>
  house.rows<StepRow>(`
    select s.provider_batch_id, p.nonce, s.run_id, s.number, s.attempt, s.is_summary
      from step s join provider_batch p on p.id = s.provider_batch_id where ${where} order by s.provider_batch_id, s.ordinal`);

const requestOf = (step: StepRow) => api.call('GET', `/v1/steps/step-${stepUuid(step)}/request`);

/** Rebuilds all requests through the API, and compares them with the bodies that were sent. */
async function expectRebuilt(): Promise<readonly StepRow[]> {
  const steps = await stepsOf();
  const rebuilt = new Map<string, string[]>();
  for (const step of steps) {
    const { status, text, body } = await requestOf(step);
    expect({ status, body }).toMatchObject({ status: 200, body: { is_exact: true, inexact_because: [] } });
    const params = text.slice(text.indexOf(',"request":') + ',"request":'.length, -1);
    expect(body).toMatchObject({
      bytes: Buffer.byteLength(params),
      sha256: createHash('sha256').update(params).digest('hex'),
    });
    const line = `{"custom_id":"${toCustomId(step.nonce, step)}","params":${params}}`;
    rebuilt.set(step.provider_batch_id, [...(rebuilt.get(step.provider_batch_id) ?? []), line]);
  }
  const all = [...rebuilt.values()].map((lines) => `{"requests":[${lines.join(',')}]}`);
  expect(all.sort()).toEqual(bodies.toSorted());
  return steps;
}

/** Does all that may change rows that a request was built from. */
async function goOn({ agent_ids: [agent_id = ''] }: SubmittedBatch): Promise<void> {
  const { db } = house.database;
  const blocks = await house.rows<{ id: string; revision: number }>(
    'select b.id, b.head_revision as revision from agent_block k join block b on b.id = k.block_id where k.agent_id = $1',
    [agent_id],
  );
  for (const { id, revision } of blocks)
    await inTransaction(db, (trx) =>
      writeBlock(trx, id, revision, noted({ label: 'later', value: 'later' })),
    );
  await house.submit([{ input: 'And then?', agent_id }]);
  await house.drive(worker);
  await inTransaction(db, async (trx) => {
    await resetMessages(trx, DEFAULT_PROJECT_ID, agent_id);
    for (const { id } of blocks) await deleteBlock(trx, DEFAULT_PROJECT_ID, id);
  });
}

const append = (content: string): string => call('core_memory_append', { label: 'notes', content });
/** Beyond the model's smallest cacheable prefix. */
const LONG = 'S'.repeat(20_000);

describe('the request of a step has the bytes that were sent', () => {
  test('for first and later steps, a memory that others have changed, and a retry, whatever came after', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'mine', times: 1 },
      outcome: { type: 'errored', error_type: 'api_error', message: 'Internal server error' },
    });
    const batch = await house.submit([
      {
        input: [call('look', { n: 1 }), append('mine'), call('look', { n: 2 })].join('\n'),
        blocks: { notes: 'first' },
        tools: ['core_memory_append', 'look'],
      },
    ]);
    during = async (create) => {
      if (create !== 1) return;
      const [block] = await house.rows<{ id: string }>('select id from block');
      await inTransaction(house.database.db, (trx) =>
        writeBlock(trx, block?.id ?? '', 1, noted({ value: 'first\nby a person' })),
      );
    };
    await house.drive(worker, { hasten: true });
    expect(bodies.filter((body) => body.includes('<memory_update>')).length).toBeGreaterThan(0);
    await goOn(batch);
    const steps = await expectRebuilt();
    expect(steps.some(({ attempt }) => attempt > 1)).toBe(true);
    expect(steps.filter(({ run_id }) => run_id === batch.run_ids[0]).length).toBeGreaterThan(4);
  });

  test('for the request of a summary, and for requests that show the summary', async () => {
    const filler = (name: string): string => `${name}: ${'x'.repeat(1_000)}`;
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: '<transcript>' },
      outcome: {
        type: 'script',
        script: 'fixed',
        args: { text: ['Two notes are written.', append('two'), append('three')].join('\n') },
      },
    });
    const batch = await house.submit([
      {
        input: [
          filler('preamble').repeat(2),
          ...[filler('one'), filler('two'), filler('three')].map(append),
        ].join('\n'),
        blocks: { notes: '' },
        tools: ['core_memory_append'],
        agent: { context_window_limit: 4_400 },
      },
    ]);
    await house.drive(worker);
    await goOn(batch);
    const steps = await expectRebuilt();
    const summary = steps.findIndex(({ is_summary }) => is_summary);
    expect(summary).toBeGreaterThan(0);
    const { body } = await requestOf(steps[summary + 1]!);
    const shown = (body as { parts: { part: string; tokens: number }[] }).parts.find(
      ({ part }) => part === 'summary',
    );
    expect(shown?.tokens).toBeGreaterThan(0);
  });

  test('with its cache marks, and says which tokens the cache held', async () => {
    await house.submit(
      Array.from({ length: 12 }, (_, n) => ({
        input: [
          `task ${n}`,
          call('look', { n }),
          call('look', { n: n + 1 }),
          call('look', { n: n + 2 }),
        ].join('\n'),
        tools: ['look'],
        blocks: { notes: `${n} `.repeat(2_000) },
        agent: { system: LONG },
      })),
    );
    await house.drive(worker);
    expect(bodies.filter((body) => body.includes('"cache_control"')).length).toBeGreaterThan(2);
    const steps = await expectRebuilt();
    const { body } = await requestOf(steps.at(-1)!);
    const { parts, tokens } = body as {
      readonly tokens: number;
      readonly parts: readonly {
        readonly part: string;
        readonly tokens: number;
        readonly cache_read_tokens: number;
      }[];
    };
    expect(parts.map(({ part }) => part)).toEqual(['tools', 'system', 'memory', 'summary', 'messages']);
    expect(parts.reduce((sum, part) => sum + part.tokens, 0)).toBe(tokens);
    const system = parts.find(({ part }) => part === 'system');
    expect(system?.tokens).toBeGreaterThan(1_000);
    expect(system?.cache_read_tokens).toBe(system?.tokens);
  });

  test('for runs whose end has hidden their messages, without the answers that were never shown', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'seen' },
      outcome: { type: 'errored', error_type: 'invalid_request_error', message: 'It is refused.' },
    });
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'Look', times: 1 },
      outcome: { type: 'script', script: 'emptyEndTurn', args: {} },
    });
    const input = `Look. ${script({ tool: 'look' }, { text: 'Done.' })}`;
    const batch = await house.submit([{ input, tools: ['look'] }]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([{ stop_reason: 'invalid_request', step_number: 3 }]);
    expect(await house.rows('select 1 from message where shown')).toEqual([]);
    await expectRebuilt();
  });

  test('with the tool that its rules forced', async () => {
    const batch = await house.submit([
      {
        input: script({ tool: 'judge' }, { tool: 'look' }, { tool: 'look' }, { text: 'Done.' }),
        tools: ['look', 'judge'],
        tool_rules: [
          { type: 'run_first', tool_name: 'judge' },
          { type: 'conditional', tool_name: 'judge', child_output_mapping: { good: 'look' } },
        ],
      },
    ]);
    await house.drive(worker);
    expect(bodies.filter((body) => body.includes('"tool_choice":{"type":"tool"'))).toHaveLength(2);
    await goOn(batch);
    await expectRebuilt();
  });
});

test('a request of 32 MB holds the event loop for at most 200 ms', async () => {
  await house.submit([{ input: 'Hello.' }]);
  await house.drive(worker);
  await house.rows(
    `update message set role = 'user', content = json_build_array(json_build_object('type', 'text', 'text', repeat('abcd"é', 4000000)))`,
  );
  const [step] = await stepsOf();
  let bytes = 0;
  const held = await longestHoldMsOf(async () => {
    const rebuilt = await rebuildRequest(house.database.db, step!);
    bytes = rebuilt?.bytes.messages ?? 0;
  });
  expect(bytes).toBeGreaterThan(32_000_000);
  expect(held).toBeLessThan(200);
});

describe('a request that is not the one sent says why', () => {
  test('it waits to be sent', async () => {
    await house.submit([{ input: 'Hello.' }]);
    await composeProviderBatch(worker);
    const [step] = await stepsOf();
    const { body } = await requestOf(step!);
    expect(body).toMatchObject({
      sent_at: null,
      is_exact: false,
      inexact_because: ['not_sent'],
      tokens: null,
      request: { model: 'claude-haiku-4-5', max_tokens: 1024 },
    });
  });

  test('an earlier release kept neither cache marks nor labels', async () => {
    await house.submit([{ input: 'Hello.', blocks: { notes: 'first' } }]);
    await house.drive(worker);
    await house.rows('update provider_batch set cache_marks = null');
    await house.rows('update step set block_labels = null');
    const [step] = await stepsOf();
    expect((await requestOf(step!)).body).toMatchObject({
      is_exact: false,
      inexact_because: ['cache_marks_not_kept', 'labels_not_kept'],
    });
  });

  test('the memory counts earlier messages, and the conversation was reset since', async () => {
    const first = await house.submit([{ input: 'Hello.', tools: ['conversation_search'] }]);
    const [agent_id = ''] = first.agent_ids;
    await house.drive(worker);
    await inTransaction(house.database.db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent_id));
    const second = await house.submit([{ input: 'Hello again.', agent_id }]);
    await house.drive(worker);
    await expectRebuilt();
    await inTransaction(house.database.db, (trx) => resetMessages(trx, DEFAULT_PROJECT_ID, agent_id));
    const [step] = await stepsOf(`s.run_id = '${second.run_ids[0] ?? ''}'`);
    expect((await requestOf(step!)).body).toMatchObject({ inexact_because: ['conversation_reset'] });
  });
});
