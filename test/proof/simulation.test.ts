import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import type { ToolRequest } from '../../apps/worker/src/tools/runner.ts';
import { claimCredential, releaseCredential } from '../../libs/db/src/index.ts';
import { openProofDatabase, type ProofDatabase } from '../../proof/database.ts';
import { findStrays } from '../../proof/oracles.ts';
import { createLedger } from '../../proof/provider-ledger.ts';
import { CALM } from '../../proof/provider-temper.ts';
import { createRandom } from '../../proof/random.ts';
import { readRegressions } from '../../proof/regressions.ts';
import { simulate, type SimulationOptions } from '../../proof/simulation.ts';
import { createToolWorld } from '../../proof/tools.ts';

// Seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 });

let database: ProofDatabase;
beforeAll(async () => {
  database = await openProofDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

const violationsOf = async (options: SimulationOptions): Promise<unknown> =>
  (await simulate(database, options)).violations;

test('seeds with kills, pauses and lost replies end without a violation', async () => {
  let kills = 0;
  for (let seed = 1; seed <= 8; seed++) {
    const { violations, faults } = await simulate(database, { seed });
    expect(violations, `seed ${seed}`).toEqual([]);
    kills += faults.kill;
  }
  expect(kills).toBeGreaterThan(5);
});

test('seeds that failed once do not fail again', async () => {
  for (const { what, ...regression } of readRegressions()) {
    const { seed } = regression;
    expect(await violationsOf({ ...regression, exactly: true }), `seed ${seed}, ${what}`).toEqual([]);
  }
});

test('a seed gives the same trace every time', async () => {
  const first = await simulate(database, { seed: 77, exactly: true });
  const second = await simulate(database, { seed: 77, exactly: true });
  expect(second.traceHash).toBe(first.traceHash);
  expect(second.trace).toEqual(first.trace);
});

test('a seed starts without the state that an earlier seed left on the credential', async () => {
  const { db } = database;
  const credentials = () => db.selectFrom('credential').selectAll().execute();
  await database.reset(false);
  const fresh = await credentials();
  const lease = await claimCredential(db, 'default', { owner: 'worker', lease_duration_ms: 30_000 });
  await releaseCredential(db, lease!, { kind: 'refused', pause_ms: 60_000, reason: 'bad' });
  expect(await credentials()).not.toEqual(fresh);
  await database.reset(false);
  expect(await credentials()).toEqual(fresh);
});

test('lost submissions of one size each find their own batch', async () => {
  const temper = { ...CALM, create: { ...CALM.create, commitThenDrop: 0.7 }, foreignBatches: 0.5 };
  for (let seed = 1; seed <= 4; seed++) {
    const options = { seed, temper, rates: NO_FAULTS, settings: { requests_max: 1 } };
    expect(await violationsOf(options), `seed ${seed}`).toEqual([]);
  }
});

test('a machine that slept between write-ahead and send does not send', async () => {
  const asleepMs = 200_000;
  // Nights with more than one request body; in seed 2's night all batches are cancelled before.
  for (const seed of [1, 3, 4, 5]) {
    let hits = 0;
    const violations = await violationsOf({
      seed,
      temper: CALM,
      striker:
        () =>
        ({ actor, label }) => {
          if (label !== 'submit.before_post' || ++hits > 1) return null;
          actor.clockOffsetMs -= asleepMs;
          return { kind: 'pause', ms: asleepMs, performed: true };
        },
    });
    expect(hits, `seed ${seed}`).toBeGreaterThan(1);
    expect(violations, `seed ${seed}`).toEqual([]);
  }
});

test('a flow that fails between two claims stops renewing its lease', async () => {
  let hits = 0;
  const violations = await violationsOf({
    seed: 3,
    temper: CALM,
    striker:
      () =>
      ({ label }) =>
        label.startsWith('update credential set lease_owner') && ++hits === 1
          ? { kind: 'fail', performed: false }
          : null,
  });
  expect(hits).toBeGreaterThan(1);
  expect(violations).toEqual([]);
});

test('the work of a killed worker is taken over, even when another worker has its name', async () => {
  let namesakes = 0;
  let takeovers = 0;
  for (let seed = 1; seed <= 8; seed++) {
    let killed = '';
    const { violations, trace } = await simulate(database, {
      seed,
      temper: CALM,
      striker:
        () =>
        ({ actor, label }) => {
          if (label !== 'ingest.before_commit' || killed !== '') return null;
          killed = actor.name;
          return { kind: 'kill', performed: true };
        },
    });
    expect(violations, `seed ${seed}`).toEqual([]);
    // A batch that is cancelled unsent has nothing to ingest.
    if (killed === '') continue;
    takeovers += 1;
    const since = trace.slice(trace.findIndex((line) => line.endsWith(`* ${killed} is dead`)));
    const taken = since.findIndex((line) => line.includes(`ingested, taken over from ${killed}`));
    expect(taken, `seed ${seed}`).toBeGreaterThan(0);
    const [name] = killed.split('#');
    if (since.slice(0, taken).some((line) => line.endsWith(`* start ${name}`))) namesakes += 1;
  }
  expect(namesakes).toBeGreaterThan(0);
  expect(takeovers).toBeGreaterThan(5);
});

test('a repeated call with another key is noticed by its arguments', () => {
  const call = (tool_name: string, idempotency_key: string, note: string): ToolRequest => ({
    call_id: idempotency_key,
    kind: 'module',
    tool_name,
    arguments: { note },
    agent_id: 'agent',
    run_id: 'run',
    tool_use_id: 'toolu',
    idempotency_key,
    side_effects: 'none',
    timeout_ms: 1_000,
    result_char_limit: 1_000,
    source: null,
  });
  const tools = createToolWorld(createRandom('tools'), 0);
  tools.run(['a', 'b'].map((note) => call('look_up', note, 'of no effect')));
  tools.run(['c', 'd'].map((note) => call('note_once', note, `once ${note}`)));
  tools.run([call('note_idempotent', 'e', 'again'), call('note_idempotent', 'e', 'again')]);
  expect(tools.violations()).toEqual([]);
  tools.run([call('note_idempotent', 'f', 'again'), call('note_once', 'g', 'once c')]);
  expect(tools.violations().map(({ name }) => name)).toEqual([
    'once_tool_ran_twice',
    'tool_key_renewed',
    'tool_key_renewed',
  ]);
});

test('a planned run without a row is reported', async () => {
  await database.reset(false);
  const run = { name: 'none', agent: 0, turns: [], max_steps: 10, isolated: false };
  const batch = { atMs: 0, runs: [run], cancelAfterMs: null, wantsCallback: false };
  expect(await findStrays(database.connection, { agents: 1, batches: [batch] }, createLedger(), 0)).toEqual([
    { name: 'script_followed', detail: 'none is nowhere' },
  ]);
});

const NO_FAULTS = { kill: 0, pause: 0, fail: 0, slow: 0 };
