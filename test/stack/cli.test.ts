import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { findFreePort } from '../../libs/services/src/index.ts';
import { COMMAND, startCommand, type Ended, type Running } from './command.ts';
import { openStackHouse, type StackHouse } from './house.ts';
import { startProxy } from './proxy.ts';

let house: StackHouse;
let agent: string;
let dir: string;

beforeAll(async () => {
  house = await openStackHouse({ simulatorLatency: 'fixed:100', workers: 1 });
  agent = await house.createAgent('triage', []);
  await house.control('POST', '/rules', {
    op: 'request',
    match: { contains: 'is refused' },
    outcome: { type: 'errored', error_type: 'invalid_request_error', message: 'The text is refused.' },
  });
});
afterAll(() => house.close());
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-cli-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

function environment(): Record<string, string> {
  return { NIGHTSHIFT_URL: house.stack.apiUrl, NIGHTSHIFT_API_KEY: house.stack.apiKey, XDG_CONFIG_HOME: dir };
}

function start(args: readonly string[], input?: string): Running {
  return startCommand(args, environment(), dir, input);
}

function nightshift(args: readonly string[], input?: string): Promise<Ended> {
  return start(args, input).ended;
}

/** Runs the command, which must succeed. Returns its answer. */
async function answerOf<T>(...args: readonly string[]): Promise<T> {
  const { exitCode, stdout, stderr } = await nightshift(['--json', ...args]);
  expect(exitCode, stderr).toBe(0);
  return JSON.parse(stdout) as T;
}

/** Lines of requests with these texts. */
function linesOf(...texts: readonly string[]): string {
  return texts
    .map(
      (input, place) =>
        `${JSON.stringify({ custom_id: `t-${place}`, agent_id: agent, conversation: 'isolated', input })}\n`,
    )
    .join('');
}

interface ShownBatch {
  readonly id: string;
  readonly name: string | null;
  readonly tags: readonly string[];
  readonly state: string;
  readonly counts: { readonly completed: number; readonly failed: number; readonly total: number };
  readonly limits: { readonly max_cost_usd: string | null };
}

/** Submits lines, and waits for their end. */
async function finished(...texts: readonly string[]): Promise<string> {
  const { stdout } = await nightshift(['submit', '-', '--wait'], linesOf(...texts));
  return stdout.trim();
}

test('a file is sent with the fields of flags, watched, and its results are those of the API', async () => {
  writeFileSync(join(dir, 'tasks.jsonl'), linesOf('one', 'two', 'three'));
  const flags = ['--name', 'file', '--tag', 'a', '--tag', 'b', '--max-cost-usd', '5'];
  const sent = await nightshift(['submit', 'tasks.jsonl', ...flags]);
  expect(sent).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^job-\S+\n$/) as unknown });
  const id = sent.stdout.trim();
  const watched = await nightshift(['watch', id]);
  expect(watched).toMatchObject({ exitCode: 0, stdout: '' });
  expect(watched.stderr).toMatch(/3 runs completed, \$.*nightshift results/);
  expect(await answerOf<ShownBatch>('show', id)).toMatchObject({
    name: 'file',
    tags: ['a', 'b'],
    counts: { completed: 3 },
    limits: { max_cost_usd: expect.stringMatching(/^5/) as unknown },
  });
  const printed = await nightshift(['results', id]);
  await nightshift(['results', id, '-o', 'results.jsonl']);
  expect(readFileSync(join(dir, 'results.jsonl'), 'utf8')).toBe(printed.stdout);
  expect(
    printed.stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id),
  ).toEqual(['t-0', 't-1', 't-2']);
  expect(readdirSync(dir)).not.toContain('results.jsonl.part');
});

