import type {} from '../../../../test/global-setup.ts';
import {
  appendMessages,
  auditInvariants,
  DEFAULT_PROJECT_ID,
  inTransaction,
  type AppendReport,
} from '@nightshift/db';
import { afterEach, beforeEach, expect, inject, test } from 'vitest';
import type { ProviderPort } from '../../src/provider/port.ts';
import { answering, call, openHouse, recording, script, type House, type SentParams } from './house.ts';

/** Conversations with appended messages, sent to a provider that validates strictly. */

let house: House;
beforeEach(async () => {
  house = await openHouse(inject('postgresUrl'), {
    modules: [
      {
        name: 'look',
        description: 'Looks.',
        input_schema: { type: 'object', properties: { n: { type: 'integer' } } },
        side_effects: 'none',
        return_char_limit: 10_000,
        timeout_ms: 1_000,
      },
    ],
  });
});
afterEach(async () => {
  expect(await auditInvariants(house.database.db)).toEqual([]);
  await house.close();
});

type Line = readonly [role: 'user' | 'assistant' | 'system', text: string];

const append = (agent_id: string, ...lines: readonly Line[]): Promise<AppendReport> =>
  inTransaction(house.database.db, (trx) =>
    appendMessages(trx, DEFAULT_PROJECT_ID, [
      {
        agent_id,
        path: '',
        messages: lines.map(([role, text]) => ({
          role,
          content: [{ type: 'text', text }],
          otid: null,
          name: null,
          said_at: null,
        })),
      },
    ]),
  );

/** Makes an agent with an ended run. */
async function oldAgent(parts: object = {}): Promise<string> {
  const batch = await house.submit([{ input: '⟦sim:fixed?text=Hello.⟧', ...parts }]);
  await house.drive(house.worker());
  return batch.agent_ids[0]!;
}

const linesOf = ({ messages }: SentParams) =>
  messages.map(({ role, content }) => [
    role,
    content.map((block) => (block.type === 'text' ? (block['text'] as string) : block.type)).join(' '),
  ]);

const alert = (message: string) => JSON.stringify({ type: 'system_alert', message });

test.each([{}, { model: 'anthropic/claude-sonnet-4-6', extra: { thinking: { type: 'adaptive' } } }])(
  'in any order of roles make a valid request (%j)',
  async (parts) => {
    const agent_id = await oldAgent(parts);
    await house.rows('update conversation set context_from_seq = 3');
    const lines: readonly Line[] = [
      ['assistant', 'Good morning.'],
      ['assistant', 'Anyone there?'],
      ['user', 'Yes.'],
      ['system', 'The line broke.'],
      ['user', 'And I am back.'],
      ['assistant', 'Fine. '],
    ];
    await append(agent_id, ...lines);
    const { provider, sent } = recording(house);
    const batch = await house.submit([{ input: call('look', { n: 1 }), agent_id, tools: [] }]);
    await house.drive(house.worker({ provider, tools: answering() }));
    expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }]);
    expect(linesOf(sent[0]!).slice(0, -1)).toEqual([
      ['user', alert('The conversation begins here.')],
      ...lines.map(([role, text]) => (role === 'system' ? ['user', alert(text)] : [role, text])),
    ]);
  },
);

test('between every step of a run with calls are not lost, and come before the next input', async () => {
  const told: string[] = [];
  let agent_id = '';
  const tell = async (): Promise<void> => {
    const text = `line ${told.length}`;
    told.push(text);
    expect(await append(agent_id, [told.length % 2 === 0 ? 'user' : 'assistant', text])).toMatchObject({
      waiting: 1,
    });
  };
  const { provider: real, sent } = recording(house);
  const provider: ProviderPort = {
    ...real,
    async createBatch(body, asked) {
      if (sent.length < 3) await tell();
      return real.createBatch(body, asked);
    },
  };
  const tools = answering();
  const telling = {
    ...tools,
    runCalls: async (...args: Parameters<typeof tools.runCalls>) => {
      await tell();
      return tools.runCalls(...args);
    },
  };
  const first = await house.submit([
    {
      input: script(
        [
          { tool: 'look', args: { n: 1 } },
          { tool: 'look', args: { n: 2 } },
        ],
        { tool: 'look' },
        { text: 'Done.' },
      ),
      tools: ['look'],
    },
  ]);
  agent_id = first.agent_ids[0]!;
  const second = await house.submit([{ input: 'next ⟦sim:fixed?text=Bye.⟧', agent_id }]);
  await house.drive(house.worker({ provider, tools: telling }), { rounds: 1_000 });
  for (const { id } of [first, second])
    expect(await house.runsOf(id)).toMatchObject([{ state: 'completed' }]);
  expect(told).toHaveLength(5);
  const texts = linesOf(sent.at(-1)!).map(([, text]) => text);
  expect(texts.slice(1)).toEqual([
    ...['tool_use tool_use', 'tool_result tool_result', 'tool_use', 'tool_result', 'Done.'],
    ...told,
    'next ⟦sim:fixed?text=Bye.⟧',
  ]);
  expect(await house.rows('select 1 from waiting_message')).toEqual([]);
});

test('are summarised like any other message', async () => {
  const agent_id = await oldAgent({ agent: { context_window_limit: 4_400 } });
  const filler = 'x'.repeat(1_000);
  await append(
    agent_id,
    ...Array.from({ length: 20 }, (_, n): Line => [n % 3 === 0 ? 'user' : 'assistant', `${n}: ${filler}`]),
  );
  house.simulator.control.addRule({
    op: 'request',
    match: { contains: '<transcript>' },
    outcome: { type: 'script', script: 'fixed', args: { text: 'They talked.' } },
  });
  const { provider, sent } = recording(house);
  const batch = await house.submit([{ input: 'go ⟦sim:fixed?text=Bye.⟧', agent_id }]);
  await house.drive(house.worker({ provider }));
  expect(await house.runsOf(batch.id)).toMatchObject([{ state: 'completed' }]);
  expect(JSON.stringify(sent[0])).toContain('assistant: 1: xxx');
  expect(JSON.stringify(sent.at(-1)!.messages)).toContain('They talked.');
  expect(JSON.stringify(sent.at(-1)!.messages)).not.toContain('1: xxx');
});
