import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leaseOwnerPrefix, type StackProcess } from '../../scripts/stack/processes.ts';
import { createAgents, familyOf, lives, newWork, openStackHouse, type StackHouse } from './house.ts';

interface WireMessage {
  readonly role: string;
  readonly agent_id: string;
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly tool_calls:
    readonly { readonly id: string; readonly function: { readonly name: string } }[] | null;
  readonly tool_call_id: string | null;
  readonly tool_returns: readonly { readonly tool_call_id: string; readonly status: string }[];
}

/** Sets a rule of the simulator for the next download of results. */
async function onNextResults(house: StackHouse, action: Readonly<Record<string, unknown>>): Promise<void> {
  const rule = { id: 'results', op: 'results', match: { times: 1 }, action };
  await house.control('POST', '/rules', rule);
}

/** Waits for a worker that reads the results of a provider batch, and returns it. */
async function untilReading(house: StackHouse): Promise<StackProcess> {
  for (;;) {
    const { rules } = await house.control<{ rules: { id: string; fired: number }[] }>('GET', '/rules');
    const { rows } = await house.stack.pool.query<{ lease_owner: string }>(
      `select lease_owner from provider_batch where state = 'ended' and lease_until > app_now()`,
    );
    const reader = house.stack.workers.find((worker) =>
      rows[0]?.lease_owner.startsWith(leaseOwnerPrefix(worker)),
    );
    if (rules.some((rule) => rule.id === 'results' && rule.fired > 0) && reader?.alive() === true)
      return reader;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Resolves when the worker reports its stop. */
function untilStopping(worker: StackProcess): Promise<true> {
  return worker.firstLine((line) => (line.includes('worker stops') ? true : undefined));
}

describe('two workers, with embedded Postgres as database and queue', () => {
  let house: StackHouse;
  beforeAll(async () => {
    house = await openStackHouse({ simulatorLatency: 'uniform:50-200', databaseUrl: undefined });
  });
  afterAll(() => house.close());

  test('a batch created over HTTP finishes, and its messages are input, calls, results and answer', async () => {
    const agents = await createAgents(house, 5);
    const work = newWork();
    const batchId = await house.submit(agents, work);
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({
      status: 'completed',
      counts: { total: 5, completed: 5 },
      usage: { steps: 15 },
    });

    const { messages } = await house.client.get<{ messages: WireMessage[] }>(
      `/v1/messages/batches/${batchId}/messages?limit=100&order=asc`,
    );
    expect(messages).toHaveLength(agents.length * 6);
    for (const [place, agentId] of agents.entries()) {
      const own = messages.slice(place * 6, place * 6 + 6);
      expect(own.map((message) => message.agent_id)).toEqual(own.map(() => agentId));
      expect(own.map((message) => message.role)).toEqual([
        'user',
        'assistant',
        'tool',
        'assistant',
        'tool',
        'assistant',
      ]);
      expect(own[0]?.content[0]?.text).toBe(work(place));
      for (const [call, result, tool] of [
        [own[1], own[2], 'core_memory_append'],
        [own[3], own[4], 'compare_versions'],
      ] as const) {
        const made = call?.tool_calls?.[0];
        expect(made?.function.name).toBe(tool);
        // The provider's own id: it would refuse others in the next request of the conversation.
        expect(made?.id).toMatch(/^toolu_01[A-Za-z0-9]{22}$/);
        expect(result?.tool_returns).toMatchObject([{ tool_call_id: made?.id, status: 'success' }]);
      }
      expect(own[4]?.content[0]?.text).toContain('1.10.0');
      expect(own[5]?.content[0]?.text).toContain('Done after 2 tool results');
    }
    const blocks = await house.client.get<{ label: string; value: string }[]>(
      `/v1/agents/${agents[3]}/core-memory/blocks`,
    );
    expect(blocks).toMatchObject([{ label: 'notes', value: '\nseen 1/3' }]);
  });

  test('a worker killed during a run takes its tool host along, and the other worker finishes', async () => {
    const batchId = await house.submit(await createAgents(house, 8), newWork());
    await onNextResults(house, { type: 'hold' });
    const victim = await untilReading(house);
    const family = familyOf(victim.pid);
    expect(family.length).toBeGreaterThan(1);
    await victim.kill();
    await house.control('DELETE', '/rules/results');
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({ status: 'completed', counts: { completed: 8 }, usage: { steps: 24 } });
    await expect.poll(() => family.filter(lives)).toEqual([]);
    await house.expectPaidOnce();
  });

  test('a worker stopped during work exits with 0 and releases its rows at once', async () => {
    await house.stack.addWorker('worker-3');
    const batchId = await house.submit(await createAgents(house, 8), newWork());
    await onNextResults(house, { type: 'hold' });
    const worker = await untilReading(house);
    const stops = untilStopping(worker);
    const askedAt = performance.now();
    process.kill(worker.pid, 'SIGTERM');
    await stops;
    await house.control('DELETE', '/rules/results');
    expect(await worker.ended).toBe(0);
    expect(performance.now() - askedAt).toBeLessThan(20_000);
    const { rows } = await house.stack.pool.query(
      `select 'batch' from batch where starts_with(lease_owner, $1) union all select 'provider_batch' from provider_batch
        where starts_with(lease_owner, $1) union all select 'run_chunk' from run_chunk where starts_with(lease_owner, $1)
        union all select 'credential' from credential where starts_with(lease_owner, $1)`,
      [leaseOwnerPrefix(worker)],
    );
    expect(rows).toEqual([]);
    const batch = await house.untilStatus(batchId, 'completed', 'failed');
    expect(batch).toMatchObject({ status: 'completed', counts: { completed: 8 }, usage: { steps: 24 } });
    await house.expectPaidOnce();
  });

  test('a second signal ends a stopping worker at once, unless it duplicates the first', async () => {
    await house.stack.addWorker('worker-4');
    await house.submit(await createAgents(house, 1), newWork());
    await onNextResults(house, { type: 'hold' });
    const worker = await untilReading(house);
    const stops = untilStopping(worker);
    const askedAt = performance.now();
    process.kill(worker.pid, 'SIGTERM');
    await stops;
    const at = performance.now();
    const repeating = setInterval(() => process.kill(worker.pid, 'SIGINT'), 100);
    void worker.ended.then(() => clearInterval(repeating));
    expect(await worker.ended).toBe(1);
    expect(performance.now() - askedAt).toBeGreaterThan(900);
    expect(performance.now() - at).toBeLessThan(5_000);
    await house.control('DELETE', '/rules/results');
  });

  test('a stack stops its workers and its API together, and leaves no process behind', async () => {
    const { rows } = await house.stack.pool.query<{ pid: number }>('select pg_backend_pid() as pid');
    const family = familyOf(process.pid).filter((pid) => pid !== process.pid);
    expect(family).toEqual(
      expect.arrayContaining(house.stack.workers.filter((w) => w.alive()).map((w) => w.pid)),
    );
    expect(lives(rows[0]!.pid)).toBe(true);
    // A slow worker, started last, delays no other.
    const slow = await house.stack.addWorker('worker-5');
    const others = [...house.stack.workers, ...house.stack.processes].filter(
      (each) => each.alive() && each !== slow && each.name !== 'simulator',
    );
    expect(others.map((each) => each.name)).toContain('api');
    process.kill(slow.pid, 'SIGSTOP');
    const stopped = house.stack.stop();
    await expect.poll(() => others.filter((each) => each.alive())).toEqual([]);
    process.kill(slow.pid, 'SIGCONT');
    await stopped;
    await expect.poll(() => [...family, rows[0]!.pid].filter(lives)).toEqual([]);
  });
});

test('a stack whose owner is killed ends with all its processes', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-orphan-'));
  const owner = spawn(process.execPath, [join(import.meta.dirname, 'owner.ts'), dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const lines = createInterface({ input: owner.stdout });
    const [line] = (await Promise.race([once(lines, 'line'), once(lines, 'close')])) as [string?];
    if (line === undefined) throw new Error('The stack did not start.');
    const { postgres } = JSON.parse(line) as { postgres: number };
    const family = [...familyOf(owner.pid ?? 0), postgres];
    expect(family.length).toBeGreaterThan(5);
    owner.kill('SIGKILL');
    await expect.poll(() => family.filter(lives), { timeout: 120_000 }).toEqual([]);
  } finally {
    owner.kill('SIGKILL');
    await rm(dir, { recursive: true, force: true, maxRetries: 5 });
  }
});
