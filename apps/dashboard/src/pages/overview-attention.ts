import type { Batch, Check, Checks } from '@nightshift/client';
import { isNamedBySchedule, nameOfBatch, readScheduleNames } from '../api/batch-names.ts';
import { nightshift } from '../api/client.ts';
import { counted } from '../parts/numbers.tsx';

/** Something that a person should look at. */
export interface Attention {
  readonly key: string;
  readonly isBad: boolean;
  readonly text: string;
  readonly advice?: string | undefined;
  /** Where it is looked at; none if it is outside of the pages. */
  readonly at?: { readonly to: 'batch' | 'review'; readonly batchId: string } | undefined;
}

/** Batches of each state that are looked at. */
const BATCHES_MAX = 50;
/** Batches whose held changes are counted. */
const REVIEWS_MAX = 8;
/** Checks that are told about elsewhere on the page while they only warn. */
const QUIET_CHECKS: ReadonlySet<Check['name']> = new Set(['schedules', 'backlog']);

/** Returns what the checks of the installation ask for, the urgent first. */
export function attentionOfChecks({ checks }: Checks): readonly Attention[] {
  return checks
    .filter(({ name, status }) => status === 'failing' || (status === 'warning' && !QUIET_CHECKS.has(name)))
    .toSorted((a, b) => Number(b.status === 'failing') - Number(a.status === 'failing'))
    .map(({ name, status, finding, advice }) => ({
      key: name,
      isBad: status === 'failing',
      text: `${name.replaceAll('_', ' ')}: ${finding}`,
      advice: advice ?? undefined,
    }));
}

/** Reads the batches that wait for a person: paused, waiting for the caller, or with changes to review. */
export async function readAttention(): Promise<readonly Attention[]> {
  const some = (state: Batch['state'], most = BATCHES_MAX): Promise<Batch[]> => firstOf(state, most);
  const [paused, running, completed] = await Promise.all([
    some('paused'),
    some('running'),
    some('completed'),
  ]);
  const reviews = [...completed, ...paused, ...running]
    .filter(({ apply }) => apply === 'review')
    .slice(0, REVIEWS_MAX);
  const names = [...paused, ...running, ...reviews].some(isNamedBySchedule)
    ? await readScheduleNames()
    : undefined;
  const nameOf = (batch: Batch): string => nameOfBatch(batch, names);
  const held = await Promise.all(reviews.map((batch) => attentionOfReview(batch, nameOf(batch))));
  return [
    ...paused.map((batch) => ofPaused(batch, nameOf(batch))),
    ...running.flatMap((batch) => ofWaiting(batch, nameOf(batch))),
    ...held.flat(),
  ];
}

async function firstOf(state: Batch['state'], most: number): Promise<Batch[]> {
  const found: Batch[] = [];
  for await (const batch of nightshift.batches.list({ state, limit: most, order: 'desc' }))
    if (found.push(batch) === most) break;
  return found;
}

const ofPaused = (batch: Batch, name: string): Attention => ({
  key: `paused ${batch.id}`,
  isBad: false,
  text: `${name} is paused`,
  advice: batch.state_reason ?? undefined,
  at: { to: 'batch', batchId: batch.id },
});

function ofWaiting(batch: Batch, name: string): readonly Attention[] {
  const { requires_action } = batch.counts;
  if (requires_action === 0) return [];
  return [
    {
      key: `calls ${batch.id}`,
      isBad: false,
      text: `${counted(requires_action, 'run')} of ${name} wait${requires_action === 1 ? 's' : ''} for tool results of the caller`,
      at: { to: 'batch', batchId: batch.id },
    },
  ];
}

async function attentionOfReview(batch: Batch, name: string): Promise<readonly Attention[]> {
  const { total, stale } = await nightshift.batches.heldSummary(batch.id, { state: 'held', groups: 1 });
  if (total === 0) return [];
  return [
    {
      key: `review ${batch.id}`,
      isBad: false,
      text: `${counted(total, 'change')} to review in ${name}`,
      advice: stale === 0 ? undefined : `${counted(stale, 'change')} stale: the memory was edited meanwhile.`,
      at: { to: 'review', batchId: batch.id },
    },
  ];
}
