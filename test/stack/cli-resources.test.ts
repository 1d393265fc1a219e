import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type {
  AgentImportReport,
  AgentState,
  Block,
  HeldChange,
  LettaMessage,
  Schedule,
  Tool,
} from '../../libs/client/src/index.ts';
import { COMMAND, startCommand, type Ended } from './command.ts';
import { openStackHouse, type StackHouse, type WireBatch } from './house.ts';
import { hasTerminals, startInTerminal } from './terminal.ts';

let house: StackHouse;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-resources-'));
  house = await openStackHouse({ simulatorLatency: 'fixed:50', workers: 1 });
});
afterAll(async () => {
  await house.close();
  await rm(dir, { recursive: true, force: true });
});

/** Runs the command without a terminal. */
function nightshift(args: readonly string[], input?: string): Promise<Ended> {
  const env = { NIGHTSHIFT_URL: house.stack.apiUrl, NIGHTSHIFT_API_KEY: house.stack.apiKey };
  return startCommand(args, env, dir, input).ended;
}

/** Runs the command with --json, which must succeed. Returns the lines of its answer. */
async function linesOf<T>(args: readonly string[], input?: string): Promise<T[]> {
  const { exitCode, stdout, stderr } = await nightshift([...args, '--json'], input);
  expect(exitCode, stderr).toBe(0);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}

async function answerOf<T>(args: readonly string[], input?: string): Promise<T> {
  const [answer] = await linesOf<T>(args, input);
  if (answer === undefined) throw new Error(`${args.join(' ')} answered nothing`);
  return answer;
}

function createAgent(...flags: readonly string[]): Promise<AgentState> {
  return answerOf(['agents', 'create', '--name', 'Ann', '--model', 'anthropic/claude-haiku-4-5', ...flags]);
}

test('an agent is made of flags or JSON, listed, changed and deleted', async () => {
  const agent = await createAgent('--tag', 'cli', '--block', 'human=Name: Ann', '--block', 'notes=a=b');
  expect(agent.blocks.map(({ label, value }) => [label, value])).toEqual([
    ['human', 'Name: Ann'],
    ['notes', 'a=b'],
  ]);
  const body = JSON.stringify({ model: 'anthropic/claude-haiku-4-5', name: 'Bob', tags: ['cli', 'two'] });
  const other = await answerOf<AgentState>(['agents', 'create', '-', '--name', 'Eve'], body);
  expect(other.name).toBe('Eve');
  expect(await linesOf(['agents', 'ls', '--tag', 'cli', '--tag', 'two'])).toMatchObject([{ id: other.id }]);
  expect(await linesOf(['agents', 'ls', '--tag', 'cli', '-n', '1'])).toHaveLength(1);

  const edited = await answerOf<AgentState>([
    'agents',
    'edit',
    other.id,
    '--set',
    'name=Dan',
    '--set',
    'tags=["x"]',
  ]);
  expect(edited).toMatchObject({ name: 'Dan', tags: ['x'], model: 'anthropic/claude-haiku-4-5' });
  const unchanged = await nightshift(['agents', 'edit', other.id, '--set', 'name=Dan']);
  expect(unchanged).toMatchObject({ exitCode: 0, stderr: `${other.id} is unchanged.\n` });
  const refused = await nightshift(['agents', 'edit', other.id, '--set', 'nam=x']);
  expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
  expect(refused.stderr).toContain('nam cannot be changed here');
  expect((await nightshift(['agents', 'edit', other.id])).stderr).toContain('--set field=value');

  const asked = await nightshift(['agents', 'delete', other.id]);
  expect(asked).toMatchObject({ exitCode: 2, stdout: '' });
  expect(asked.stderr).toContain('--yes');
  expect(await answerOf(['agents', 'delete', other.id, '--yes'])).toEqual({ id: other.id, deleted: true });
  const gone = await nightshift(['agents', 'show', other.id]);
  expect(gone.exitCode).toBe(2);
  expect((await nightshift(['agents', 'show', agent.id])).stdout).toMatch(/^name\s+Ann$/m);
});

