import { CLOCK_ALARM_MS } from '@nightshift/agent-core';
import {
  pauseCauseOf,
  readDatabaseState,
  readProviderClocks,
  readProviderKeys,
  type PauseCause,
  type ProviderKey,
} from '@nightshift/db';
import { judge, listOf, spanOf, timeOf, type CheckFunction } from './judged.ts';

/** What to do about a pause. */
const ADVICE: Readonly<Record<PauseCause, string>> = {
  unauthorized: 'Set a valid ANTHROPIC_API_KEY for the workers and restart them.',
  spend_limit: "Raise the limit in the provider's console.",
  bad_request: "See the log of the workers for the provider's message, and change the requests.",
  account: "See the provider's console: a result blames the key or the account.",
  halted: 'Run node scripts/audit.ts, mend the books, then node scripts/audit.ts --resume.',
  clocks_apart: 'Set the clock of the database server.',
  rate_limited: 'Nothing: sending goes on by itself.',
  overloaded: 'Nothing: sending goes on by itself.',
  unanswered: 'Check the network between workers and provider, and ANTHROPIC_BASE_URL.',
  other: 'See the log of the workers.',
};

/** Pauses that end by themselves. */
const PASSING: ReadonlySet<PauseCause> = new Set(['rate_limited', 'overloaded']);

/** Checks what workers last heard of each provider key. */
export const checkProviderKeys: CheckFunction<'provider_keys'> = async ({ read }) => {
  const keys = await read(readProviderKeys);
  const [paused] = keys
    .filter((key) => key.pause_reason !== null)
    .sort((a, b) => Number(isPassing(a)) - Number(isPassing(b)));
  const answerers = keys.map(({ name, is_simulated }) =>
    is_simulated === null
      ? `${name} (no worker has used it)`
      : `${name}${is_simulated ? ' (simulator)' : ''}`,
  );
  return judge<'provider_keys'>({ keys: keys.map(toShown) }, `Sending is not paused: ${listOf(answerers)}.`, [
    paused !== undefined && troubleOf(paused),
  ]);
};

function isPassing({ pause_reason }: ProviderKey): boolean {
  return pause_reason === null || PASSING.has(pauseCauseOf(pause_reason));
}

function troubleOf(key: ProviderKey): readonly ['warning' | 'failing', string, string] {
  const reason = key.pause_reason ?? '';
  const until = key.paused_until === null ? 'until an operator acts' : `until ${timeOf(key.paused_until)}`;
  return [
    isPassing(key) ? 'warning' : 'failing',
    `Sending under the key ${key.name} is paused ${until}: ${reason || 'no reason is known'}.`,
    ADVICE[pauseCauseOf(reason)],
  ];
}

function toShown({ pause_reason, paused_until, last_accepted_at, ...key }: ProviderKey) {
  const state: 'sending' | 'paused' | 'halted' =
    pause_reason === null ? 'sending' : paused_until === null ? 'halted' : 'paused';
  return {
    ...key,
    state,
    reason: pause_reason,
    paused_until: paused_until?.toISOString() ?? null,
    last_accepted_at: last_accepted_at?.toISOString() ?? null,
  };
}

/** Checks the clocks of API, database and provider. */
export const checkClocks: CheckFunction<'clocks'> = async ({ read }) => {
  const { clocks, apiMs } = await read(async (db) => {
    const before = Date.now();
    const { now } = await readDatabaseState(db);
    return { apiMs: (before + Date.now()) / 2 - now.getTime(), clocks: await readProviderClocks(db) };
  });
  const wrong = clocks.find(({ offset_ms }) => Math.abs(offset_ms) >= CLOCK_ALARM_MS);
  return judge<'clocks'>(
    {
      api_offset_seconds: apiMs / 1000,
      providers: clocks.map(({ name, offset_ms, uncertainty_ms, age_ms }) => ({
        name,
        offset_seconds: offset_ms / 1000,
        uncertainty_seconds: uncertainty_ms / 1000,
        age_seconds: Math.round(age_ms / 1000),
      })),
    },
    `API and database agree within ${Math.max(0.1, Math.abs(apiMs) / 1000).toFixed(1)} s` +
      (clocks.length === 0 ? '; no provider has told its time yet.' : ', and so does the provider.'),
    [
      wrong !== undefined && [
        'failing',
        `The clocks of database and provider (${wrong.name}) are ${spanOf(Math.abs(wrong.offset_ms) / 1000)} apart.`,
        'Set the clock of the database server by NTP: expiries and searches of the provider depend on it.',
      ],
      Math.abs(apiMs) >= CLOCK_ALARM_MS && [
        'warning',
        `The clocks of API and database are ${spanOf(Math.abs(apiMs) / 1000)} apart.`,
        'Set both by NTP. Rows follow the clock of the database, schedules included.',
      ],
    ],
  );
};
