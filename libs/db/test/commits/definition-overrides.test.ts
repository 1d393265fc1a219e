import type { ModelSettings, ToolChoice } from '@nightshift/agent-core';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  createAgents,
  DEFAULT_PROJECT_ID,
  findTools,
  inTransaction,
  readAgentDefinitions,
  readDefinitions,
  registerMemoryTools,
  requestedDefinitions,
  type NewAgent,
  type NewRun,
} from '../../src/index.ts';
import { acceptBatch, openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';
import { aBatch, aClientTool, anAgent, aRun } from '../factories.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  await inTransaction(database.db, (trx) => registerMemoryTools(trx, DEFAULT_PROJECT_ID));
});
afterAll(() => database.close());

/** Accepts a batch and reads the frozen definition of each run. */
async function freeze(agents: readonly NewAgent[], runs: readonly NewRun[]) {
  const batch = aBatch(runs);
  await inTransaction(database.db, async (trx) => {
    await createAgents(trx, DEFAULT_PROJECT_ID, agents);
    await acceptBatch(trx, DEFAULT_PROJECT_ID, batch);
  });
  const rows = await database.db
    .selectFrom('run')
    .select('definition_id')
    .where('batch_id', '=', batch.id)
    .orderBy('ordinal')
    .execute();
  const stored = await readDefinitions(
    database.db,
    rows.map((row) => row.definition_id),
  );
  return rows.map((row) => stored.find(({ id }) => id === row.definition_id)!);
}

const REWRITE = {
  isolated: true,
  system: 'Rewrite the memory.',
  memory_tools_only: true,
  result_format: 'none',
  writable_labels: ['summary', 'plans'],
} as const;

describe('the overrides of a run', () => {
  test('replace the prompt, tools and rules of unequal agents, so that all of them share a definition', async () => {
    const rule = [{ type: 'exit_loop', tool_name: 'memory' }];
    const agents = [
      anAgent({ system: 'One.' }),
      anAgent({ system: 'Two.', agent_type: 'react_agent', tool_rules: rule }),
      anAgent({ system: 'Three.' }),
    ];
    const frozen = await freeze(
      agents,
      agents.map(({ id }) => ({ ...aRun(id), ...REWRITE, writable_labels: ['summary', 'plans'] })),
    );
    expect(new Set(frozen.map(({ id }) => id)).size).toBe(1);
    expect(frozen[0]).toMatchObject({
      agent_type: 'sleeptime_agent',
      system: 'Rewrite the memory.',
      model: 'anthropic/claude-haiku-4-5',
      tool_rules: [],
      result_format: null,
      writable_labels: ['plans', 'summary'],
    });
    expect(frozen[0]!.tools.map(({ name }) => name)).toEqual([
      'memory_insert',
      'memory_replace',
      'memory_rethink',
    ]);
  });

  test('are part of the definition’s id, each by itself', async () => {
    const agent = anAgent();
    const base = { ...aRun(agent.id), isolated: true };
    const frozen = await freeze(
      [agent],
      [
        base,
        { ...base, model: 'anthropic/claude-sonnet-4-5' },
        { ...base, system: 'x' },
        { ...base, memory_tools_only: true },
        { ...base, writable_labels: [] },
        { ...base, writable_labels: ['b', 'a'] },
        { ...base, writable_labels: ['a', 'b', 'a'] },
        { ...base, writable_labels: ['a'] },
        base,
      ],
    );
    const ids = frozen.map(({ id }) => id);
    expect(ids[0]).toBe(ids[8]);
    expect(ids[5]).toBe(ids[6]);
    expect(new Set(ids).size).toBe(7);
    expect(frozen.map(({ writable_labels }) => writable_labels)).toEqual([
      ...Array<null>(4).fill(null),
      [],
      ['a', 'b'],
      ['a', 'b'],
      ['a'],
      null,
    ]);
  });

  test('are read without a stored definition as they would be frozen', async () => {
    const agent = anAgent();
    const runs = [{ ...aRun(agent.id), ...REWRITE }];
    const [frozen] = await freeze([agent], runs);
    const read = await readAgentDefinitions(database.db, DEFAULT_PROJECT_ID, requestedDefinitions(runs));
    expect([...read.values()].map(({ definition }) => definition)).toEqual([frozen]);
  });
});

