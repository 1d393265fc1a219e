import type {} from '../global-setup.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createNightshift } from '../../libs/client/src/index.ts';
import { findFreePort } from '../../libs/services/src/index.ts';
import { startProxy } from './proxy.ts';
import { newWork, openStackHouse, type StackHouse } from './house.ts';

const COMMAND = join(import.meta.dirname, '../../apps/cli/bin/nightshift.mjs');
const WRITING = [
  'submit_batch',
  'retry_batch',
  'cancel_batch',
  'pause_batch',
  'resume_batch',
  'accept_held_changes',
  'reject_held_changes',
  'revert_batch',
  'run_schedule',
];

let house: StackHouse;
beforeAll(async () => {
  house = await openStackHouse({ simulatorLatency: 'uniform:50-100', workers: 1 });
  await house.control('POST', '/rules', {
    op: 'request',
    match: { contains: 'fails for ever' },
    outcome: { type: 'errored', error_type: 'invalid_request_error', message: 'The image is too large.' },
  });
});
afterAll(() => house.close());

// The answers of a tool are JSON of its own; what follows them is the check.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Facts = any;

interface Called {
  readonly isError: boolean;
  readonly text: string;
  readonly facts: Facts;
  readonly bytes: number;
}

interface Session {
  readonly client: Client;
  /** All of stderr. */
  readonly stderr: () => string;
  call(name: string, input?: Record<string, unknown>): Promise<Called>;
  /** Calls a tool without and then with the token of its dry run. */
  confirmed(name: string, input: Record<string, unknown>): Promise<Called>;
}

async function open(
  args: readonly string[],
  { mode = 'auto', url }: { readonly mode?: 'auto' | 'legacy'; readonly url?: string } = {},
): Promise<Session> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [COMMAND, 'mcp', ...args],
    env: { NIGHTSHIFT_URL: url ?? house.stack.apiUrl, NIGHTSHIFT_API_KEY: house.stack.apiKey },
    stderr: 'pipe',
  });
  let stderr = '';
  transport.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  onTestFinished(() => client.close());
  const call: Session['call'] = async (name, input = {}) => {
    const { content, structuredContent, isError } = await client.callTool({ name, arguments: input });
    const [first] = content;
    return {
      isError: isError === true,
      text: first?.type === 'text' ? first.text : '',
      facts: structuredContent,
      bytes: Buffer.byteLength(JSON.stringify(structuredContent ?? {})),
    };
  };
  return {
    client,
    stderr: () => stderr,
    call,
    confirmed: async (name, input) => {
      const { isError, text, facts } = await call(name, input);
      expect({ isError, text }).toMatchObject({ isError: false });
      return call(name, { ...input, confirm: facts.confirm });
    },
  };
}

async function untilDone(session: Session, batchId: string): Promise<void> {
  const phase = async (): Promise<string> =>
    (await session.call('batch_progress', { batch_id: batchId })).facts.progress.phase;
  await expect.poll(phase, { timeout: 60_000 }).toBe('done');
}

const batchCount = async (): Promise<number> =>
  (await house.stack.pool.query<{ count: number }>('select count(*)::int as count from batch')).rows[0]!
    .count;

const work = newWork();

test.for(['auto', 'legacy'] as const)(
  'without --write, a client of the protocol (%s) finds reading tools, and a writing tool is refused',
  async (mode) => {
    const { client, call } = await open([], { mode });
    const { tools } = await client.listTools();
    expect(tools.map(({ annotations }) => annotations?.readOnlyHint)).not.toContain(false);
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['list_batches', 'checks']));
    for (const name of WRITING) {
      expect(tools.map((tool) => tool.name)).not.toContain(name);
      expect(await call(name, {})).toMatchObject({
        isError: true,
        text: `${name} changes things, and this server only reads. Start it as nightshift mcp --write to allow it.`,
      });
    }
    await expect(call('drop_database')).rejects.toThrow('There is no tool drop_database.');
  },
);

