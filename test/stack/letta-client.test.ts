import type {} from '../global-setup.ts';
import { Letta } from '@letta-ai/letta-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPythonJail } from '../../libs/python-jail/src/index.ts';
import { newWork, openStackHouse, type StackHouse } from './house.ts';

/** Why uploaded Python cannot run here; undefined where it can. */
const noJail = await openPythonJail().then(
  (jail) => jail.close(),
  (error: unknown) => String(error),
);
if (noJail !== undefined) process.stderr.write(`A tool in Python is not tested: ${noJail}\n`);

let house: StackHouse;
let client: Letta;
beforeAll(async () => {
  house = await openStackHouse({ simulatorLatency: 'uniform:50-200', workers: 1 });
  client = new Letta({ baseURL: house.stack.apiUrl, apiKey: house.stack.apiKey, maxRetries: 0 });
});
afterAll(() => house.close());

const createAgent = async (name: string): Promise<string> => {
  const agent = await client.agents.create({
    name,
    model: 'anthropic/claude-haiku-4-5',
    include_base_tools: false,
    tools: ['core_memory_append', 'compare_versions'],
    memory_blocks: [{ label: 'notes', value: '' }],
  });
  return agent.id;
};

/** Polls a batch until it has left `running`. */
async function untilEnded(batchId: string) {
  const isOver = (status: string | undefined): boolean => status !== 'created' && status !== 'running';
  await expect
    .poll(async () => isOver((await client.batches.retrieve(batchId)).status), { timeout: 60_000 })
    .toBe(true);
  return client.batches.retrieve(batchId);
}

test("Letta's client creates agents and a batch, reads it to its end and lists its messages", async () => {
  const agents = [await createAgent('Ann'), await createAgent('Bob')];
  const work = newWork();
  const created = await client.batches.create({
    requests: agents.map((agent_id, place) => ({
      agent_id,
      messages: [{ role: 'user' as const, content: work(place) }],
    })),
  });
  expect(created).toMatchObject({ status: 'running', job_type: 'batch', completed_at: null, metadata: null });

  const batch = await untilEnded(created.id);
  expect(batch).toMatchObject({ id: created.id, status: 'completed' });
  expect(Date.parse(batch.completed_at ?? '')).toBeGreaterThan(Date.parse(batch.created_at ?? ''));

  const messages = [];
  for await (const message of client.batches.messages.list(created.id, { limit: 5, order: 'asc' })) {
    messages.push(message);
  }
  const roles = ['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant'];
  expect(messages.map(({ role, agent_id }) => [role, agent_id])).toEqual(
    agents.flatMap((agent_id) => roles.map((role) => [role, agent_id])),
  );
  const { items } = await client.agents.messages.list(agents[0]!, { order: 'asc' });
  expect(items.map(({ message_type }) => message_type)).toEqual([
    'user_message',
    'tool_call_message',
    'tool_return_message',
    'tool_call_message',
    'tool_return_message',
    'assistant_message',
  ]);
  expect((await client.agents.blocks.retrieve('notes', { agent_id: agents[0]! })).value).toContain('seen');

  const [run] = (await client.runs.list({ agent_id: agents[0]! })).items;
  expect(run).toMatchObject({ status: 'completed', stop_reason: 'end_turn', metadata: null });
  const steps = await client.runs.steps.list(run?.id ?? '');
  expect(steps.items.map(({ status }) => status)).toEqual(['success', 'success', 'success']);
  await house.expectPaidOnce();
});

test("Letta's client creates, changes, attaches, tries and deletes a tool in TypeScript, whose result reaches the model", async () => {
  const sourceOf = (count: number): string =>
    `export async function stock(item: string): Promise<string> { console.log('counted'); return '${count} ' + item; }`;
  const tool = {
    source_type: 'typescript',
    json_schema: {
      name: 'stock',
      description: 'Counts an item in stock.',
      parameters: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] },
    },
  };
  const created = await client.tools.create({ ...tool, source_code: sourceOf(1) });
  const changed = await client.tools.upsert({ ...tool, source_code: sourceOf(7) });
  expect(changed).toMatchObject({ id: created.id, name: 'stock', tool_type: 'custom' });
  const agent_id = await createAgent('Sam');
  await client.agents.tools.attach(created.id, { agent_id });
  const { id } = await client.batches.create({
    requests: [{ agent_id, input: JSON.stringify({ tool: 'stock', args: { item: 'bolts' } }) }],
  });
  expect(await untilEnded(id)).toMatchObject({ status: 'completed' });
  const { items } = await client.agents.messages.list(agent_id, { order: 'asc' });
  expect(items.find(({ message_type }) => message_type === 'tool_return_message')).toMatchObject({
    status: 'success',
    tool_return: '7 bolts',
  });
  const tried = await client.agents.tools.run('stock', { agent_id, args: { item: 'nuts' } });
  expect(tried).toMatchObject({
    status: 'success',
    func_return: '7 nuts',
    stdout: ['counted\n'],
    stderr: [],
  });
  await expect(client.agents.tools.run('stock', { agent_id, args: {} })).rejects.toMatchObject({
    status: 422,
  });
  await client.tools.delete(created.id);
  await expect(client.tools.retrieve(created.id)).rejects.toMatchObject({ status: 404 });
});