describe('the choice of tools of a run', () => {
  const tools = ['conversation_search', 'memory_insert', 'memory_replace'];
  const choose = (choice: Partial<ToolChoice>): ToolChoice => ({
    ...{ add: [], remove: [], only: null },
    ...choice,
  });
  /** Freezes a run for each choice; null: none. */
  async function namesUnder(choices: readonly (ToolChoice | null)[], more: Partial<NewRun> = {}) {
    const known = await findTools(database.db, DEFAULT_PROJECT_ID, { names: tools, ids: [] });
    const agent = anAgent({ tool_ids: tools.map((name) => known.find((tool) => tool.name === name)!.id) });
    const frozen = await freeze(
      [agent],
      choices.map((choice) => ({ ...aRun(agent.id), isolated: true, tools: choice, ...more })),
    );
    return frozen.map(({ id, tools }) => ({ id, names: tools.map(({ name }) => name) }));
  }

  test('adds in the given order, takes away, and keeps alone; the others of the batch are as their agent is', async () => {
    const frozen = await namesUnder([
      null,
      choose({ add: ['memory_rethink', 'memory_insert', 'archival_memory_insert'] }),
      choose({ remove: ['memory_insert', 'memory_rethink'] }),
      choose({
        only: ['memory_rethink', 'memory_replace'],
        add: ['memory_rethink', 'archival_memory_insert'],
      }),
      choose({ add: ['memory_rethink'], remove: tools }),
      choose({ remove: tools }),
    ]);
    expect(frozen.map(({ names }) => names)).toEqual([
      tools,
      [...tools, 'memory_rethink', 'archival_memory_insert'],
      ['conversation_search', 'memory_replace'],
      ['memory_replace', 'memory_rethink'],
      ['memory_rethink'],
      [],
    ]);
  });

  test('is part of the definition: equal choices share a row, in whatever order they take away', async () => {
    const frozen = await namesUnder([
      choose({ remove: ['memory_insert', 'memory_replace'] }),
      choose({ remove: ['memory_replace', 'memory_insert'] }),
      choose({ only: ['memory_insert', 'memory_replace'] }),
      choose({ only: ['memory_replace', 'memory_insert'] }),
      choose({ add: ['memory_rethink', 'archival_memory_insert'] }),
      choose({ add: ['archival_memory_insert', 'memory_rethink'] }),
    ]);
    const [a, b, c, d, e, f] = frozen.map(({ id }) => id);
    expect([a === b, c === d, e === f]).toEqual([true, true, false]);
    expect(new Set(frozen.map(({ id }) => id)).size).toBe(4);
  });

  test('goes before client tools, which may replace a tool that it takes away', async () => {
    const [frozen] = await namesUnder([choose({ add: ['memory_rethink'], remove: ['memory_insert'] })], {
      client_tools: [aClientTool('memory_insert')],
    });
    expect(frozen!.names).toEqual([
      'conversation_search',
      'memory_replace',
      'memory_rethink',
      'memory_insert',
    ]);
  });

  test('is read without a stored definition as it would be frozen', async () => {
    const agent = anAgent();
    const runs = [{ ...aRun(agent.id), tools: choose({ add: ['memory_rethink'] }) }];
    const [frozen] = await freeze([agent], runs);
    const read = await readAgentDefinitions(database.db, DEFAULT_PROJECT_ID, requestedDefinitions(runs));
    expect([...read.values()].map(({ definition }) => definition)).toEqual([frozen]);
  });
});

const settings = (thinking: object | null, max_output_tokens = 8192): ModelSettings => ({
  max_output_tokens,
  parallel_tool_calls: false,
  extra: { output_config: { effort: 'low' }, ...(thinking === null ? {} : { thinking: { ...thinking } }) },
});
const HAIKU = 'anthropic/claude-haiku-4-5';
const SONNET = 'anthropic/claude-sonnet-4-6';
const LATEST = 'anthropic/claude-opus-5-5';

describe('the settings of an agent under another model', () => {
  const budget = { type: 'enabled', budget_tokens: 1_024 };
  const adaptive = { type: 'adaptive' };
  test.each<[string, string, ModelSettings, ModelSettings]>([
    ['without thinking stay', LATEST, settings(null), settings(null)],
    ['with a budget stay where it is taken', HAIKU, settings(budget), settings(budget)],
    ['with a budget become adaptive', LATEST, settings(budget), settings(adaptive)],
    ['that are adaptive stay where both are taken', SONNET, settings(adaptive), settings(adaptive)],
    ['that are adaptive get a budget', HAIKU, settings(adaptive), settings(budget)],
    ['get room for the budget', HAIKU, settings(adaptive, 500), settings(budget, 2_048)],
    [
      'without thinking by choice stay',
      HAIKU,
      settings({ type: 'disabled' }),
      settings({ type: 'disabled' }),
    ],
    ['think where the model always does', LATEST, settings({ type: 'disabled' }), settings(adaptive)],
    [
      'keep other members of thinking',
      LATEST,
      settings({ ...budget, display: 'omitted' }),
      settings({ display: 'omitted', ...adaptive }),
    ],
  ])('%s', async (_what, model, model_settings, expected) => {
    const agent = anAgent({ model_settings, model: model === HAIKU ? LATEST : HAIKU });
    const [frozen] = await freeze([agent], [{ ...aRun(agent.id), model }]);
    expect(frozen).toMatchObject({ model });
    expect(frozen!.model_settings).toEqual(expected);
  });

  test('stay as they are without another model', async () => {
    const agent = anAgent({ model: LATEST, model_settings: settings(budget) });
    const [frozen] = await freeze([agent], [aRun(agent.id)]);
    expect(frozen!.model_settings).toEqual(settings(budget));
  });
});