test('with --write, a dry run starts nothing, its token starts the batch once, and the results are read', async () => {
  const session = await open(['--write']);
  const { tools } = await session.client.listTools();
  const writing = tools.filter(({ annotations }) => annotations?.readOnlyHint === false);
  expect(writing.map(({ name }) => name)).toEqual(WRITING);

  const agent_id = await house.createAgent('reader', ['core_memory_append', 'compare_versions']);
  const batch = {
    requests: [{ agent_id, custom_id: 'first', input: work(0) }],
    max_cost_usd: 1,
    name: 'by mcp',
  };
  const before = await batchCount();
  const dry = await session.call('submit_batch', { batch });
  expect(dry.text).toMatch(/^It would start 1 run, with an expected cost of \$[\d.]+ .*Nothing was done/);
  expect(dry.facts).toMatchObject({ is_dry_run: true, first_agent_ids: [agent_id], agents_total: 1 });
  expect(await batchCount()).toBe(before);

  const { confirm } = dry.facts;
  const others = { ...batch, max_cost_usd: 2 };
  expect(await session.call('submit_batch', { batch: others, confirm })).toMatchObject({
    isError: true,
    text: expect.stringContaining('belongs to other arguments'),
  });
  expect(await session.call('cancel_batch', { batch_id: 'job-1', confirm })).toMatchObject({ isError: true });
  expect(await batchCount()).toBe(before);
  // The order of names does not matter.
  const { max_cost_usd, ...rest } = batch;
  const started = await session.call('submit_batch', { confirm, batch: { max_cost_usd, ...rest } });
  expect(started).toMatchObject({
    isError: false,
    text: expect.stringContaining('has started, with 1 run'),
  });
  expect(await session.call('submit_batch', { batch, confirm })).toMatchObject({
    isError: true,
    text: expect.stringContaining('is unknown, used or older than ten minutes'),
  });
  expect(await batchCount()).toBe(before + 1);

  const { id } = started.facts.batch;
  await untilDone(session, id);
  const results = await session.call('batch_results', { batch_id: id });
  expect(results.facts).toMatchObject({ items: [{ custom_id: 'first', state: 'completed' }], after: null });
  expect(results.facts.all_runs_have_ended).toBe(true);
  const run_id = results.facts.items[0].run_id as string;
  expect((await session.call('show_run', { run_id })).text).toContain('is completed (end_turn)');
  const messages = await session.call('run_messages', { run_id, limit: 2 });
  expect(messages.facts.items).toHaveLength(2);
  expect(messages.facts.note).toContain('call again with after');
  const more = await session.call('run_messages', { run_id, limit: 100, after: messages.facts.after });
  expect(more.facts.items[0].id).not.toBe(messages.facts.items[1].id);
  expect((await session.call('show_batch', { batch_id: id })).text).toContain('is completed: 1 of 1');
  expect((await session.call('list_batches', { name: 'by mcp' })).facts.items).toMatchObject([{ id }]);
  expect((await session.call('list_runs', { batch_id: id })).facts.items).toMatchObject([{ id: run_id }]);
  expect(session.stderr()).toBe('');
});

