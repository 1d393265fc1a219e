import type {} from '../../../../test/global-setup.ts';
import { auditInvariants } from '@nightshift/db';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { anthropicProvider } from '../../src/provider/anthropic.ts';
import type { ProviderPort } from '../../src/provider/port.ts';
import { call, openHouse, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'));
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

/** A provider that records the messages of every request in order. */
function recording(): { provider: ProviderPort; sent: string[] } {
  const real = anthropicProvider({ apiKey: 'test-key', baseURL: house.simulator.apiUrl });
  const sent: string[] = [];
  return {
    sent,
    provider: {
      ...real,
      async createBatch(body, asked) {
        const { requests } = JSON.parse(await body.text()) as {
          requests: { params: { messages: unknown } }[];
        };
        sent.push(...requests.map(({ params }) => JSON.stringify(params.messages)));
        return real.createBatch(body, asked);
      },
    },
  };
}

const setAgent = (agentId: string | undefined, assignment: string) =>
  house.rows(`update agent set ${assignment} where id = $1`, [agentId]);

describe('a run that fails because of its content', () => {
  test.each([
    ['invalid_request', 'messages.0: is no message'],
    ['context_overflow', 'prompt is too long: 300000 tokens > 200000 maximum'],
  ] as const)(
    'as %s does not block its agent: later requests do not show it',
    async (stop_reason, message) => {
      house.simulator.control.addRule({
        op: 'request',
        match: { contains: 'the bad part' },
        outcome: { type: 'errored', error_type: 'invalid_request_error', message },
      });
      const { provider, sent } = recording();
      const worker = house.worker({ provider });
      const good = await house.submit([{ input: 'the good part ⟦sim:fixed⟧' }]);
      await house.drive(worker);
      const agent_id = good.agent_ids[0]!;
      // The second run waits for the first.
      const bad = await house.submit([
        { input: 'the bad part', agent_id },
        { input: 'the next part ⟦sim:fixed⟧', agent_id },
      ]);
      await house.drive(worker);
      expect(await house.runsOf(bad.id)).toMatchObject([
        { state: 'failed', stop_reason },
        { state: 'completed', stop_reason: 'end_turn' },
      ]);
      expect(sent.at(-1)).toContain('the good part');
      expect(sent.at(-1)).toContain('the next part');
      expect(sent.at(-1)).not.toContain('the bad part');
      // Kept, to show the cause of the failure.
      const kept = await house.rows('select shown from message where run_id = $1', [bad.run_ids[0]]);
      expect(kept).toEqual([{ shown: false }]);
    },
  );

  test('hides its calls and results as well', async () => {
    house.simulator.control.addRule({
      op: 'request',
      match: { contains: 'tool_result' },
      outcome: {
        type: 'errored',
        error_type: 'invalid_request_error',
        message: 'prompt is too long: 9 tokens > 8 maximum',
      },
    });
    const worker = house.worker();
    const batch = await house.submit([
      {
        input: call('core_memory_append', { label: 'notes', content: 'x' }),
        blocks: { notes: 'old' },
        tools: ['core_memory_append'],
      },
    ]);
    await house.drive(worker);
    const [run] = await house.runsOf(batch.id);
    expect(run).toMatchObject({ state: 'failed', stop_reason: 'context_overflow' });
    const shown = await house.rows('select 1 from message where shown');
    expect(shown).toEqual([]);
  });
});

describe('an agent that clears its message buffer', () => {
  test('starts every run empty, including a run that waited for the run before', async () => {
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const first = await house.submit([{ input: 'the first night ⟦sim:fixed⟧' }]);
    const agent_id = first.agent_ids[0]!;
    await setAgent(agent_id, 'message_buffer_autoclear = true');
    await house.submit([{ input: 'the second night ⟦sim:fixed⟧', agent_id }]);
    await house.drive(worker);
    await house.submit([{ input: 'the third night ⟦sim:fixed⟧', agent_id }]);
    await house.drive(worker);
    expect(sent).toHaveLength(3);
    expect(sent[1]).toContain('the second night');
    expect(sent[1]).not.toContain('the first night');
    expect(sent[2]).toContain('the third night');
    expect(sent[2]).not.toMatch(/the (first|second) night/);
    expect(await house.rows('select count(*)::int as count from message where shown')).toEqual([
      { count: 6 },
    ]);
  });

  test('forgets a cancelled run as well', async () => {
    const { provider, sent } = recording();
    const worker = house.worker({ provider });
    const first = await house.submit([{ input: 'the first night ⟦sim:fixed⟧' }]);
    const agent_id = first.agent_ids[0]!;
    await setAgent(agent_id, 'message_buffer_autoclear = true');
    await house.cancel(first.id);
    await house.drive(worker);
    await house.submit([{ input: 'the second night ⟦sim:fixed⟧', agent_id }]);
    await house.drive(worker);
    expect(sent).toHaveLength(1);
    expect(sent[0]).not.toContain('the first night');
  });
});

describe('a system message', () => {
  const alert = (message: string): object => ({
    role: 'user',
    content: [{ type: 'text', text: JSON.stringify({ type: 'system_alert', message }) }],
  });

  test.each(['haiku-4-5', 'sonnet-5', 'opus-5-5'])(
    'is shown to %s as a user alert at any position, and stored as a system message',
    async (model) => {
      const { provider, sent } = recording();
      const worker = house.worker({ provider });
      const first = await house.submit([
        {
          input: 'Hello. ⟦sim:fixed⟧',
          alerts: ['Night has come.', 'Be brief.'],
          model: `anthropic/claude-${model}`,
        },
      ]);
      await house.drive(worker);
      const agent_id = first.agent_ids[0]!;
      const next = await house.submit([{ input: 'And now?', alerts: ['Morning has come.'], agent_id }]);
      await house.drive(worker);
      for (const { id } of [first, next])
        expect(await house.runsOf(id)).toMatchObject([{ stop_reason: 'end_turn', error: null }]);
      const [before = '', shown = ''] = sent;
      expect((JSON.parse(before) as unknown[]).slice(0, 2)).toEqual([
        alert('Night has come.'),
        alert('Be brief.'),
      ]);
      const messages = JSON.parse(shown) as { role: string }[];
      expect(shown.startsWith(before.slice(0, -1))).toBe(true);
      expect(messages.map(({ role }) => role).join(' ')).toBe('user user user assistant user user');
      expect(messages[4]).toEqual(alert('Morning has come.'));
      expect(await house.rows(`select content from message where role = 'system' order by seq`)).toEqual(
        ['Night has come.', 'Be brief.', 'Morning has come.'].map((text) => ({
          content: [{ type: 'text', text }],
        })),
      );
    },
  );
});

describe('an exit_loop rule', () => {
  // The second run starts empty, so it has its own script.
  const EXIT = `message_buffer_autoclear = true, tool_rules = '[{"type":"exit_loop","tool_name":"core_memory_append"}]'`;

  test('ends the run after its tool succeeded, with the result stored', async () => {
    const worker = house.worker();
    const first = await house.submit([
      { input: '⟦sim:fixed⟧', blocks: { notes: '' }, tools: ['core_memory_append', 'memory_replace'] },
    ]);
    const agent_id = first.agent_ids[0]!;
    await setAgent(agent_id, EXIT);
    await house.drive(worker);
    const batch = await house.submit([
      {
        agent_id,
        input: [
          call('core_memory_append', { label: 'nowhere', content: 'x' }),
          call('core_memory_append', { label: 'notes', content: 'kept' }),
          call('core_memory_append', { label: 'notes', content: 'never' }),
        ].join('\n'),
      },
    ]);
    await house.drive(worker);
    expect(await house.runsOf(batch.id)).toMatchObject([
      { state: 'completed', stop_reason: 'tool_rule', step_number: 2, error: null },
    ]);
    const [block] = await house.rows<{ value: string }>(
      'select value from block_revision order by revision desc limit 1',
    );
    expect(block?.value).toBe('\nkept');
    const steps = await house.rows('select state from step where run_id = $1 order by number', [
      batch.run_ids[0],
    ]);
    expect(steps).toEqual([{ state: 'done' }, { state: 'done' }]);
  });
});