test('--wait ends with 1 when runs failed; errors groups them, retry tries them again', async () => {
  const sent = await nightshift(
    ['submit', '-', '--wait', '--json'],
    linesOf('fine', 'is refused', 'is refused'),
  );
  expect(sent.exitCode).toBe(1);
  const { id, counts } = JSON.parse(sent.stdout) as ShownBatch;
  expect(counts).toMatchObject({ completed: 1, failed: 2 });
  expect((await nightshift(['watch', id])).exitCode).toBe(1);

  const group = await answerOf<{ error_group: string; runs: number }>('errors', id);
  expect(group).toMatchObject({ runs: 2, stop_reason: 'invalid_request' });
  const table = await nightshift(['errors', id, '--samples']);
  expect(table.stdout).toContain('The text is refused.');
  expect(await answerOf('retry', id, '--dry-run', '--ended-reason', 'invalid_request')).toMatchObject({
    runs: 2,
  });
  const again = await nightshift(['retry', id, '--error-group', group.error_group, '--wait']);
  expect(again).toMatchObject({ exitCode: 1, stdout: expect.stringMatching(/^job-/) as unknown });
  // A complete download is a success, whatever the runs are.
  expect((await nightshift(['results', id, '--state', 'failed'])).exitCode).toBe(0);
  expect((await nightshift(['results', id, '--wait', '-o', 'r.jsonl'])).exitCode).toBe(1);
});

test("the line of the simulator's page is a run that fails", async () => {
  const page = readFileSync(join(import.meta.dirname, '../../apps/simulator/README.md'), 'utf8');
  const [line = ''] = /^\{"custom_id": "fails".*$/m.exec(page) ?? [];
  const sent = await nightshift(['submit', '-', '--wait'], `${line.replace('agent-…', agent)}\n`);
  expect(sent.exitCode).toBe(1);
  const { stdout } = await nightshift(['errors', sent.stdout.trim()]);
  expect(stdout).toContain('The image is too large.');
});

test.each<[string, string, () => string | Buffer, readonly string[]]>([
  [
    'JSON',
    'batch.json',
    () => JSON.stringify({ name: 'old', requests: [{ agent_id: agent, input: 'x' }] }),
    [],
  ],
  ['a list', 'list.json', () => JSON.stringify([{ agent_id: agent, input: 'x' }]), []],
  ['JSONL with a first line', 'first.jsonl', () => `{"batch":{"name":"old"}}\n${linesOf('x')}`, []],
  ['gzip', 'tasks.jsonl.gz', () => gzipSync(linesOf('x')), []],
  [
    'CSV',
    'rows.csv',
    () => 'customer,text\nAnn,"x, y"\n',
    ['--template', 'Answer {{ customer }}: {{ text }}'],
  ],
  ['CSV with requests', 'requests.csv', () => 'custom_id,input\na,x\n', []],
])('%s is sent, and flags win over the file', async (_, name, text, flags) => {
  writeFileSync(join(dir, name), text());
  const csv = name.endsWith('.csv') ? ['--agent', agent] : [];
  const batch = await answerOf<ShownBatch>('submit', name, ...flags, ...csv, '--name', 'new');
  expect(batch.name).toBe('new');
  expect((await nightshift(['watch', batch.id])).exitCode).toBe(0);
  const { stdout } = await nightshift(['results', batch.id, '--include', 'messages']);
  if (name === 'rows.csv') expect(stdout).toContain('Answer Ann: x, y');
});

test('a dry run counts, estimates, and stores nothing', async () => {
  writeFileSync(join(dir, 'tasks.jsonl'), linesOf('one', 'two'));
  const before = await nightshift(['ls', '--json']);
  expect(await answerOf('submit', 'tasks.jsonl', '--dry-run')).toMatchObject({
    dry_run: true,
    requests: 2,
    estimate: { runs: 2 },
  });
  expect(await answerOf('estimate', 'tasks.jsonl')).toMatchObject({ runs: 2 });
  expect(await nightshift(['ls', '--json'])).toEqual(before);
});

test('Ctrl-C ends watch with 130 and says that the batch goes on; it can be paused, resumed, cancelled and deleted', async () => {
  await house.control('POST', '/rules', {
    id: 'slow',
    op: 'create',
    match: { times: 1 },
    actions: [{ type: 'neverEnds' }],
  });
  const { stdout } = await nightshift(['submit', '-'], linesOf('slow'));
  const id = stdout.trim();
  // A log has a line per tenth: a watch from before the send would never show the phase.
  const phase = async (): Promise<string> =>
    (await house.client.get<{ readonly phase: string }>(`/v1/messages/batches/${id}/progress`)).phase;
  await expect.poll(phase, { timeout: 60_000 }).toBe('waiting_for_provider');
  const watching = start(['watch', id]);
  await watching.untilShown(/waiting for provider {2}0%/);
  watching.child.kill('SIGINT');
  const ended = await watching.ended;
  expect(ended.exitCode).toBe(130);
  expect(ended.stderr).toMatch(/Interrupted; the batch goes on\. .*nightshift watch job-/);

  expect(await answerOf<ShownBatch>('pause', id)).toMatchObject({ state: 'paused' });
  const paused = start(['watch', id]);
  await paused.untilShown(/paused .*Paused by request/);
  paused.child.kill('SIGINT');
  await paused.ended;
  expect(await answerOf<ShownBatch>('resume', id)).toMatchObject({ state: 'running' });
  expect(await answerOf('cancel', id, '--dry-run')).toEqual({ dry_run: true, runs: 1 });
  const unasked = await nightshift(['cancel', id]);
  expect(unasked).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/add --yes/) as unknown });
  expect(await answerOf<ShownBatch>('cancel', id, '--yes')).toMatchObject({ id });
  expect((await nightshift(['watch', id])).exitCode).toBe(1);
  expect(await answerOf('delete', id, '--yes')).toEqual({ id, deleted: true });
  expect((await nightshift(['show', id])).exitCode).toBe(2);
});

