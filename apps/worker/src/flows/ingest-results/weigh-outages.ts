import {
  addEvidence,
  evidenceOfLine,
  isAwaited,
  judgeOutage,
  mayPass,
  NO_EVIDENCE,
  type OutageEvidence,
} from '@nightshift/agent-core';
import {
  commitOutages,
  commitOutagesOver,
  readOutages,
  type ClaimedProviderBatch,
  type RunToDecide,
} from '@nightshift/db';
import type { FlowDeps } from '../../flow-parts/deps.ts';
import type { Entry } from '../../flow-parts/results/sort-result-lines.ts';

/** Evidence for and against outages, by model. */
export type ModelEvidence = ReadonlyMap<string, OutageEvidence>;

export const NOTHING_SEEN: ModelEvidence = new Map();

/** The lines of a chunk, with failures in an outage classed as such. */
export interface Weighed {
  readonly entries: ReadonlyMap<string, Entry>;
  readonly evidence: ModelEvidence;
}

/**
 * Classes failures that may pass as an outage where the model has one: by the fresh lines of this chunk, or as known. The
 * evidence is for {@link commitEvidence}: a chunk is only a part of its file.
 * In a part of a chunk (`isWhole` is false) all such failures are classed as an outage, because it proves nothing.
 */
export async function weighOutages(
  { db, definitions, settings }: FlowDeps,
  { credential }: ClaimedProviderBatch,
  entries: ReadonlyMap<string, Entry>,
  runs: ReadonlyMap<string, RunToDecide>,
  isWhole: boolean,
): Promise<Weighed> {
  if (!isWhole) return { entries: withOutage(entries, () => true), evidence: NOTHING_SEEN };
  const cached = await definitions.get(
    db,
    [...runs.values()].map((run) => run.definition_id),
  );
  const modelOf = (runId: string): string | null =>
    cached.get(runs.get(runId)?.definition_id ?? '')?.definition.model ?? null;
  const evidence = new Map<string, OutageEvidence>();
  for (const [runId, { key, outcome }] of entries) {
    const run = runs.get(runId);
    const model = modelOf(runId);
    if (run === undefined || model === null) continue;
    // A line that was applied before, by its number: its run no longer tells whether the step had failed.
    const isFresh = isAwaited(run, key) ? run.failing_for_ms === null : key.attempt === 1;
    const line = evidenceOfLine(outcome, isFresh);
    evidence.set(model, addEvidence(evidence.get(model) ?? NO_EVIDENCE, line));
  }
  if (![...entries.values()].some(({ outcome }) => mayPass(outcome))) return { entries, evidence };
  const known = await readOutages(db, credential, settings.retry.outage_ms_max);
  const isOut = (runId: string): boolean => {
    const model = modelOf(runId) ?? '';
    return known.has(model) || judgeOutage(evidence.get(model) ?? NO_EVIDENCE) === 'outage';
  };
  return { entries: withOutage(entries, isOut), evidence };
}

/** Stores what the lines of a file prove: outages that began or last, and outages that are over. */
export async function commitEvidence(
  { db }: FlowDeps,
  { project_id, credential }: ClaimedProviderBatch,
  evidence: ModelEvidence,
): Promise<void> {
  const judged = (verdict: 'outage' | 'over'): readonly string[] =>
    [...evidence].flatMap(([model, lines]) => (judgeOutage(lines) === verdict ? [model] : []));
  await commitOutages(db, { project_id, credential, models: judged('outage') });
  await commitOutagesOver(db, { credential, models: judged('over') });
}

/** Adds up the evidence of several chunks. */
export function joinEvidence(parts: readonly ModelEvidence[]): ModelEvidence {
  const sum = new Map<string, OutageEvidence>();
  for (const part of parts) {
    for (const [model, lines] of part) sum.set(model, addEvidence(sum.get(model) ?? NO_EVIDENCE, lines));
  }
  return sum;
}

function withOutage(
  entries: ReadonlyMap<string, Entry>,
  isOut: (runId: string) => boolean,
): ReadonlyMap<string, Entry> {
  const classed = new Map<string, Entry>();
  for (const [runId, entry] of entries) {
    const { outcome } = entry;
    const isOutage = outcome.kind === 'errored' && mayPass(outcome) && isOut(runId);
    classed.set(runId, isOutage ? { ...entry, outcome: { ...outcome, error_class: 'outage' } } : entry);
  }
  return classed;
}