test.skipIf(noJail !== undefined)(
  "Letta's client creates a tool in Python without a schema, whose result reaches the model",
  async () => {
    const source_code = `
import os
from datetime import date

def days_between(start: str, end: str) -> dict:
    """Counts the days between two dates.

    Args:
        start (str): The first date, as 2026-01-31.
        end (str): The last date.
    """
    return {"days": (date.fromisoformat(end) - date.fromisoformat(start)).days, "agent": os.environ["LETTA_AGENT_ID"]}
`;
    const created = await client.tools.create({ source_code });
    expect(created).toMatchObject({
      name: 'days_between',
      description: 'Counts the days between two dates.',
      json_schema: { parameters: { required: ['start', 'end'] } },
    });
    const agent_id = await createAgent('Pia');
    await client.agents.tools.attach(created.id, { agent_id });
    const args = { start: '2026-11-01', end: '2026-11-28' };
    const { id } = await client.batches.create({
      requests: [{ agent_id, input: JSON.stringify({ tool: 'days_between', args }) }],
    });
    expect(await untilEnded(id)).toMatchObject({ status: 'completed' });
    const { items } = await client.agents.messages.list(agent_id, { order: 'asc' });
    expect(items.find(({ message_type }) => message_type === 'tool_return_message')).toMatchObject({
      status: 'success',
      tool_return: JSON.stringify({ days: 27, agent: agent_id }),
    });
  },
);

test("Letta's client cancels a batch, which is cancelled at once and has an end time", async () => {
  await house.control('POST', '/rules', {
    id: 'slow',
    op: 'create',
    match: { times: 1 },
    actions: [{ type: 'neverEnds' }],
  });
  const agent_id = await createAgent('Cid');
  const { id } = await client.batches.create({ requests: [{ agent_id, input: 'Wait.' }] });
  await client.batches.cancel(id);
  const cancelled = await client.batches.retrieve(id);
  expect(cancelled.status).toBe('cancelled');
  expect(Date.parse(cancelled.completed_at ?? '')).toBeGreaterThan(Date.parse(cancelled.created_at ?? ''));

  const listed = [];
  for await (const batch of client.batches.list({ limit: 1 })) listed.push(batch.id);
  expect(listed[0]).toBe(id);
  expect(new Set(listed).size).toBe(listed.length);
});

test("Letta's client parses an error as its own class, with its text", async () => {
  const unknown = 'job-00000000-0000-4000-8000-000000000000';
  await expect(client.batches.retrieve(unknown)).rejects.toMatchObject({
    status: 404,
    message: expect.stringContaining(unknown),
  });
});

test.each([false, true])(
  "Letta's client exports an agent and imports its file, equal but for ids (legacy: %s)",
  async (use_legacy_format) => {
    const agent_id = await createAgent('Eve');
    const file = await client.agents.exportFile(agent_id, { use_legacy_format });
    const { agent_ids } = await client.agents.importFile({
      file: new File([JSON.stringify(file)], 'eve.af', { type: 'application/json' }),
      // Callers of the client still send it.
      // eslint-disable-next-line @typescript-eslint/no-deprecated
      append_copy_suffix: false,
    });
    expect(agent_ids).toHaveLength(1);
    const shown = async (id: string): Promise<unknown> => {
      const { name, system, model, model_settings, tags, tool_rules, blocks, tools } =
        await client.agents.retrieve(id);
      return {
        ...{ name, system, model, model_settings, tags, tool_rules },
        blocks: blocks.map(({ label, value, limit }) => [label, value, limit]),
        tools: tools.map((tool) => tool.id),
      };
    };
    expect(await shown(agent_ids[0] ?? '')).toEqual(await shown(agent_id));
  },
);