test('logs tells a run in the order of time; show knows every kind of id', async () => {
  const id = await finished('Hello.');
  const { run_id: run } = await answerOf<{ run_id: string }>('results', id);
  const { stdout } = await nightshift(['logs', run, '-f', '--json']);
  const entries = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string });
  expect(entries.map(({ kind }) => kind)).toEqual(['user', 'request', 'answer', 'assistant', 'end']);
  for (const each of [id, run, agent]) expect((await nightshift(['show', each])).stdout).toContain(each);
  expect(await nightshift(['show', 'nothing'])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/nothing is no id/) as unknown,
  });
  expect((await nightshift(['usage', '--by', 'model', '--json'])).stdout).toContain('claude-haiku-4-5');
});

test('api reaches every path', async () => {
  expect(await answerOf('api', 'GET', '/v1/agents', '-q', 'limit=1', '-q', 'name=triage')).toMatchObject([
    { id: agent },
  ]);
  const created = await nightshift(['api', 'post', '/v1/blocks', '-d', '-'], '{"label":"notes","value":"x"}');
  expect(JSON.parse(created.stdout)).toMatchObject({ label: 'notes' });
  expect(await nightshift(['api', 'GET', '/v1/nothing'])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/There is no GET .*lists the paths/) as unknown,
  });
});

test('config keeps settings and hides the key', async () => {
  await nightshift(['config', 'set', 'api_key'], 'ns_secret_key_of_a_test\n');
  const { NIGHTSHIFT_API_KEY: _, ...env } = environment();
  const { stdout } = await startCommand(['config'], env, dir).ended;
  expect(stdout).toMatch(/url +http\S+ +environment\napi_key +ns_sec… +file/);
  expect((await startCommand(['config', 'get', 'api_key'], env, dir).ended).stdout).toBe(
    'ns_secret_key_of_a_test\n',
  );
  await nightshift(['config', 'unset', 'api_key']);
  expect((await startCommand(['ls'], env, dir).ended).stderr).toMatch(
    /There is no API key\. Set NIGHTSHIFT_API_KEY/,
  );
});