test.each([
  ['present', []],
  ['older', ['--legacy']],
])('an agent goes out as a file of the %s format and comes in again', async (_, flags) => {
  const { id } = await createAgent('--block', 'human=Name: Ann');
  await answerOf(['agents', 'append', id, 'Hello']);
  const name = `agent${flags.join('')}.af`;
  expect((await nightshift(['agents', 'export', id, ...flags, '-o', name])).stderr).toBe(
    `Written to ${name}.\n`,
  );
  expect((await nightshift(['agents', 'export', id, '-o', name])).stderr).toContain(`${name} exists`);
  const { agent_ids } = await answerOf<AgentImportReport>(['agents', 'import', name, '--strict']);
  expect(agent_ids).toHaveLength(1);
  const copy = agent_ids[0] ?? '';
  expect((await nightshift(['memory', 'show', copy, 'human'])).stdout).toBe('Name: Ann\n');
  const messages = await linesOf<LettaMessage>(['agents', 'messages', copy]);
  expect(messages.map((message) => 'content' in message && message.content)).toContain('Hello');

  const file = JSON.parse(await readFile(join(dir, name), 'utf8')) as { agents?: object[] };
  const lossy = { ...file, ...(file.agents && { groups: [{ id: 'group-0' }] }), mcp_servers: [{ id: 'm' }] };
  if (file.agents === undefined) return;
  const refused = await nightshift(['agents', 'import', '-', '--strict'], JSON.stringify(lossy));
  expect(refused).toMatchObject({ exitCode: 2, stdout: '' });
  expect(refused.stderr).toContain('Nothing was stored.');
  const taken = await nightshift(['agents', 'import', '-'], JSON.stringify(lossy));
  expect(taken).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^agent-\S+\n$/) as unknown });
  expect(taken.stderr).toMatch(/^Left out: \/groups\S*: .+$/m);
});

test('agents go out as JSON lines and come in again', async () => {
  await createAgent('--tag', 'lines');
  await createAgent('--tag', 'lines');
  const { stdout } = await nightshift(['agents', 'export', '--tag', 'lines']);
  expect(stdout.trimEnd().split('\n')).toHaveLength(2);
  await writeFile(join(dir, 'agents.jsonl.gz'), gzipSync(stdout));
  const { agent_ids } = await answerOf<AgentImportReport>(['agents', 'import', 'agents.jsonl.gz']);
  expect(agent_ids).toHaveLength(2);
  expect(await linesOf(['agents', 'ls', '--tag', 'lines'])).toHaveLength(4);
});

test('a secret is stored from a pipe, listed without its value, and removed', async () => {
  const key = ['secrets', 'set', 'KEY_FILE'];
  expect(await nightshift(key, '-----BEGIN-----\ncanary\n')).toEqual({
    exitCode: 0,
    stdout: 'KEY_FILE  stored\n',
    stderr: '',
  });
  const [listed, ...others] = await linesOf<object>(['secrets', 'ls']);
  expect(others).toEqual([]);
  expect(Object.keys(listed ?? {}).sort()).toEqual(['created_at', 'key_id', 'name', 'updated_at']);
  expect((await nightshift(['secrets', 'ls'])).stdout).toMatch(
    /^NAME +STORED +KEY\nKEY_FILE .* [0-9a-f]{16}\n$/,
  );

  expect(await nightshift([...key, 'canary'])).toMatchObject({ exitCode: 2 });
  expect(await nightshift(key, '\n')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('is empty'),
  });
  const refused = await nightshift(['secrets', 'set', 'KEY-FILE'], 'canary');
  expect(refused).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/letters, digits and underscores/),
  });
  expect(refused.stderr).not.toContain('canary');

  expect((await nightshift(['secrets', 'rm', 'KEY_FILE'])).stderr).toContain('add --yes');
  expect((await nightshift(['secrets', 'rm', 'KEY_FILE', '--yes'])).stdout).toBe('KEY_FILE  deleted\n');
  expect((await nightshift(['secrets', 'ls'])).stderr).toContain('There are no secrets.');
  expect((await nightshift(['secrets', 'rm', 'KEY_FILE', '--yes'])).stderr).toContain('no secret KEY_FILE');
});