test('memory changes under review are read as diffs, accepted or rejected as they were seen, and reverted', async () => {
  const session = await open(['--write']);
  const agents = [await house.createAgent('Ann', ['core_memory_append']), await house.createAgent('Bob', [])];
  const [ann = ''] = agents;
  const request = (content: string) => ({
    agent_id: ann,
    input: JSON.stringify({ tool: 'core_memory_append', args: { label: 'notes', content } }),
  });
  const submitted = async (content: string): Promise<string> => {
    const batch = { requests: [request(content)], apply: 'review' };
    const { facts } = await session.confirmed('submit_batch', { batch });
    await untilDone(session, facts.batch.id as string);
    return facts.batch.id as string;
  };
  const first = await submitted('likes tea');
  const held = await session.call('list_held_changes', { batch_id: first });
  expect(held.facts.items[0]).toMatchObject({ agent_id: ann, diff: expect.stringContaining('+likes tea') });
  const dry = await session.call('reject_held_changes', { batch_id: first });
  expect(dry.text).toContain('1 change of 1 agent would be dropped for good.');
  const unedited = await session.call('accept_held_changes', { batch_id: first });
  const client = createNightshift({ url: house.stack.apiUrl, apiKey: house.stack.apiKey });
  const value = '\nlikes tea, green';
  await client.batches.editHeldChange(first, held.facts.items[0].id as string, { value });
  // What a person agreed to is not what would be applied.
  expect(
    await session.call('accept_held_changes', { batch_id: first, confirm: unedited.facts.confirm }),
  ).toMatchObject({
    isError: true,
    text: expect.stringContaining('Its state has changed since the dry run'),
  });
  const accepted = await session.confirmed('accept_held_changes', { batch_id: first });
  expect(accepted.text).toBe('Accepted: 1 change.');
  // What the first token saw is no longer there.
  expect(
    await session.call('reject_held_changes', { batch_id: first, confirm: dry.facts.confirm }),
  ).toMatchObject({
    isError: true,
    text: expect.stringContaining('Its state has changed since the dry run'),
  });
  const memory = await session.call('show_memory', { agent_id: ann });
  expect(memory.facts.items).toMatchObject([{ label: 'notes', value, revision: 2 }]);
  const block_id = memory.facts.items[0].id as string;
  const revisions = await session.call('memory_history', { block_id, limit: 1 });
  expect(revisions.facts).toMatchObject({ items: [{ revision: 2 }], after: '2' });
  const older = await session.call('memory_history', { block_id, after: '2' });
  expect(older.facts.items).toMatchObject([{ revision: 1 }]);
  const diff = await session.call('memory_diff', { block_id, from: 1 });
  expect(diff.facts.diff.diff).toContain('+likes tea');

  const second = await submitted('likes coffee');
  expect((await session.confirmed('reject_held_changes', { batch_id: second })).text).toBe(
    'Rejected: 1 change.',
  );
  const reverted = await session.confirmed('revert_batch', { batch_id: first, agent_ids: [ann] });
  expect(reverted.text).toBe('Restored: 1 block; deleted: 0; left unchanged: 0.');
  expect((await session.call('show_memory', { agent_id: ann })).facts.items[0].value).toBe('');
});

test('failed runs are grouped and tried again; a batch is paused, resumed and cancelled', async () => {
  const session = await open(['--write']);
  const agent_id = await house.createAgent('failing', []);
  const requests = ['fails for ever', 'hello'].map((input) => ({
    agent_id,
    conversation: 'isolated',
    input,
  }));
  const { facts } = await session.confirmed('submit_batch', { batch: { requests } });
  const batch_id = facts.batch.id as string;
  await untilDone(session, batch_id);
  const failures = await session.call('batch_errors', { batch_id });
  expect(failures.text).toBe('1 run failed, in 1 group.');
  const { error_group } = failures.facts.groups[0];
  const retry = { batch_id, error_group };
  expect((await session.call('retry_batch', retry)).facts).toMatchObject({ runs_at_most: 1 });
  const retried = await session.confirmed('retry_batch', retry);
  expect(retried.facts.batch).toMatchObject({ retry_of: batch_id, counts: { total: 1 } });

  // Its run waits for the caller, so that the batch stays open.
  const client_tools = [
    { name: 'ask', description: 'Asks.', parameters: { type: 'object', properties: {} } },
  ];
  const input = JSON.stringify({ tool: 'ask', args: {} });
  const open_ = await session.confirmed('submit_batch', {
    batch: { requests: [{ agent_id, input, client_tools }] },
  });
  const id = { batch_id: open_.facts.batch.id as string };
  expect((await session.confirmed('pause_batch', id)).text).toContain('is paused');
  expect((await session.confirmed('resume_batch', id)).text).toContain('is running');
  expect((await session.confirmed('cancel_batch', id)).text).toMatch(/is cancell(ed|ing)/);
  expect(await session.confirmed('pause_batch', id)).toMatchObject({ isError: true });
});