test.each(['bash', 'zsh', 'fish'])('the completion of %s names commands and flags', async (shell) => {
  const { stdout, exitCode } = await nightshift(['completion', shell]);
  expect(exitCode).toBe(0);
  expect(stdout).toContain('submit');
  expect(stdout).toContain(shell === 'fish' ? '-l dry-run' : '--dry-run');
  if (shell !== 'bash') return;
  const words = `${stdout}\nCOMP_WORDS=(nightshift retry --def); COMP_CWORD=2; _nightshift; echo "\${COMPREPLY[@]}"`;
  expect(spawnSync('bash', ['--norc', '-c', words]).stdout.toString()).toBe('--definitions\n');
});

test.each([
  [
    'a line that is no JSON',
    ['submit', '-', '--name', 'x'],
    'not json\n',
    /Line 1 of standard input is no JSON/,
  ],
  ['a later line that is no JSON', ['submit', '-'], '{"batch":{}}\n{"agent_id":1}\nno json\n', /\/lines\/3/],
  [
    'a dry run with one',
    ['submit', '-', '--dry-run'],
    '{}\nno json\n',
    /Line 2 of standard input is no JSON/,
  ],
  ['no request', ['submit', '-'], '', /\S/],
  [
    'a CSV without the column',
    ['submit', '-', '--type', 'csv', '--template', '{{ b }}', '--agent', 'a'],
    'c\n1\n',
    /needs the column b, and standard input has c/,
  ],
  ['a file of an unknown kind', ['submit', 'tasks.txt'], '', /Add --type jsonl/],
  ['no file', ['submit', 'none.jsonl'], '', /none\.jsonl/],
  ['an unknown command', ['submitt'], '', /Did you mean submit/],
  ['a batch that is none', ['watch', 'job-1'], '', /job/],
  ['a wrong number', ['ls', '-n', 'x'], '', /whole number/],
] as const)('%s is told in a sentence, without a stack', async (_, args, input, message) => {
  const { exitCode, stdout, stderr } = await nightshift(args, input);
  expect(stderr).toMatch(message);
  expect(stderr).not.toMatch(/^ {4}at /m);
  expect({ exitCode: exitCode === 1 || exitCode === 2, stdout }).toEqual({ exitCode: true, stdout: '' });
});

test('a wrong key is told with its place, as JSON too', async () => {
  const env = { ...environment(), NIGHTSHIFT_API_KEY: 'ns_a_key_that_is_wrong' };
  const { exitCode, stderr } = await startCommand(['ls', '--json'], env, dir).ended;
  expect(exitCode).toBe(2);
  expect(JSON.parse(stderr)).toMatchObject({
    error: {
      code: 'unauthorized',
      message: expect.stringMatching(/comes from NIGHTSHIFT_API_KEY/) as unknown,
    },
  });
});

test('no API is exit code 3, and says what to do', async () => {
  const env = { ...environment(), NIGHTSHIFT_URL: `http://127.0.0.1:${await findFreePort()}` };
  const startedAt = performance.now();
  const { exitCode, stderr } = await startCommand(['ls'], env, dir).ended;
  expect(performance.now() - startedAt).toBeLessThan(3_000);
  expect(exitCode).toBe(3);
  expect(stderr).toMatch(/trying again in[^]*No answer from .*nightshift doctor finds the reason/);
});

