import type { NewRun, StagedLine, StagedLineRow } from '@nightshift/db';
import { isCapped } from '../estimate/expect-cost.ts';
import { toNewRun } from '../to-runs.ts';

/** The fields of a staged run: those that differ from the shared ones. */
type StagedRun = Partial<NewRun>;

/** The source of a batch whose lines are staged; stored with the batch. */
export interface LinesSource {
  readonly kind: 'lines';
  /** The fields of runs that their lines omit. */
  readonly shared: NewRun;
  /** ISO time. */
  readonly deadline: string | null;
}

/** The fields of a run without options. */
export const PLAIN_RUN: NewRun = toNewRun({ agent_id: '' }, null);

/** Converts a run of a line to its staged form, without the fields that equal the shared ones. */
export function toStagedLine(run: NewRun, shared: NewRun): StagedLine {
  const staged: Record<string, unknown> = {};
  if (run.agent_id !== shared.agent_id) staged['agent_id'] = run.agent_id;
  staged['messages'] = run.messages;
  if (run.max_steps !== shared.max_steps) staged['max_steps'] = run.max_steps;
  if (run.isolated !== shared.isolated) staged['isolated'] = run.isolated;
  if (run.deadline !== shared.deadline) staged['deadline'] = run.deadline;
  if (run.cap !== shared.cap && run.cap !== undefined && isCapped(run.cap)) staged['cap'] = run.cap;
  if (run.client_tools !== shared.client_tools && run.client_tools?.length !== 0)
    staged['client_tools'] = run.client_tools;
  if (run.tools !== shared.tools) staged['tools'] = run.tools;
  if (run.result_format !== shared.result_format) staged['result_format'] = run.result_format;
  return { custom_id: run.custom_id, run: JSON.stringify(staged) };
}

/** Converts a staged line back to its run. */
export function fromStagedLine({ custom_id, run }: StagedLineRow, shared: NewRun): NewRun {
  return { ...shared, ...(run as StagedRun), custom_id };
}
