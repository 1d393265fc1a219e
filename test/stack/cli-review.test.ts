import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Block, HeldChange } from '../../libs/client/src/index.ts';
import { COMMAND, startCommand } from './command.ts';
import { openStackHouse, type StackHouse, type WireBatch } from './house.ts';
import { startProxy } from './proxy.ts';
import { hasTerminals, startInTerminal, type Terminal } from './terminal.ts';

const KEYS = /\? help/;

let house: StackHouse;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nightshift-review-'));
  house = await openStackHouse({ simulatorLatency: 'fixed:50', workers: 1 });
});
afterAll(async () => {
  await house.close();
  await rm(dir, { recursive: true, force: true });
});

if (!hasTerminals) process.stderr.write('The review in a terminal is not tested: there is no python3.\n');
const inTerminal = test.runIf(hasTerminals);

/** Text of the block before the batch. */
const BEFORE = `Ann lives in Bonn. She likes red tea.\n${'She walks a lot.\n'.repeat(20)}`;

let agents: readonly string[];
let batch: string;

/** Submits a batch under review that writes a text to the block of each new agent, and waits for its end. */
async function holdChanges(texts: readonly string[]): Promise<void> {
  agents = await Promise.all(
    texts.map(async (_, place) => {
      const { id } = await house.client.post<{ id: string }>('/v1/agents/', {
        name: `customer ${place}`,
        model: 'anthropic/claude-haiku-4-5',
        tools: ['memory_rethink'],
        include_base_tools: false,
        memory_blocks: [{ label: 'human', value: BEFORE }],
      });
      return id;
    }),
  );
  const { id } = await house.client.post<WireBatch>('/v1/messages/batches', {
    apply: 'review',
    requests: texts.map((text, place) => ({
      agent_id: agents[place],
      input: JSON.stringify({ tool: 'memory_rethink', args: { label: 'human', new_memory: text } }),
    })),
  });
  batch = id;
  await house.untilStatus(batch, 'completed');
}

const moved = (city: string): string => BEFORE.replace('Bonn', city);

function heldChanges(state: HeldChange['state']): Promise<HeldChange[]> {
  return house.client.get(`/v1/batches/${batch}/held-changes?state=${state}&sort=risk`);
}

async function valueOf(agent: string | undefined): Promise<string> {
  const block = await house.client.get<Block>(`/v1/agents/${agent ?? ''}/core-memory/blocks/human`);
  return block.value;
}

/** Writes an editor that runs this code on `text`, and returns its command. */
async function editorOf(code: string): Promise<string> {
  const file = join(dir, 'editor.mjs');
  await writeFile(
    file,
    `import { readFileSync, statSync, writeFileSync } from 'node:fs';
const file = process.argv[2];
if ((statSync(file).mode & 0o077) !== 0) process.exit(9);
const text = readFileSync(file, 'utf8');
writeFileSync(file, (() => { ${code} })());
`,
  );
  return `'${process.execPath}' '${file}'`;
}

function environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '',
    HOME: dir,
    TMPDIR: dir,
    TERM: 'xterm-256color',
    NIGHTSHIFT_URL: house.stack.apiUrl,
    NIGHTSHIFT_API_KEY: house.stack.apiKey,
    ...more,
  };
}

function review(flags: readonly string[] = [], more: Readonly<Record<string, string>> = {}): Terminal {
  const args = [process.execPath, COMMAND, 'memory', 'review', batch, ...flags];
  return startInTerminal(args, environment(more), dir);
}

