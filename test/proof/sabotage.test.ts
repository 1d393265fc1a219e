import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { openProofDatabase, type ProofDatabase } from '../../proof/database.ts';
import { TABLE_CHECKS } from '../../proof/invariants.ts';
import { MUTANTS } from '../../proof/mutants.ts';
import { ORACLES } from '../../proof/oracles.ts';
import { findsItsCode, runMutant } from '../../proof/sabotage.ts';
import { SCHEDULE_CHECKS } from '../../proof/schedules.ts';

// Seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 });

let database: ProofDatabase;
beforeAll(async () => {
  database = await openProofDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

// `npm run sabotage` runs every mutant; these are caught within a seed or two.
const QUICK = [
  'blind resubmit',
  'by our own clock',
  'hunting for a minute',
  'a client that repeats creates',
  'the old nonce again',
  'no journal',
  'a key for each try',
  'once means again',
  'the chunk goes with its first part',
  'put off for ever',
  'a place for good',
  'one pass is enough',
  'answers for errors',
  'every refusal is for good',
  'no callbacks',
  'no state guard',
  'two holders',
  'cancel, then send',
  'counted twice',
  'beside the pilot',
  'a pilot without an end',
  'a tick apart from its batch',
];

/** Ten nights and a control, on a slow or busy machine. */
const CAMPAIGN_TIMEOUT_MS = 120_000;

test.each(MUTANTS.filter(({ name }) => QUICK.includes(name)))(
  '"$name" is caught: without $without',
  async (mutant) => {
    const { caughtBy, fault } = await runMutant(database, mutant, 10);
    expect(fault).toBeNull();
    expect(mutant.caughtBy).toContain(caughtBy);
  },
  CAMPAIGN_TIMEOUT_MS,
);

test.each(MUTANTS.filter(({ name }) => !QUICK.includes(name)))(
  '"$name" finds the code that it removes',
  async (mutant) => {
    expect(await findsItsCode(database, mutant, 30)).toBe(true);
  },
);

test.each(MUTANTS)('the check that catches "$name" exists', ({ caughtBy }) => {
  expect([...TABLE_CHECKS, ...ORACLES, ...SCHEDULE_CHECKS]).toEqual(expect.arrayContaining([...caughtBy]));
});
