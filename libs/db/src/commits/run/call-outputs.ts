import { toStorableText } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';
import { unnestRows } from '../unnest-rows.ts';

/** Maximum length of a stored stdout and stderr each. Unit: UTF-16 code units. */
const OUTPUT_CHARS_MAX = 4_096;

/** The output of an ended call. */
export interface CallOutput {
  readonly stdout?: string;
  readonly stderr?: string;
  /**
   * Attempts of the runner itself, such as requests of an HTTP tool.
   * Default: 1.
   */
  readonly attempts?: number;
  /** Bytes of all answers read from the network. */
  readonly answer_bytes?: number;
}

/** The output of a call, with the place of the call. */
export interface OutputOfCall {
  readonly run_id: string;
  readonly step_number: number;
  readonly call_index: number;
  readonly output: CallOutput;
}

/**
 * Stores the outputs of calls that are still open; the same transaction ends the calls afterwards, so that each call has at
 * most one output. Cuts stdout and stderr. Stores nothing for a call with one attempt, no answer and no output.
 * Index: primary key of `tool_call`.
 */
export async function writeCallOutputs(trx: Tx, calls: readonly OutputOfCall[]): Promise<void> {
  const rows = calls.flatMap(({ output, ...place }) => {
    const { attempts = 1, answer_bytes = 0 } = output;
    const stdout = storableOutput(output.stdout);
    const stderr = storableOutput(output.stderr);
    const isEmpty = attempts <= 1 && answer_bytes === 0 && stdout === null && stderr === null;
    return isEmpty ? [] : [{ ...place, attempts: Math.max(attempts, 1), answer_bytes, stdout, stderr }];
  });
  if (rows.length === 0) return;
  await sql`
    with d as materialized (
      select * from ${unnestRows(rows, {
        run_id: ['uuid', ({ run_id }) => run_id],
        step_number: ['int', ({ step_number }) => step_number],
        call_index: ['int', ({ call_index }) => call_index],
        attempts: ['int', ({ attempts }) => attempts],
        answer_bytes: ['int', ({ answer_bytes }) => (answer_bytes === 0 ? null : answer_bytes)],
        stdout: ['text', ({ stdout }) => stdout],
        stderr: ['text', ({ stderr }) => stderr],
      })})
    insert into tool_call_output (project_id, run_id, step_number, call_index, attempts, answer_bytes, stdout, stderr)
    select c.project_id, c.run_id, c.step_number, c.call_index, d.attempts, d.answer_bytes, d.stdout, d.stderr
      from d join tool_call c on c.run_id = d.run_id and c.step_number = d.step_number and c.call_index = d.call_index
     where c.state in ('pending', 'running')
  `.execute(trx);
}

/** Makes an output storable; null if nothing is left of it. */
function storableOutput(text = ''): string | null {
  return toStorableText(text.slice(0, OUTPUT_CHARS_MAX)) || null;
}
