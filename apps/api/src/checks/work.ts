import {
  MONEY_INVARIANTS,
  readLastAudit,
  readNow,
  readOldestDue,
  readProviderKeys,
  type DueKind,
} from '@nightshift/db';
import { countOf, judge, listOf, spanOf, type CheckFunction } from './judged.ts';

const WAIT_WARNING_SECONDS = 60;
const WAIT_FAILING_SECONDS = 300;

const KINDS: Readonly<Record<DueKind, string>> = {
  batch: 'A batch',
  ready_runs: 'Runs ready for their next request',
  tool_calls: 'Runs with tool calls',
  provider_batch: 'A provider batch',
  callback: 'A callback',
  schedule: 'A schedule',
  forgotten_batch: 'A batch to forget',
};

/** Checks that due rows are taken. */
export const checkBacklog: CheckFunction<'backlog'> = async ({ read }) => {
  const { oldest, isPaused } = await read(async (db) => ({
    oldest: await readOldestDue(db),
    isPaused: (await readProviderKeys(db)).some(({ pause_reason }) => pause_reason !== null),
  }));
  const details = oldest.map(({ kind, waited_seconds }) => ({
    kind,
    waited_seconds: Math.round(waited_seconds),
  }));
  // Runs wait for a paused key, which is a finding of its own.
  const [late] = oldest.filter(({ kind }) => !(isPaused && kind === 'ready_runs'));
  const finding =
    late === undefined ? '' : `${KINDS[late.kind]} waited ${spanOf(late.waited_seconds)} for a worker.`;
  const advice = 'If a worker is alive, see its log for failures; add workers if it is busy.';
  return judge<'backlog'>({ oldest: details }, 'No due row waits for a worker for more than a minute.', [
    late !== undefined && late.waited_seconds > WAIT_FAILING_SECONDS && ['failing', finding, advice],
    late !== undefined && late.waited_seconds > WAIT_WARNING_SECONDS && ['warning', finding, advice],
  ]);
};

/** Age of an audit above the longest interval between two. Unit: s. */
const AUDIT_OLD_SECONDS = 25 * 3600;

/** Reads the findings of the last audit; it makes none. */
export const checkBooks: CheckFunction<'books'> = async ({ read }) => {
  const { audit, now } = await read(async (db) => ({
    audit: await readLastAudit(db),
    now: await readNow(db),
  }));
  if (audit === null)
    return judge<'books'>(
      { audited_at: null, violations: [] },
      'No audit has ended yet; workers make the first at their start.',
      [],
    );
  const age = (now.getTime() - audit.finished_at.getTime()) / 1000;
  const violations = audit.violations.map(({ id, name }) => ({ id, name, money: MONEY_INVARIANTS.has(id) }));
  const [first] = violations;
  return judge<'books'>(
    { audited_at: audit.finished_at.toISOString(), violations },
    `The last audit, ${spanOf(age)} ago, found nothing wrong.`,
    [
      first !== undefined && [
        'failing',
        `The last audit, ${spanOf(age)} ago, found ${countOf(violations.length, 'violation')} of ` +
          `${listOf([...new Set(violations.map(({ id }) => id))])}: ${first.name}.`,
        violations.some(({ money }) => money)
          ? 'Run node scripts/audit.ts for the rows. Sending is stopped until the books balance: docs/OPERATING.md.'
          : 'Run node scripts/audit.ts for the rows; docs/OPERATING.md says how to go on.',
      ],
      age > AUDIT_OLD_SECONDS && [
        'warning',
        `The last audit ended ${spanOf(age)} ago.`,
        'Start a worker, which audits; or run node scripts/audit.ts.',
      ],
    ],
  );
};
