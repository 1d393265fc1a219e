import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { fc } from '../../../../test/fast-check.ts';
import {
  DEFAULT_PROJECT_ID,
  findTools,
  grantCalls,
  inTransaction,
  lockTools,
  registerModuleTools,
  type CallGrant,
  type Database,
} from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

const LEASE_MS = 10_000;
const T0 = Date.parse('2026-11-20T00:00:00Z');

let database: TestDatabase;
let db: Database;
let toolId: string;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
  db = database.db;
  await inTransaction(db, (trx) =>
    registerModuleTools(trx, DEFAULT_PROJECT_ID, [
      {
        name: 'fetch',
        description: 'Fetches.',
        input_schema: { type: 'object' },
        side_effects: 'none',
        return_char_limit: 100,
        timeout_ms: 1_000,
      },
    ]),
  );
  const [tool] = await findTools(db, DEFAULT_PROJECT_ID, { ids: [], names: ['fetch'] });
  toolId = tool!.id;
});
afterAll(() => database.close());
beforeEach(() => sql`truncate tool_grant, tool_bucket`.execute(db));

const limit = (concurrency: number | null, rate_per_minute: number | null = null) =>
  db.updateTable('tool').set({ concurrency, rate_per_minute }).where('id', '=', toolId).execute();

interface Asked {
  readonly under_way?: number;
  readonly waiting?: number;
  readonly unused?: number;
}

/** Asks for grants as a worker; `ms`: the database's time, since an instant. */
function ask(
  owner: string,
  { under_way = 0, waiting = 0, unused = 0 }: Asked,
  ms: number | null = null,
): Promise<CallGrant> {
  return inTransaction(db, async (trx) => {
    await lockTools(trx, [toolId]);
    if (ms !== null)
      await sql`select set_config('nightshift.now', ${new Date(T0 + ms).toISOString()}, true)`.execute(trx);
    const [grant] = await grantCalls(trx, { owner, lease_duration_ms: LEASE_MS }, [
      { tool_id: toolId, under_way, waiting, unused },
    ]);
    return grant ?? { tool_id: toolId, places: null, tokens: null };
  });
}

const rows = () => db.selectFrom('tool_grant').select(['owner', 'places']).orderBy('owner').execute();

describe('a limit of concurrency', () => {
  test('is shared by the workers whose calls wait', async () => {
    await limit(5);
    expect((await ask('a', { waiting: 20 }, 0)).places).toBe(5);
    // All places are taken, so a second worker gets those that come free, up to its share.
    expect((await ask('b', { waiting: 20 }, 0)).places).toBe(0);
    expect((await ask('a', { under_way: 5, waiting: 15 }, 0)).places).toBeLessThanOrEqual(3);
    expect((await ask('b', { waiting: 20 }, 0)).places).toBe(0);
    const a = (await ask('a', { under_way: 2, waiting: 15 }, 0)).places!;
    const b = (await ask('b', { waiting: 20 }, 0)).places!;
    expect([a, b].sort()).toEqual([2, 3]);
  });

  test('leaves places that one worker does not want to another', async () => {
    await limit(5);
    expect((await ask('a', { waiting: 1 }, 0)).places).toBe(1);
    expect((await ask('b', { waiting: 20 }, 0)).places).toBe(4);
    expect((await ask('a', {}, 0)).places).toBe(0);
    expect((await ask('b', { under_way: 4, waiting: 16 }, 0)).places).toBe(5);
    expect(await rows()).toEqual([{ owner: 'b', places: 5 }]);
  });

  test('keeps the places of a dead worker for the duration of a lease', async () => {
    await limit(5);
    expect((await ask('dead', { waiting: 20 }, 0)).places).toBe(5);
    expect((await ask('b', { waiting: 20 }, LEASE_MS - 1)).places).toBe(0);
    expect((await ask('b', { waiting: 20 }, LEASE_MS + 1)).places).toBe(5);
    expect(await rows()).toEqual([{ owner: 'b', places: 5 }]);
  });

  test('gives a single place to waiting workers in turns', async () => {
    await limit(1);
    const turns: string[] = [];
    const under = { a: 0, b: 0 };
    for (let second = 0; second < 12; second++) {
      for (const owner of ['a', 'b'] as const) {
        // Each call ends before the next request.
        const { places } = await ask(owner, { waiting: 9 }, second * 1_000);
        under[owner] += places!;
        if (places === 1 && turns.at(-1) !== owner) turns.push(owner);
      }
    }
    expect(under.a).toBeGreaterThan(2);
    expect(under.b).toBeGreaterThan(2);
    expect(turns.length).toBeGreaterThan(3);
  });

  test('that is lowered keeps further calls from starting, and one that is lifted lets all start', async () => {
    await limit(5);
    expect((await ask('a', { waiting: 20 }, 0)).places).toBe(5);
    await limit(2);
    expect((await ask('a', { under_way: 5, waiting: 15 }, 0)).places).toBe(2);
    expect((await ask('b', { waiting: 20 }, 0)).places).toBe(0);
    await limit(null);
    expect(await ask('b', { waiting: 20 }, 0)).toMatchObject({ places: null, tokens: null });
    expect((await rows()).map(({ owner }) => owner)).toEqual(['a']);
  });

  test('holds when workers ask at the same time', async () => {
    await limit(5);
    const owners = Array.from({ length: 6 }, (_, index) => `worker ${index}`);
    for (let round = 0; round < 10; round++) {
      const granted = await Promise.all(owners.map((owner) => ask(owner, { waiting: 3 })));
      expect(granted.reduce((sum, { places }) => sum + places!, 0)).toBeLessThanOrEqual(5);
      expect((await rows()).reduce((sum, { places }) => sum + places, 0)).toBe(5);
      await Promise.all(owners.map((owner) => ask(owner, {})));
    }
  });
});

