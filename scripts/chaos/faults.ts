import type { RuleInput, SettingsChange } from '../../apps/simulator/src/index.ts';

/** A create that a proxy forwards so late arrives after its steps were sent anew. */
export const LATE_CREATE_MS = 30_000;
/** The provider's clock is wrong by minutes, so much ahead of the database's. */
const CLOCK_OFFSET_MS = 12 * 60_000;

/**
 * What the simulated provider does wrong while chaos reigns: accepts and drops the answer, is overloaded, forgets for a
 * moment, lists late, takes creates half a minute late, cuts, repeats and mangles results, fails and expires single requests.
 */
export const faultRules: readonly RuleInput[] = [
  { op: 'create', match: { probability: 0.04 }, action: { type: 'commitThenDrop' } },
  { op: 'create', match: { probability: 0.03 }, action: { type: 'commitThenStatus', code: 500 } },
  { op: 'create', match: { probability: 0.02 }, action: { type: 'commitThenTruncatedJson' } },
  { op: 'create', match: { probability: 0.03 }, action: { type: 'dropBefore' } },
  { op: 'create', match: { probability: 0.03 }, action: { type: 'commitLate', ms: LATE_CREATE_MS } },
  {
    op: 'create',
    match: { probability: 0.05 },
    action: { type: 'status', code: 529, error_type: 'overloaded_error' },
  },
  {
    op: 'retrieve',
    match: { probability: 0.05 },
    action: { type: 'status', code: 404, error_type: 'not_found_error' },
  },
  {
    op: 'list',
    match: { probability: 0.05 },
    action: { type: 'status', code: 503, error_type: 'api_error' },
  },
  {
    op: 'results',
    match: { probability: 0.15 },
    action: { type: 'cut', at_fraction: 0.6, boundary: 'newline', how: 'clean' },
  },
  {
    op: 'results',
    match: { probability: 0.1 },
    action: { type: 'cut', at_fraction: 0.4, boundary: 'midline', how: 'rst' },
  },
  { op: 'results', match: { probability: 0.1 }, action: { type: 'duplicateLines', probability: 0.2 } },
  { op: 'results', match: { probability: 0.1 }, action: { type: 'garbageLine', at: 3 } },
  {
    op: 'results',
    match: { probability: 0.1 },
    actions: [{ type: 'foreignLine' }, { type: 'blankLine', at: 2 }],
  },
];

/** Single requests that end without an answer, unpaid, and a clock that is off, for good: setting it would be another fault. */
export const faultSettings: SettingsChange = {
  outcomes: {
    errored: 0.005,
    errored_type: 'overloaded_error',
    errored_message: 'Overloaded',
    expired: 0.005,
  },
  timestamps: { skew_ms: CLOCK_OFFSET_MS },
};
export const healedSettings: SettingsChange = { outcomes: { errored: 0, expired: 0 } };
