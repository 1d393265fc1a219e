import { toStorableText, type DecodedBill } from '@nightshift/agent-core';
import { sql } from 'kysely';
import type { Tx } from '../../connect.ts';

/** A result line that could not be applied. */
export interface QuarantinedLine {
  readonly line_number: number;
  readonly custom_id: string | null;
  readonly reason: 'unreadable' | 'unusable' | 'too_long' | 'foreign' | 'conflicting';
  readonly byte_length: number;
  /** The head of the line. */
  readonly excerpt: string;
  /** The costs named by the line; null without costs. */
  readonly bill: DecodedBill | null;
}

/** Maximum characters of a stored custom id; ours are shorter. Cut before sanitizing: a cut may split a pair. */
const CUSTOM_ID_CHARS = 200;

/** Stores lines for a person to look at. A line read again is stored once. */
export async function commitQuarantinedLines(
  trx: Tx,
  batch: { readonly id: string; readonly project_id: string },
  lines: readonly QuarantinedLine[],
): Promise<void> {
  const payload = lines.map((line) => ({
    ...line,
    custom_id: line.custom_id === null ? null : toStorableText(line.custom_id.slice(0, CUSTOM_ID_CHARS)),
    excerpt: toStorableText(line.excerpt),
  }));
  await sql`
    insert into result_line (provider_batch_id, project_id, line_number, custom_id, reason, byte_length, excerpt, bill)
    select ${batch.id}::uuid, ${batch.project_id}::uuid, line_number, custom_id, reason, byte_length, excerpt, bill
      from json_to_recordset(${JSON.stringify(payload)}::json)
        as d(line_number int, custom_id text, reason text, byte_length bigint, excerpt text, bill json)
    on conflict do nothing
  `.execute(trx);
}