interface Worker {
  under_way: number;
  waiting: number;
  places: number;
  askedMs: number;
}

const OWNERS = ['a', 'b', 'c'] as const;
const step = fc.oneof(
  fc.record({
    op: fc.constantFrom('work', 'work', 'work', 'work', 'ask', 'start', 'die'),
    owner: fc.constantFrom(...OWNERS),
  }),
  fc.record({
    op: fc.constant('want'),
    owner: fc.constantFrom(...OWNERS),
    count: fc.integer({ min: 1, max: 9 }),
  }),
  fc.record({
    op: fc.constant('end'),
    owner: fc.constantFrom(...OWNERS),
    count: fc.integer({ min: 1, max: 4 }),
  }),
  fc.record({
    op: fc.constant('wait'),
    owner: fc.constant('a' as const),
    count: fc.integer({ min: 1, max: 6 }),
  }),
);

test('whatever workers ask, start, end and die, no more calls are under way than the limit', async () => {
  await limit(4);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
      await sql`truncate tool_grant`.execute(db);
      let ms = 0;
      let born = 0;
      const workers = new Map<string, Worker & { readonly name: string }>();
      const dead: { readonly calls: number; readonly untilMs: number }[] = [];
      const workerOf = (owner: string): Worker & { readonly name: string } => {
        const worker = workers.get(owner) ?? {
          ...{ name: `${owner}${(born += 1)}`, under_way: 0, waiting: 0, places: 0, askedMs: -Infinity },
        };
        workers.set(owner, worker);
        return worker;
      };
      const askAs = async (worker: Worker & { readonly name: string }): Promise<void> => {
        worker.places = (await ask(worker.name, worker, ms)).places!;
        worker.askedMs = ms;
      };
      for (const { op, owner, ...rest } of steps) {
        const count = 'count' in rest ? rest.count : 0;
        const worker = workerOf(owner);
        if (op === 'ask' || op === 'work') await askAs(worker);
        if (op === 'want') worker.waiting += count;
        if (op === 'end') worker.under_way = Math.max(0, worker.under_way - count);
        if ((op === 'start' || op === 'work') && ms - worker.askedMs <= LEASE_MS / 2) {
          const starting = Math.max(0, Math.min(worker.waiting, worker.places - worker.under_way));
          worker.under_way += starting;
          worker.waiting -= starting;
        }
        if (op === 'die') {
          // Its calls may go on until its grant lapses.
          dead.push({ calls: worker.under_way, untilMs: worker.askedMs + LEASE_MS });
          workers.delete(owner);
        }
        if (op === 'wait') {
          ms += count * 1_000;
          // A worker with calls asks again in time.
          for (const other of workers.values()) if (other.under_way > 0) await askAs(other);
        }
        const lost = dead.filter(({ untilMs }) => untilMs > ms).reduce((sum, { calls }) => sum + calls, 0);
        const running = [...workers.values()].reduce((sum, { under_way }) => sum + under_way, 0);
        expect(running + lost).toBeLessThanOrEqual(4);
      }
      ms += LEASE_MS + 1;
      const last = { ...workerOf('a'), name: 'last', waiting: 9, under_way: 0 };
      await askAs(last);
      expect(last.places).toBe(4);
    }),
    { numRuns: 40 },
  );
}, 60_000);

describe('a limit of the rate', () => {
  test('is kept by all workers together, and used by each', async () => {
    await limit(null, 60);
    const starts: { readonly owner: string; readonly ms: number }[] = [];
    for (let ms = 0; ms < 300_000; ms += 500) {
      const owner = ms % 1_000 === 0 ? 'a' : 'b';
      const { places, tokens } = await ask(owner, { waiting: 1_000 }, ms);
      expect(places).toBeNull();
      for (let token = 0; token < tokens!; token++) starts.push({ owner, ms });
    }
    for (const { ms: from } of starts) {
      const inMinute = starts.filter(({ ms }) => ms >= from && ms < from + 60_000).length;
      expect(inMinute).toBeLessThanOrEqual(60 + 3);
    }
    expect(starts.length).toBeGreaterThan(0.95 * 300);
    for (const owner of ['a', 'b'])
      expect(starts.filter((start) => start.owner === owner).length).toBeGreaterThan(90);
  });

  test('takes back tokens that no call has used, and hoards none', async () => {
    await limit(null, 120);
    expect((await ask('a', { waiting: 9 }, 0)).tokens).toBe(6);
    expect((await ask('a', { waiting: 9 }, 0)).tokens).toBe(0);
    expect((await ask('a', { waiting: 4, unused: 6 }, 0)).tokens).toBe(4);
    expect((await ask('a', { waiting: 9 }, 3_600_000)).tokens).toBe(6);
  });

  test('below one call in three seconds lets the first call start at once', async () => {
    await limit(null, 1);
    expect((await ask('a', { waiting: 9 }, 0)).tokens).toBe(1);
    expect((await ask('a', { waiting: 9 }, 59_000)).tokens).toBe(0);
    expect((await ask('a', { waiting: 9 }, 60_000)).tokens).toBe(1);
  });

  test('does not run backwards with the clock', async () => {
    await limit(null, 60);
    await ask('a', { waiting: 9 }, 60_000);
    expect((await ask('a', { waiting: 9 }, 0)).tokens).toBe(0);
  });
});