test('a schedule is shown, and run now; agents are shown without their secrets', async () => {
  const session = await open(['--write']);
  const agent = await house.client.post<{ readonly id: string }>('/v1/agents/', {
    name: 'nightly',
    model: 'anthropic/claude-haiku-4-5',
    tags: ['nightly'],
    secrets: { TOKEN: 'hidden-value' },
  });
  const schedule = await house.client.post<{ readonly id: string }>('/v1/schedules', {
    name: 'nightly',
    cron: '0 2 * * *',
    time_zone: 'Europe/Berlin',
    body: { agents: { tags: ['nightly'] }, input: 'Good night.' },
  });
  const listed = await session.call('list_schedules');
  expect(listed.facts.items).toMatchObject([{ id: schedule.id, state: 'active' }]);
  const shown = await session.call('show_schedule', { schedule_id: schedule.id, next: 7 });
  expect(shown.text).toBe('Schedule nightly is active. At 02:00, Europe/Berlin.');
  expect(shown.facts.next_ticks).toHaveLength(7);
  const run = await session.confirmed('run_schedule', { schedule_id: schedule.id });
  expect(run.facts.tick).toMatchObject({ outcome: 'started', is_manual: true });

  const found = await session.call('list_agents', { tags: ['nightly'] });
  expect(found.facts.items).toMatchObject([{ id: agent.id, name: 'nightly' }]);
  const one = await session.call('show_agent', { agent_id: agent.id });
  expect(one.facts.agent).toMatchObject({ id: agent.id, tags: ['nightly'] });
  expect(JSON.stringify(one)).not.toContain('hidden-value');
  expect((await session.call('usage', { group_by: 'model' })).facts.usage.data.length).toBeGreaterThan(0);
  const estimate = await session.call('estimate', { batch: { agents: { tags: ['nightly'] }, input: 'Hi.' } });
  expect(estimate.facts.estimate).toMatchObject({ runs: 1 });
});

test('an answer is at most 50 kB, and says how to get the rest', async () => {
  const session = await open([]);
  const agent = await house.client.post<{ readonly id: string }>('/v1/agents/', {
    name: 'large',
    model: 'anthropic/claude-haiku-4-5',
    include_base_tools: false,
    system: 'é'.repeat(60_000),
    memory_blocks: ['one', 'two', 'three'].map((label) => ({
      label,
      value: label[0]!.repeat(20_000),
      limit: 20_000,
    })),
  });
  const agent_id = agent.id;
  const shown = await session.call('show_agent', { agent_id });
  expect(shown.bytes).toBeLessThanOrEqual(50_000);
  expect(shown.facts.agent.system).toMatch(/é… \[\d+ more characters\]$/);

  const short = await session.call('show_memory', { agent_id });
  expect(short.facts.items).toHaveLength(3);
  expect(short.facts.items[0].value).toMatch(/^.{2000}… \[18000 more characters\]$/);
  expect(short.facts.note).toBe('Long texts are cut; a larger max_chars shows more of them.');
  const long = await session.call('show_memory', { agent_id, max_chars: 40_000 });
  expect(long.bytes).toBeLessThanOrEqual(50_000);
  expect(long.facts.items).toHaveLength(2);
  const rest = await session.call('show_memory', { agent_id, max_chars: 40_000, after: long.facts.after });
  expect(rest.facts.items).toHaveLength(1);
  expect(rest.facts.after).toBeNull();
});

