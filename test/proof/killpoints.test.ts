import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { HOOK_POINTS } from '../../apps/worker/src/flow-parts/deps.ts';
import { openProofDatabase, type ProofDatabase } from '../../proof/database.ts';
import { recordPoints, SCENARIOS, strikeAt, STRIKES, STRUCK_ELSEWHERE } from '../../proof/killpoints.ts';
import { CALM } from '../../proof/provider-temper.ts';
import { simulate } from '../../proof/simulation.ts';

// Seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 });

let database: ProofDatabase;
beforeAll(async () => {
  database = await openProofDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

// `npm run killpoints` strikes every point; the test strikes the points around money and side effects.
const POINTS = [
  'submit.after_write_ahead',
  'submit.after_post',
  'ingest.before_commit',
  'tools.after_journal',
  'tools.after_calls',
];

test.each(POINTS)('strikes at %s violate nothing, and all work ends', async (point) => {
  const [scenario] = SCENARIOS;
  for (const [how, strike] of Object.entries(STRIKES)) {
    const { violations, struck } = await strikeAt(database, scenario!, point, 1, strike);
    expect({ violations, struck }, how).toEqual({ violations: [], struck: true });
  }
});

// A hit between two parts of a chunk.
test.each(['tools.after_journal', 'tools.after_calls', 'tools.after_keep', 'tools.after_commit'])(
  'a kill at %s between commits in parts violates nothing, and all work ends',
  async (point) => {
    const scenario = SCENARIOS.find(({ strikesAll }) => strikesAll === 'tools.');
    const { violations, struck } = await strikeAt(database, scenario!, point, 2, STRIKES['kill']!);
    expect({ violations, struck }).toEqual({ violations: [], struck: true });
  },
);

test('a call fails only where its port may throw, as the tool host does', async () => {
  const [scenario] = SCENARIOS;
  const calls = await recordPoints(database, scenario!, ['call']);
  const throwing = [...calls].filter(([, { canFail }]) => canFail).map(([label]) => label);
  expect(throwing.sort()).toEqual(['tools.run 1', 'tools.run 2']);
  const { violations, struck, trace } = await strikeAt(database, scenario!, 'tools.run 2', 1, {
    kind: 'fail',
    performed: true,
  });
  expect({ violations, struck }).toEqual({ violations: [], struck: true });
  expect(trace.some((line) => line.includes('= run-tool-calls put off'))).toBe(true);
});

test('every seed with a chosen strike is audited', async () => {
  const run = { name: 'a', agent: 0, turns: [], max_steps: 2, isolated: false };
  const { violations } = await simulate(database, {
    seed: 4_711,
    temper: CALM,
    faultyEvents: 1,
    workload: () => ({
      agents: 1,
      batches: [{ atMs: 0, cancelAfterMs: null, wantsCallback: true, runs: [run] }],
    }),
    striker: () => () => null,
    // The auditor alone compares the sends with the attempts.
    sabotage: {
      rewrite: (text) =>
        text.replace('"callback_attempts" = "callback_attempts" +', '"callback_attempts" = 0 *'),
    },
  });
  expect(violations.map(({ name }) => name)).toEqual(['I18']);
});

test('the scenarios pass every named point', async () => {
  const passed = new Set<string>();
  for (const scenario of SCENARIOS) {
    for (const point of (await recordPoints(database, scenario, ['hook'])).keys()) passed.add(point);
  }
  expect([...passed, ...STRUCK_ELSEWHERE].sort()).toEqual([...HOOK_POINTS].sort());
});
