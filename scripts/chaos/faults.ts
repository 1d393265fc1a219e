import type { RuleInput, SettingsChange } from '../../apps/simulator/src/index.ts';

/** Delay of a late create: its steps were sent again before. */
export const LATE_CREATE_MS = 30_000;
/** Milliseconds by which the provider's clock is ahead of the database's. */
const CLOCK_OFFSET_MS = 12 * 60_000;

/**
 * Faults of the simulated provider: lost replies, overload, temporary 404s, lagging lists, late creates,
 * broken results, failed and expired requests.
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

/**
 * Faults that remain after healing: single requests fail unpaid, and the clock is off, since setting it would
 * be another fault.
 */
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