test('refusals of the API, wrong arguments and an API that is down are errors of the tool', async () => {
  const session = await open(['--write']);
  const unknown = 'job-01890000-0000-7000-8000-000000000000';
  expect(await session.call('show_batch', { batch_id: unknown })).toMatchObject({
    isError: true,
    text: expect.stringContaining(unknown),
  });
  expect(await session.call('list_runs', { limit: 1_000, foo: 1 })).toMatchObject({
    isError: true,
    text: expect.stringMatching(/^Wrong arguments\.[^]*foo[^]*limit/),
  });
  const wrong = { requests: [{ agent_id: 'agent-1', input: 'Hello' }] };
  expect(await session.call('submit_batch', { batch: wrong })).toMatchObject({
    isError: true,
    text: expect.stringContaining('/requests/0/agent_id'),
  });

  const port = await findFreePort();
  const down = await open([], { url: `http://127.0.0.1:${port}` });
  expect(await down.call('list_batches')).toMatchObject({
    isError: true,
    text: expect.stringContaining(`No answer from http://127.0.0.1:${port}.`),
  });
  expect(down.stderr()).toContain('trying again');
});

test('a confirmed call whose answer is lost is repeated with its token, and starts one batch', async () => {
  let isLossy = true;
  const url = await startProxy(house.stack.apiUrl, (method, path) =>
    isLossy && method === 'POST' && /^\/v1\/(messages\/)?batches$/.test(path) ? 'drop' : 'pass',
  );
  const session = await open(['--write'], { url });
  const batch = { requests: [{ agent_id: await house.createAgent('once', []), input: 'Hello' }] };
  const { confirm } = (await session.call('submit_batch', { batch })).facts;
  const before = await batchCount();
  expect(await session.call('submit_batch', { batch, confirm })).toMatchObject({
    isError: true,
    text: expect.stringContaining('No answer from'),
  });
  isLossy = false;
  expect((await session.call('submit_batch', { batch, confirm })).text).toContain('has started');
  expect(await batchCount()).toBe(before + 1);
});

test('a confirmed accept whose answer is lost is repeated with its token, and tells what it accepted', async () => {
  let isLossy = false;
  const url = await startProxy(house.stack.apiUrl, (_method, path, body) =>
    isLossy && path.endsWith('/accept') && !body.includes('dry_run') ? 'drop' : 'pass',
  );
  const session = await open(['--write'], { url });
  const args = { label: 'notes', content: 'likes tea' };
  const request = {
    agent_id: await house.createAgent('lossy', ['core_memory_append']),
    input: JSON.stringify({ tool: 'core_memory_append', args }),
  };
  const { facts } = await session.confirmed('submit_batch', {
    batch: { requests: [request], apply: 'review' },
  });
  const batch_id = facts.batch.id as string;
  await untilDone(session, batch_id);
  const { confirm } = (await session.call('accept_held_changes', { batch_id })).facts;
  isLossy = true;
  expect(await session.call('accept_held_changes', { batch_id, confirm })).toMatchObject({
    isError: true,
    text: expect.stringContaining('No answer from'),
  });
  isLossy = false;
  expect((await session.call('accept_held_changes', { batch_id, confirm })).text).toBe('Accepted: 1 change.');
});

test.for(['the end of stdin', 'SIGINT'])(
  '%s ends the command with exit code 0 and an empty stdout',
  async (how) => {
    const env = { PATH: process.env.PATH, NIGHTSHIFT_URL: house.stack.apiUrl, NIGHTSHIFT_API_KEY: 'ns_key' };
    const child = spawn(process.execPath, [COMMAND, 'mcp'], { env, stdio: 'pipe' });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const exited = once(child, 'exit');
    if (how === 'SIGINT') {
      child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
      await once(child.stdout, 'data');
      child.kill('SIGINT');
      expect(output.trim()).toBe('{"result":{},"jsonrpc":"2.0","id":1}');
    } else child.stdin.end();
    expect(await exited).toEqual([0, null]);
    if (how !== 'SIGINT') expect(output).toBe('');
  },
);

test('the page lists every tool', async () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/mcp.md'), 'utf8');
  const documented = [...page.matchAll(/^\| (`[a-z_`, ]+`) \|/gm)]
    .flatMap(([, names = '']) => names.replaceAll('`', '').split(', '))
    .sort();
  const { tools } = await (await open(['--write'])).client.listTools();
  expect(documented).toEqual(tools.map(({ name }) => name).sort());
});