test.runIf(hasTerminals)('a terminal asks for the value of a secret and does not show it', async () => {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: dir,
    TERM: 'xterm',
    NIGHTSHIFT_URL: house.stack.apiUrl,
    NIGHTSHIFT_API_KEY: house.stack.apiKey,
  };
  const terminal = startInTerminal([process.execPath, COMMAND, 'secrets', 'set', 'TYPED'], env, dir);
  await terminal.untilShown(/Value of TYPED: /);
  terminal.press('canarx\u007Fy\r');
  const { exitCode, shown } = await terminal.ended;
  expect([exitCode, shown]).toEqual([0, expect.stringContaining('TYPED  stored')]);
  expect(shown).not.toMatch(/can/);
  const stopped = startInTerminal([process.execPath, COMMAND, 'secrets', 'set', 'OTHER'], env, dir);
  await stopped.untilShown(/Value of OTHER: /);
  stopped.press('half\u0003');
  expect((await stopped.ended).exitCode).toBe(130);
  const names = (await linesOf<{ name: string }>(['secrets', 'ls'])).map(({ name }) => name);
  expect(names).toEqual(['TYPED']);
});

test('messages are appended one by one, from a pipe and from a file, once per otid', async () => {
  const { id } = await createAgent();
  expect(await answerOf(['agents', 'append', id, 'Hello', '--otid', 'm-1'])).toMatchObject({ appended: 1 });
  expect(await answerOf(['agents', 'append', id, 'Hello', '--otid', 'm-1'])).toMatchObject({ repeated: 1 });
  await answerOf(['agents', 'append', id, '-', '--role', 'assistant'], 'Good day.');
  const line = { agent_id: id, messages: [{ role: 'user', content: 'From a file' }] };
  await writeFile(join(dir, 'messages.jsonl'), `${JSON.stringify(line)}\n${JSON.stringify(line)}\n`);
  expect(await answerOf(['agents', 'append', '--file', 'messages.jsonl'])).toMatchObject({ appended: 2 });
  const messages = await linesOf<LettaMessage>(['agents', 'messages', id, '-n', '3']);
  expect(messages.map((message) => 'content' in message && message.content)).toEqual([
    'Good day.',
    'From a file',
    'From a file',
  ]);
  expect((await nightshift(['agents', 'append', id, ''])).stderr).toContain('The message is empty');
  expect((await nightshift(['agents', 'append'])).exitCode).toBe(2);

  const rewound = await answerOf(['agents', 'rewind', id, 'nightly', '--before', '2026-01-01T00:00:00Z']);
  expect(rewound).toMatchObject({ name: 'nightly' });
  expect(await linesOf(['agents', 'cursors', id])).toMatchObject([{ name: 'nightly' }]);
});

test('memory is shown, edited against a revision, compared and reverted', async () => {
  const { id } = await createAgent('--block', 'human=likes red tea');
  expect((await nightshift(['memory', 'show', id, 'human'])).stdout).toBe('likes red tea\n');
  expect(await linesOf(['memory', 'show', id])).toMatchObject([{ label: 'human', revision: 1 }]);
  const none = await nightshift(['memory', 'diff', id, 'human']);
  expect(none.stderr).toContain('revision 1 only');

  const edited = await answerOf<Block>(['memory', 'edit', id, 'human', '--file', '-'], 'likes green tea');
  expect(edited).toMatchObject({ value: 'likes green tea', revision: 2 });
  expect((await nightshift(['memory', 'diff', id, 'human'])).stdout).toBe('likes [-red-]{+green+} tea\n');
  expect((await nightshift(['memory', 'diff', edited.id, '--unified'])).stdout).toMatch(
    /^-likes red tea\n\+likes green tea$/m,
  );
  expect(await answerOf(['memory', 'diff', id, 'human'])).toMatchObject({ from_revision: 1, to_revision: 2 });
  expect(await linesOf(['memory', 'history', id, 'human'])).toMatchObject([{ revision: 2 }, { revision: 1 }]);

  const dry = await nightshift(['memory', 'revert', id, 'human', '--to', '1', '--dry-run']);
  expect(dry).toMatchObject({ exitCode: 0, stdout: 'would restore human from revision 2 to 1\n' });
  expect(dry.stderr).toContain('[-green-]{+red+}');
  expect((await nightshift(['memory', 'revert', id, 'human', '--to', '1'])).exitCode).toBe(2);
  const reverted = await answerOf(['memory', 'revert', id, 'human', '--to', '1', '--yes']);
  expect(reverted).toMatchObject({ value: 'likes red tea', revision: 3 });
});

