import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject } from 'vitest';
import type {} from '../global-setup.ts';
import type { LedgerSnapshot } from '../../apps/simulator/src/index.ts';
import { openTestDatabase } from '../../libs/db/src/testing/index.ts';
import { createClient, type Client } from '../../scripts/demo/client.ts';
import { startStack, type Stack, type StackOptions } from '../../scripts/stack/stack.ts';

/** A running service of real processes, in its own directory. */
export interface StackHouse {
  readonly stack: Stack;
  readonly client: Client;
  /** Stores an agent with an empty block `notes` and the tools. Returns its id. */
  createAgent(name: string, tools: readonly string[]): Promise<string>;
  /** Submits a run per agent; `input` returns the message for the agent at a place. */
  submit(agentIds: readonly string[], input: (place: number) => string): Promise<string>;
  /** Polls the batch until it has one of the statuses. */
  untilStatus(batchId: string, ...statuses: readonly string[]): Promise<WireBatch>;
  /** Calls the control port of the simulated provider. */
  control<T>(method: string, path: string, body?: unknown): Promise<T>;
  /** Checks the provider's ledger: nothing billed twice, and every billed answer applied. */
  expectPaidOnce(): Promise<void>;
  close(): Promise<void>;
}

export interface WireBatch {
  readonly id: string;
  readonly status: string;
  readonly counts: { readonly completed: number; readonly total: number };
  readonly usage: { readonly steps: number };
}

/** Times with which a batch runs within a second or two. */
const FAST_WORKERS = {
  LEASE_MS: '1500',
  SWEEP_INTERVAL_MS: '200',
  GATHER_WINDOW_MS: '50',
  POLL_INTERVAL_MS: '100',
  CREATE_TIMEOUT_MS: '2000',
  QUARANTINE_MS: '2000',
  SEARCH_INTERVAL_MS: '200',
  RETRY_DELAY_MS: '100',
};

/**
 * Opens a service on a migrated database of the tests' server. `databaseUrl` names another; undefined is the embedded server.
 */
export async function openStackHouse(
  options: Partial<StackOptions> & { readonly simulatorLatency: string },
): Promise<StackHouse> {
  const dir = await mkdtemp(join(tmpdir(), 'nightshift-stack-'));
  const database = 'databaseUrl' in options ? undefined : await openTestDatabase(inject('postgresUrl'));
  const stack = await startStack({
    dataDir: dir,
    databaseUrl: database?.url,
    workers: 2,
    port: 0,
    toolsDir: join(import.meta.dirname, '../../samples/tools'),
    ...options,
    workerEnv: { ...FAST_WORKERS, ...options.workerEnv },
  });
  const client = createClient(stack.apiUrl, stack.apiKey);
  const control = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${stack.simulatorControlUrl ?? ''}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    expect(answer.status).toBe(200);
    return (await answer.json()) as T;
  };
  return {
    stack,
    client,
    async createAgent(name, tools) {
      const agent = await client.post<{ readonly id: string }>('/v1/agents/', {
        name,
        model: 'anthropic/claude-haiku-4-5',
        include_base_tools: false,
        tools,
        memory_blocks: [{ label: 'notes', value: '' }],
      });
      return agent.id;
    },
    async submit(agentIds, input) {
      const batch = await client.post<WireBatch>('/v1/messages/batches', {
        requests: agentIds.map((agent_id, place) => ({ agent_id, input: input(place) })),
      });
      return batch.id;
    },
    async untilStatus(batchId, ...statuses) {
      for (;;) {
        const batch = await client.get<WireBatch>(`/v1/messages/batches/${batchId}`);
        if (statuses.includes(batch.status)) return batch;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    control,
    async expectPaidOnce() {
      const { totals, repeated } = await control<LedgerSnapshot>('GET', '/ledger');
      const { rows } = await stack.pool.query<{ applied: number }>(
        'select count(*)::int as applied from step where applied_at is not null',
      );
      expect({ billed: totals.requests, twice: repeated.content_hashes }).toEqual({
        billed: rows[0]?.applied,
        twice: 0,
      });
    },
    async close() {
      await stack.stop();
      await database?.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Creates agents for {@link newWork}. */
export function createAgents(house: StackHouse, count: number): Promise<string[]> {
  return Promise.all(
    Array.from({ length: count }, (_, place) =>
      house.createAgent(`agent ${place}`, ['core_memory_append', 'compare_versions']),
    ),
  );
}

/** Number of the batch, so that all requests differ. */
let batches = 0;

/**
 * Returns the input of each agent of a batch: a memory call, then a call of a tool module; its answer is the third step. All
 * texts differ, so that the provider's ledger shows double payments.
 */
export function newWork(): (place: number) => string {
  batches += 1;
  const batch = batches;
  return (place) => workOf(`${batch}/${place}`);
}

function workOf(name: string): string {
  return [
    { tool: 'core_memory_append', args: { label: 'notes', content: `seen ${name}` } },
    { tool: 'compare_versions', args: { versions: ['1.10.0', '1.9.0'] } },
  ]
    .map((call) => JSON.stringify(call))
    .join('\n');
}

/** Returns the ids of a process and its living descendants. Linux only. */
export function familyOf(pid: number): readonly number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const parent = parentOf(Number(name));
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const family: number[] = [];
  const walk = (id: number): void => {
    family.push(id);
    for (const child of children.get(id) ?? []) walk(child);
  };
  walk(pid);
  return family;
}

/** Returns the parent of a process; null if it has ended or is a zombie. */
function parentOf(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' ? null : Number(parent);
  } catch {
    return null;
  }
}

/** Tells whether the process lives. */
export function lives(pid: number): boolean {
  return parentOf(pid) !== null;
}