/** Removes colours. */
const plain = (text: string): string => text.replaceAll(/\u001B\[[\d;]*[A-Za-z]/g, '').replaceAll('\r', '');

beforeEach(() => holdChanges(['Berlin', 'Paris', 'Rome', 'Oslo', 'Lima'].map(moved)));

inTerminal('a person accepts a change, edits one, rejects one, and accepts the rest', async () => {
  const held = await heldChanges('held');
  const [first, second, third] = held.map(({ agent_id }) => agent_id);
  const EDITOR = await editorOf(`return text.replace('tea', 'coffee');`);
  const terminal = review([], { EDITOR });

  const screen = plain(await terminal.untilShown(KEYS));
  expect(screen).toMatch(/── 1 of 5 ── human ─+/);
  expect(screen).toContain('completed, end_turn');
  expect(screen).toMatch(/Ann lives in Bonn\w+\. She likes red tea\./);
  expect(screen).toMatch(/··· \d+ unchanged lines ···/);
  terminal.press('a');

  expect(await terminal.untilShown(KEYS)).toContain('2 of 5');
  expect(await valueOf(first)).not.toBe(BEFORE);
  terminal.press('e');
  await terminal.untilShown(/Accept the change with your text\? \[y\/N\]/);
  terminal.press('y');

  expect(await terminal.untilShown(KEYS)).toContain('3 of 5');
  expect(await valueOf(second)).toContain('likes red coffee');
  terminal.press('r');

  expect(await terminal.untilShown(KEYS)).toContain('4 of 5');
  terminal.press('A');
  expect(await terminal.untilShown(/\[y\/N\]/)).toContain('Accept this and all further changes: 2?');
  terminal.press('y');

  const { exitCode, shown } = await terminal.ended;
  expect(exitCode).toBe(0);
  expect(shown).toContain('3 accepted, 1 edited, 1 rejected');
  expect(await heldChanges('held')).toEqual([]);
  const [edited] = (await heldChanges('accepted')).filter(({ agent_id }) => agent_id === second);
  expect(edited?.edited_at).not.toBeNull();
  expect(await valueOf(third)).toBe(BEFORE);
  expect((await readdir(dir)).filter((name) => name.startsWith('nightshift-edit'))).toEqual([]);
});

inTerminal('Ctrl-C leaves the rest held, and says how many and how to go on', async () => {
  const terminal = review();
  await terminal.untilShown(KEYS);
  terminal.press('a');
  await terminal.untilShown(KEYS);
  terminal.press('\u0003');
  const { exitCode, shown } = await terminal.ended;
  expect(exitCode).toBe(130);
  expect(shown).toContain(`4 changes stay held. nightshift memory review ${batch} goes on.`);
  expect(await heldChanges('held')).toHaveLength(4);
});

inTerminal('skip, back, help and an unknown key decide nothing', async () => {
  const terminal = review();
  for (const key of ['s', 'b', '?', 'x', 'n', 'n', 'v', 's', 's', 's']) {
    await terminal.untilShown(KEYS);
    terminal.press(key);
  }
  const { exitCode, shown } = await terminal.ended;
  expect(exitCode).toBe(0);
  expect(shown).toContain('5 changes stay held');
  expect(await heldChanges('held')).toHaveLength(5);
});

inTerminal('an edited block refuses the change with the reason; a merge keeps both', async () => {
  const [change] = await heldChanges('held');
  await house.client.post(`/v1/blocks/${change?.block_id ?? ''}/revert`, { revision: 1 });
  const block = `/v1/agents/${change?.agent_id ?? ''}/core-memory/blocks/human`;
  await fetch(`${house.stack.apiUrl}${block}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${house.stack.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ value: `${BEFORE}She has a dog.\n` }),
  });
  const terminal = review();
  await terminal.untilShown(KEYS);
  terminal.press('a');
  const refused = plain(await terminal.untilShown(KEYS));
  expect(refused).toMatch(/revision 2 is by the API/);
  expect(refused).toContain('1 of 5');
  expect(refused).toContain('Still held: the block was edited since the agent saw it');
  terminal.press('m');
  expect(await terminal.untilShown(KEYS)).toContain('2 of 5');
  terminal.press('q');
  await terminal.ended;
  const value = await valueOf(change?.agent_id);
  expect(value).toContain('She has a dog.');
  expect(value).not.toContain('Bonn');
});

inTerminal('an editor that fails, or changes nothing, leaves the change held', async () => {
  const failing = review([], { EDITOR: await editorOf('process.exit(3)') });
  await failing.untilShown(KEYS);
  failing.press('e');
  expect(await failing.untilShown(KEYS)).toMatch(/ended with 3, so nothing was changed/);
  failing.press('q');
  await failing.ended;
  const idle = review([], { EDITOR: await editorOf('return text') });
  await idle.untilShown(KEYS);
  idle.press('e');
  expect(await idle.untilShown(KEYS)).toContain('The text is as it was');
  idle.press('q');
  await idle.ended;
  expect(await heldChanges('held')).toHaveLength(5);
});

inTerminal('filters choose the changes, and the rest of the others stays held', async () => {
  await holdChanges([moved('Berlin'), 'Ann.', moved('Rome'), 'Ann.']);
  const terminal = review(['--shrunk']);
  const screen = plain(await terminal.untilShown(KEYS));
  expect(screen).toContain('1 of 2');
  expect(screen).toContain('Shrunk: most of the text is removed.');
  terminal.press('R');
  await terminal.untilShown(/further changes: 2\?/);
  terminal.press('y');
  expect((await terminal.ended).shown).toContain('0 accepted, 2 rejected');
  expect((await heldChanges('held')).map(({ shrunk }) => shrunk)).toEqual([false, false]);
});

inTerminal('a skipped change stays held when the rest is accepted', async () => {
  const terminal = review();
  await terminal.untilShown(KEYS);
  const [first] = await heldChanges('held');
  terminal.press('s');
  await terminal.untilShown(KEYS);
  terminal.press('A');
  await terminal.untilShown(/further changes: 4\?/);
  terminal.press('y');
  expect((await terminal.ended).shown).toContain('4 accepted, 0 rejected');
  expect((await heldChanges('held')).map(({ id }) => id)).toEqual([first?.id]);
});

inTerminal('keys pressed before a change is shown do not decide on it', async () => {
  const terminal = review();
  await terminal.untilShown(KEYS);
  terminal.press('aaaa');
  expect(await terminal.untilShown(KEYS)).toContain('2 of 5');
  terminal.press('q');
  expect((await terminal.ended).shown).toContain('1 accepted, 0 rejected');
  expect(await heldChanges('held')).toHaveLength(4);
});

inTerminal('Ctrl-C ends a review whose accept gets no answer', async () => {
  const { promise: hanging, resolve: hang } = Promise.withResolvers<undefined>();
  const url = await startProxy(house.stack.apiUrl, (_method, path) => {
    if (!path.endsWith('/accept')) return 'pass';
    hang(undefined);
    return 'hang';
  });
  const terminal = review([], { NIGHTSHIFT_URL: url });
  await terminal.untilShown(KEYS);
  terminal.press('a');
  await hanging;
  terminal.press('\u0003');
  expect((await terminal.ended).exitCode).toBe(130);
  expect(await heldChanges('held')).toHaveLength(5);
});

inTerminal('archival passages are named before they are settled', async () => {
  const { id: agent_id } = await house.client.post<{ id: string }>('/v1/agents/', {
    name: 'archivist',
    model: 'anthropic/claude-haiku-4-5',
    tools: ['archival_memory_insert'],
    include_base_tools: false,
  });
  const { id } = await house.client.post<WireBatch>('/v1/messages/batches', {
    apply: 'review',
    requests: [
      {
        agent_id,
        input: JSON.stringify({ tool: 'archival_memory_insert', args: { content: 'Likes tea.' } }),
      },
      {
        agent_id: agents[0],
        input: JSON.stringify({
          tool: 'memory_rethink',
          args: { label: 'human', new_memory: moved('Bern') },
        }),
      },
    ],
  });
  batch = id;
  await house.untilStatus(batch, 'completed');
  const passed = review();
  await passed.untilShown(KEYS);
  passed.press('R');
  await passed.untilShown(/Reject this and all further changes: 1, and 1 archival passage\? \[y\/N\]/);
  passed.press('n');
  await passed.untilShown(KEYS);
  passed.press('r');
  expect((await passed.ended).shown).toContain('1 archival passage stays held');
  const args = ['--json', 'memory', 'review', batch, '--reject-all', '--yes'];
  const { exitCode, stdout } = await startCommand(args, environment(), dir).ended;
  expect({ exitCode, report: JSON.parse(stdout) as object }).toEqual({
    exitCode: 0,
    report: { job_id: batch, rejected: 0, passages: 1, held: 0, stale: [] },
  });
});