test('held changes are listed, and accepted or rejected by filter without a terminal', async () => {
  const before = 'A long text about Ann. '.repeat(20);
  const texts = ['short', `${before}More.`, `${before}Less.`];
  const agents = await Promise.all(
    texts.map(() => createAgent('--tool', 'memory_rethink', '--block', `human=${before}`)),
  );
  const { id } = await house.client.post<WireBatch>('/v1/messages/batches', {
    apply: 'review',
    requests: texts.map((new_memory, place) => ({
      agent_id: agents[place]?.id,
      input: JSON.stringify({ tool: 'memory_rethink', args: { label: 'human', new_memory } }),
    })),
  });
  await house.untilStatus(id, 'completed');

  const held = await linesOf<HeldChange>(['memory', 'review', id]);
  expect(held.map(({ shrunk }) => shrunk).sort()).toEqual([false, false, true]);
  const listed = await nightshift(['memory', 'review', id, '--accept-all', '--shrunk', '--dry-run']);
  expect(listed.stdout.trimEnd().split('\n')).toHaveLength(2);
  expect(listed.stderr).toBe('Nothing was settled: 1 change would be accepted.\n');
  const alone = await nightshift(['memory', 'review', id]);
  expect(alone).toMatchObject({ exitCode: 2, stdout: '' });
  expect(alone.stderr).toContain('--accept-all');
  const asked = await nightshift(['memory', 'review', id, '--reject-all', '--shrunk']);
  expect(asked.exitCode).toBe(2);
  expect(asked.stderr).toContain(`Reject 1 held change of ${id}?`);

  const reject = ['memory', 'review', id, '--reject-all', '--shrunk', '--yes'];
  expect(await answerOf(reject)).toMatchObject({ rejected: 1, held: 0 });
  const [first, second] = held.filter(({ shrunk }) => !shrunk);
  await nightshift(['memory', 'edit', second?.agent_id ?? '', 'human', '--file', '-'], 'edited since');
  const accept = await nightshift(['memory', 'review', id, '--accept-all', '--yes', '--json']);
  expect(accept.exitCode).toBe(1);
  expect(JSON.parse(accept.stdout)).toMatchObject({ accepted: 1, held: 1, stale: [{ reason: 'edited' }] });
  expect(accept.stderr).toContain('the block was edited since the agent saw it');

  expect(await linesOf(['memory', 'changes', id])).toMatchObject([{ agent_id: first?.agent_id }]);
  const dry = await nightshift(['memory', 'revert', '--batch', id, '--dry-run']);
  expect(dry.stderr).toContain('Nothing was restored.');
  expect(await answerOf(['memory', 'revert', '--batch', id, '--yes'])).toMatchObject({
    restored: [{ label: 'human' }],
  });
});

