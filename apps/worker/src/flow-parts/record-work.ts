import { definitionKey, type StepDecision, type WorkSample } from '@nightshift/agent-core';
import type { DecidedRun, RunToDecide } from '@nightshift/db';
import type { FlowDeps } from './deps.ts';

/** Definitions of a chunk that are counted one by one; a fleet of distinct definitions counts by work class alone. */
const DEFINITIONS_MAX = 64;

/** Records the answers of committed decisions. Summaries are not counted. */
export async function recordAnswers(
  deps: Pick<FlowDeps, 'db' | 'definitions' | 'work'>,
  decided: readonly DecidedRun[],
): Promise<void> {
  const answered = decided.filter(
    ({ run, decision: { step } }) => step.stop_reason !== null && run.summarises_to_seq === null,
  );
  await record(
    deps,
    answered.map(({ run, decision: { key, step, run: move } }) => ({
      run,
      step_number: key.number,
      usage: step.usage,
      ended: hasEnded(move),
    })),
  );
}

/** Records the runs that ended with the results of their calls. */
export async function recordEnds(
  deps: Pick<FlowDeps, 'db' | 'definitions' | 'work'>,
  moved: readonly { readonly run: RunToDecide; readonly move: StepDecision['run'] }[],
): Promise<void> {
  await record(
    deps,
    moved
      .filter(({ move }) => hasEnded(move))
      .map(({ run }) => ({
        run,
        step_number: run.step_number,
        usage: null,
        ended: true,
      })),
  );
}

function hasEnded(move: StepDecision['run']): boolean {
  return 'stop_reason' in move;
}

type OwnSample = Omit<WorkSample, 'keys'> & { readonly run: RunToDecide };

/** Never throws: the decisions are committed, and a lost sample is harmless. */
async function record(
  { db, definitions, work }: Pick<FlowDeps, 'db' | 'definitions' | 'work'>,
  samples: readonly OwnSample[],
): Promise<void> {
  if (samples.length === 0) return;
  const ids = new Set(samples.map(({ run }) => run.definition_id));
  const cached = await definitions.get(db, [...ids]).catch(() => null);
  if (cached === null) return;
  const keysOf = new Map<string, readonly string[]>();
  for (const [id, { work_class }] of cached) {
    keysOf.set(id, ids.size <= DEFINITIONS_MAX ? [definitionKey(id), work_class] : [work_class]);
  }
  work.record(
    samples.map(({ run, ...sample }) => ({ ...sample, keys: keysOf.get(run.definition_id) ?? [] })),
  );
  if (work.isFull()) await work.flush(db);
}