test('an older API is told', async () => {
  const server: Server = createServer((_, answer) => {
    const problem = { code: 'unknown_path', status: 404, detail: 'There is no GET /v1/messages/batches.' };
    answer.writeHead(404, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const env = {
    ...environment(),
    NIGHTSHIFT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  };
  const { exitCode, stderr } = await startCommand(['ls'], env, dir).ended;
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(/There is no GET.*is older than/);
});

test('a batch whose answer is lost is found by the key that the command tells', async () => {
  const url = await startProxy(house.stack.apiUrl, (method) => (method === 'POST' ? 'drop' : 'pass'));
  const lines = linesOf('once only');
  const env = { ...environment(), NIGHTSHIFT_URL: url };
  const lost = await startCommand(['submit', '-', '--name', 'lost'], env, dir, lines).ended;
  expect(lost).toMatchObject({ exitCode: 1, stdout: '' });
  const [, key = ''] =
    /Repeat the command with --idempotency-key (\S+): it acts once/.exec(lost.stderr) ?? [];
  const found = await nightshift(['submit', '-', '--name', 'lost', '--idempotency-key', key], lines);
  expect(found.exitCode).toBe(0);
  const { stdout } = await nightshift(['--json', 'ls', '--name', 'lost']);
  expect((JSON.parse(stdout) as ShownBatch).id).toBe(found.stdout.trim());
});

test('a closed pipe ends quietly with 0', async () => {
  const id = await finished(...Array.from({ length: 300 }, (_, place) => `${place} ${'text '.repeat(200)}`));
  const script = `"$0" "$1" results ${id} | head -n 1; echo "\${PIPESTATUS[0]}"`;
  const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script, process.execPath, COMMAND], {
    env: { PATH: process.env.PATH, ...environment() },
    encoding: 'utf8',
  });
  const [line = '', exitCode] = stdout.trim().split('\n');
  expect(JSON.parse(line)).toMatchObject({ state: 'completed' });
  expect({ exitCode, stderr }).toEqual({ exitCode: '0', stderr: '' });
});

test.each(['watch JOB --json', 'results JOB --wait'])(
  'a closed pipe does not hide failed runs from %s',
  async (command) => {
    const id = await finished('is refused');
    const script = `"$0" "$1" ${command.replace('JOB', id)} | exec true; echo "\${PIPESTATUS[0]}"`;
    const { stdout } = spawnSync('bash', ['--norc', '-c', script, process.execPath, COMMAND], {
      env: { PATH: process.env.PATH, ...environment() },
      encoding: 'utf8',
    });
    expect(stdout).toBe('1\n');
  },
);

test('a full disk leaves no file that looks whole, and the same command goes on when there is room', async ({
  skip,
}) => {
  const disk = await mkdtemp(join(tmpdir(), 'nightshift-disk-'));
  onTestFinished(async () => {
    spawnSync('umount', [disk]);
    await rm(disk, { recursive: true, force: true });
  });
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', disk]).status !== 0)
    skip('may not mount');
  const id = await finished(...Array.from({ length: 200 }, (_, place) => `${place} ${'text '.repeat(200)}`));
  const file = join(disk, 'results.jsonl');
  const all = ['--include', 'messages'];
  const full = await nightshift(['results', id, '-o', file, ...all]);
  expect(full).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/disk of .* is full\. Free space/) as unknown,
  });
  expect(existsSync(file)).toBe(false);
  spawnSync('mount', ['-o', 'remount,size=4m', disk]);
  const again = await nightshift(['results', id, '-o', file, ...all]);
  expect(again).toMatchObject({
    exitCode: 0,
    stderr: expect.stringMatching(/Going on behind line/) as unknown,
  });
  expect(readFileSync(file, 'utf8')).toBe((await nightshift(['results', id, ...all])).stdout);
  expect(readdirSync(disk)).toEqual(['results.jsonl']);
});

test('a part of another batch is not continued', async () => {
  const [one, other] = [await finished('one'), await finished('other')];
  const { stdout } = await nightshift(['results', one]);
  writeFileSync(join(dir, 'r.jsonl.part'), stdout);
  const { exitCode, stderr } = await nightshift(['results', other, '-o', 'r.jsonl']);
  expect({ exitCode, stderr }).toMatchObject({
    exitCode: 0,
    stderr: expect.stringMatching(/downloading anew/) as unknown,
  });
  expect(readFileSync(join(dir, 'r.jsonl'), 'utf8')).toBe((await nightshift(['results', other])).stdout);
});

test('events shows what happens, until Ctrl-C', async () => {
  const watching = start(['events', '--json']);
  await watching.untilShown(/Waiting for events/);
  for (let isShown = false; !isShown;) {
    await finished('An event.');
    isShown = await Promise.race([
      watching.untilShown(/batch\.completed/).then(() => true),
      finished('x').then(() => false),
    ]);
  }
  watching.child.kill('SIGINT');
  expect((await watching.ended).exitCode).toBe(130);
});