test('a schedule is made, previewed, changed, paused, resumed, run and deleted', async () => {
  const { id: agent } = await createAgent();
  const body = {
    name: 'nightly',
    cron: '0 2 * * *',
    time_zone: 'Europe/Berlin',
    body: { requests: [{ agent_id: agent, input: 'Good night' }] },
  };
  const { id } = await answerOf<Schedule>(['schedules', 'create', '-'], JSON.stringify(body));
  expect(await linesOf(['schedules', 'ls'])).toMatchObject([{ id, name: 'nightly' }]);
  expect(await answerOf<{ next_ticks: string[] }>(['schedules', 'preview', id, '-n', '3'])).toHaveProperty(
    'next_ticks.length',
    3,
  );
  const rule = ['schedules', 'preview', '--cron', '0 0 1 * *', '--time-zone', 'UTC'];
  expect(await answerOf<{ next_ticks: string[] }>(rule)).toHaveProperty('next_ticks.length', 5);
  expect((await nightshift(['schedules', 'preview'])).stderr).toContain("--cron '0 2 * * *'");
  expect(await answerOf(['schedules', 'pause', id])).toMatchObject({ state: 'paused' });
  expect(await answerOf(['schedules', 'resume', id])).toMatchObject({ state: 'active' });
  await writeFile(
    join(dir, 'change.json'),
    JSON.stringify({ cron: '0 3 * * *', ends_at: '2036-01-01T00:00:00Z' }),
  );
  expect(await answerOf(['schedules', 'edit', id, 'change.json'])).toMatchObject({ cron: '0 3 * * *' });
  expect(await answerOf(['schedules', 'edit', id, '--set', 'ends_at=null'])).toMatchObject({ ends_at: null });
  expect((await nightshift(['schedules', 'edit', id, '--set', 'cron=nonsense'])).exitCode).toBe(2);

  const tick = await answerOf<{ job_id: string }>(['schedules', 'run', id]);
  await house.untilStatus(tick.job_id, 'completed');
  expect(await linesOf(['schedules', 'ticks', id])).toMatchObject([{ job_id: tick.job_id, is_manual: true }]);
  expect((await nightshift(['schedules', 'show', id])).stdout).toMatch(/^rule\s+0 3 \* \* \*/m);
  expect(await answerOf(['schedules', 'delete', id, '--yes'])).toEqual({ id, deleted: true });
});

test('a program with its schema becomes a tool, which an agent has and a person tries', async () => {
  const { id: agent } = await createAgent();
  await writeFile(
    join(dir, 'count.ts'),
    'export function count(item: string): string { console.log(item); return `7 ${item}`; }',
  );
  const schema = { name: 'count', parameters: { type: 'object', properties: { item: { type: 'string' } } } };
  expect((await nightshift(['tools', 'create', 'count.ts'])).stderr).toContain('needs a schema');
  const tool = await answerOf<Tool>(['tools', 'create', 'count.ts', '--schema', JSON.stringify(schema)]);
  expect(tool).toMatchObject({ name: 'count', source_type: 'typescript', kind: 'sandbox' });
  await answerOf(['tools', 'attach', agent, 'count']);
  const tried = await nightshift(['tools', 'run', agent, 'count', '--args', '{"item": "bolts"}']);
  expect([tried.exitCode, tried.stdout.trim()]).toEqual([0, '7 bolts']);
  expect(tried.stderr).toMatch(/bolts\nSucceeded after \d+ ms\./);
  const wrong = await nightshift(['tools', 'run', agent, 'count', '--args', '{"item": 7}']);
  expect([wrong.exitCode, wrong.stderr]).toEqual([2, expect.stringContaining('/item must be string')]);
});

test('a tool is listed, changed, attached by name, put under approval and detached', async () => {
  const { id: agent } = await createAgent();
  const [tool] = await linesOf<Tool>(['tools', 'ls', '--name', 'compare_versions']);
  expect(tool?.kind).toBe('module');
  await answerOf(['tools', 'attach', agent, 'compare_versions']);
  expect((await linesOf<Tool>(['tools', 'of', agent])).map(({ name }) => name)).toContain('compare_versions');
  expect(await answerOf(['tools', 'approval', agent, 'compare_versions', 'on'])).toMatchObject({
    requires_approval: true,
  });
  expect((await nightshift(['tools', 'approval', agent, 'compare_versions', 'maybe'])).exitCode).toBe(2);
  const edited = await answerOf<Tool>(['tools', 'edit', tool?.id ?? '', '--set', 'return_char_limit=900']);
  expect(edited.return_char_limit).toBe(900);
  await answerOf(['tools', 'detach', agent, 'compare_versions']);
  expect((await linesOf<Tool>(['tools', 'of', agent])).map(({ name }) => name)).not.toContain(
    'compare_versions',
  );
  expect((await nightshift(['tools', 'attach', agent, 'nothing'])).stderr).toContain(
    'There is no tool nothing',
  );
  expect((await nightshift(['tools', 'show', tool?.id ?? ''])).stdout).toMatch(/^schema\s+\{/m);
});
