import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { auditInvariants } from '../../libs/db/src/index.ts';
import { createClient, eachOf, type Client } from '../../scripts/demo/client.ts';
import { fencesOf, needPrograms, openDirectory, runSession, startFastStack } from './session.ts';
import { read } from './repository.ts';

const AGENTS = 300;
/** Agents of whom the first night brings no user message. */
const SILENT = 20;
/** Agents whose changes are rejected. */
const TRIAL = 10;
/** Agents with new messages before the second night. */
const TOLD_AGAIN = 10;

const said = (agent_id: string, roles: readonly string[], content: string) => ({
  agent_id,
  messages: roles.map((role, place) => ({
    role,
    content: `${content} (${place})`,
    otid: `${content}/${place}`,
  })),
});

function createAgent(client: Client, place: number): Promise<{ readonly id: string }> {
  return client.post('/v1/agents/', {
    name: `customer ${place}`,
    model: 'anthropic/claude-haiku-4-5',
    include_base_tools: false,
    tags: ['customer', ...(place >= SILENT && place < SILENT + TRIAL ? ['trial'] : [])],
    memory_blocks: [
      { label: 'summary', value: `Customer ${place}.` },
      { label: 'preferences', value: '', description: 'Wishes (prefer).' },
      { label: 'persona', value: 'Kind.' },
    ],
  });
}

interface WireBatch {
  readonly id: string;
  readonly counts: Readonly<Record<string, unknown>>;
  readonly usage: { readonly cost_usd: string };
}

test('docs/nightly.md has at most 120 lines', () => {
  expect(read('docs/nightly.md').trimEnd().split('\n').length).toBeLessThanOrEqual(120);
});

test(
  'the commands of docs/nightly.md review two nights of 300 agents',
  { timeout: 120_000 },
  async (context) => {
    needPrograms(context);
    const stack = await startFastStack();
    const client = createClient(stack.apiUrl, stack.apiKey);
    const places = Array.from({ length: AGENTS }, (_, place) => place);
    const agents = (await eachOf(places, 16, (place) => createAgent(client, place))).map(({ id }) => id);
    const directory = openDirectory();
    const write = (name: string, text: string): void => writeFileSync(join(directory, name), text);
    const [schedule = ''] = fencesOf('docs/nightly.md', 'json');
    write('nightly.json', schedule);
    const today = agents.map((id, place) =>
      said(id, place < SILENT ? ['assistant', 'assistant'] : ['user', 'assistant'], `I prefer room ${place}`),
    );
    write('today.json', JSON.stringify({ items: today }));
    const toldAgain = agents.slice(-TOLD_AGAIN);
    const tomorrow = toldAgain.map((id) => said(id, ['user'], 'The address has changed'));
    write('tomorrow.json', JSON.stringify({ items: tomorrow }));

    const output = await runSession('docs/nightly.md', stack, directory);

    expect(output).toContain('{ appended: 600, repeated: 0, waiting: 0 }');
    expect(output).toMatch(/^paused$/m);
    expect(output).toContain("description: 'At 02:00, Europe/Berlin'");
    expect(output).toMatch(/fleet: \{\s+agents: 300,/);
    expect(output).toContain("verdict: 'may_pause'");
    expect(output).toMatch(/^\+- I prefer room \d+ \(0\) \([\d-]+\)$/m);
    expect(output).toMatch(/^nothing_new$/m);
    expect(output.match(/^started job-/gm)).toHaveLength(2);

    const rows = async <Row>(text: string): Promise<Row[]> => (await stack.pool.query(text)).rows as Row[];
    const agentsOf = async (query: string): Promise<readonly string[]> =>
      (await rows<{ id: string }>(query)).map(({ id }) => `agent-${id}`).sort();
    const [first, second] = await client.get<readonly WireBatch[]>('/v1/batches?order=asc');
    expect(first?.counts).toMatchObject({ completed: AGENTS, total: AGENTS, skipped: {} });
    expect(Number(first?.usage.cost_usd)).toBeGreaterThan(0);
    const runsOf = (batch: WireBatch | undefined) => `batch_id = '${batch?.id.slice('job-'.length)}'`;

    const heldOf = (state: string) =>
      agentsOf(
        `select distinct agent_id as id from held_change where ${runsOf(first)} and state = '${state}'`,
      );
    const rejected = await heldOf('rejected');
    const accepted = await heldOf('accepted');
    expect(rejected).toHaveLength(TRIAL);
    expect(rejected.length + accepted.length).toBe(AGENTS - SILENT);
    expect(accepted.filter((id) => rejected.includes(id))).toEqual([]);
    const reverted = await agentsOf('select agent_id as id from cursor_rewind');
    expect(reverted).toHaveLength(1);
    expect(accepted).toContain(reverted[0]);

    // The second night runs exactly the agents with something new.
    expect(await agentsOf(`select agent_id as id from run where ${runsOf(second)}`)).toEqual(
      [...new Set([...toldAgain, ...rejected, ...reverted])].sort(),
    );
    const doc = /\{ nothing_new: (\d+) \}/;
    const skipped = AGENTS - toldAgain.length - rejected.length - reverted.length;
    expect(doc.exec(output)?.[1]).toBe(String(skipped));
    expect(doc.exec(read('docs/nightly.md'))?.[1]).toBe(String(skipped));
    expect(
      await rows(`select count(*)::int as written from block_revision r join agent_block k using (block_id)
      where k.label = 'persona' and r.revision > 1`),
    ).toEqual([{ written: 0 }]);
    expect(await auditInvariants(stack.db)).toEqual([]);
  },
);
