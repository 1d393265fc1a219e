import { sql, type Kysely } from 'kysely';

/** Lines that are put aside keep what they say of their cost, and runs may end because their answer cannot be used. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
alter table run drop constraint run_stop_reason_check,
  add constraint run_stop_reason_check check (stop_reason in ('end_turn','tool_rule','max_steps','max_tokens','stop_sequence',
    'refusal','budget_exceeded','loop_detected','context_overflow','no_valid_tools','invalid_request','provider_error',
    'unusable_answer','expired','cancelled','deadline','poison'));

alter table result_line drop constraint result_line_reason_check,
  add constraint result_line_reason_check check (reason in
    ('unreadable','unusable','too_long','foreign','duplicate','conflicting')),
  -- What the line says of its cost: usage, model, message_id, stop_reason. Null: nothing.
  add column bill json;
`,
    )
    .execute(db);
}
