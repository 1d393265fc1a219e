import type { PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { DEFAULT_PROJECT_ID } from '../../src/index.ts';
import { openTestDatabase, type TestDatabase } from '../../src/testing/index.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase(inject('postgresUrl'));
});
afterAll(() => database.close());

type Row = Readonly<Record<string, unknown>>;

const ID = '01900000-0000-7000-8000-000000000000';
const NOW = '2026-11-20T12:00:00Z';
const project_id = DEFAULT_PROJECT_ID;
const tokens = { input_tokens: 1, output_tokens: 1, cost_nanousd: 1 };
const sent = { submit_started_at: NOW, body_bytes: 1, body_sha256: 'aa' };
const accepted = { ...sent, provider_id: 'msgbatch_1', submitted_at: NOW };

/** A valid row of each table. */
const VALID: Readonly<Record<string, Row>> = {
  conversation: { id: ID, project_id },
  conversation_summary: {
    conversation_id: ID,
    to_seq: 1,
    project_id,
    hidden: 1,
    summary: 'All was said.',
    run_id: ID,
    step_number: 1,
  },
  definition: {
    id: ID,
    project_id,
    agent_type: 't',
    system: '',
    model: 'anthropic/claude',
    model_settings: '{}',
    tool_rules: '[]',
    tools: '[]',
  },
  memory_notice: { run_id: ID, seq: 1, project_id, block_ids: [], block_revisions: [] },
  model_outage: {
    credential: 'default',
    model: 'anthropic/claude',
    project_id,
    outages: 1,
    began_at: NOW,
    seen_at: NOW,
  },
  failed_lines: { error_type: 'api_error', slot: 0, project_id, lines: 0 },
  session: { hash: '\\x00', project_id, kind: 'link', key_hash: '\\x00', expires_at: NOW },
  secret: {
    project_id,
    name: 'TOKEN',
    key_id: '0123456789abcdef',
    nonce: `\\x${'00'.repeat(12)}`,
    ciphertext: `\\x${'00'.repeat(17)}`,
  },
  upload: { batch_id: ID, project_id },
  staged_line: { batch_id: ID, project_id, ordinal: 0, bytes: 2, run: '{}' },
  ended_runs: { batch_id: ID, slot: 0, version: 1, project_id, run_ids: [ID] },
  sent_steps: { batch_id: ID, provider_batch_id: ID, project_id, nonce: 'abcdef', steps: 1 },
  event: { project_id, type: 'batch.running', batch_id: ID, data: '{}' },
  run_failure: {
    batch_id: ID,
    run_id: ID,
    project_id,
    failed_at: NOW,
    state: 'failed',
    stop_reason: 'poison',
    message: null,
    fingerprint: 'f',
  },
  batch_retry_run: { batch_id: ID, ordinal: 0, project_id, run_id: ID },
  token_calibration: { model: 'claude', project_id, bytes_per_token: 4, samples: 1 },
  prompt_density: { definition_id: ID, project_id, samples: 1, bytes_per_token_min: 4 },
  turnaround: { credential: 'default', model: 'claude', project_id, durations_ms: [300_000] },
  work_statistic: {
    key: 'definition:a',
    measure: 'total',
    bucket: 0,
    project_id,
    answers: 0,
    ended: 0,
    prompt_tokens: 0,
    output_tokens: 0,
    cache_write_5m_tokens: 0,
    cache_write_1h_tokens: 0,
    cache_read_tokens: 0,
    used_on: NOW,
  },
  agent: {
    id: ID,
    project_id,
    conversation_id: ID,
    name: 'a',
    agent_type: 't',
    system: '',
    model: 'anthropic/claude',
    model_settings: '{}',
    tool_rules: '[]',
    context_window_limit: 1,
  },
  block: { id: ID, project_id, label: 'human', head_revision: 1 },
  block_revision: { block_id: ID, revision: 1, project_id, value: '', char_limit: 1, read_only: false },
  held_change: {
    batch_id: ID,
    agent_id: ID,
    block_id: ID,
    project_id,
    draft_id: ID,
    kind: 'created',
    run_id: ID,
    step_number: 1,
    tool_use_id: 'toolu_1',
  },
  block_event: {
    project_id,
    block_id: ID,
    agent_id: ID,
    kind: 'created',
    label: 'notes',
    batch_id: ID,
    run_id: ID,
    step_number: 1,
    place: 0,
    tool_use_id: 'toolu_1',
  },
  tool: {
    id: ID,
    project_id,
    name: 'look',
    kind: 'module',
    tool_type: 'custom',
    description: '',
    input_schema: '{}',
    side_effects: 'none',
    return_char_limit: 1,
    timeout_ms: 1,
    source_type: 'none',
  },
  tool_trial: { id: ID, project_id, agent_id: ID, tool: '{}', arguments: '{}', waits_until: NOW },
  mcp_server: { id: ID, project_id, name: 'tickets', url: 'https://mcp.example.com', revision: '2026-07-28' },
  mcp_tool: { server_id: ID, project_id, name: 'look', offered: '{}', offered_sha256: 'a'.repeat(64) },
  tool_code: { project_id, sha256: 'a'.repeat(64), code: 'export function look() {}' },
  tool_grant: {
    tool_id: ID,
    owner: 'w',
    project_id,
    under_way: 0,
    waiting: 0,
    places: 0,
    granted_until: NOW,
  },
  tool_bucket: { tool_id: ID, project_id, tokens: 0, filled_at: NOW },
  batch: { id: ID, project_id, state: 'running', total: 1, accepted: 1 },
  batch_agent: { batch_id: ID, ordinal: 0, agent_id: ID, project_id },
  batch_budget: { batch_id: ID, project_id, max_cost_nanousd: 1 },
  run: {
    id: ID,
    project_id,
    batch_id: ID,
    agent_id: ID,
    conversation_id: ID,
    definition_id: ID,
    ordinal: 0,
    state: 'ready',
    max_steps: 3,
    first_seq: 1,
    last_seq: 1,
    started_at: NOW,
  },
  provider_batch: {
    id: ID,
    project_id,
    credential: 'default',
    state: 'building',
    nonce: 'abcdef',
    request_count: 1,
    next_due_at: NOW,
  },
  doubted_submission: {
    nonce: 'abcdef',
    project_id,
    provider_batch_id: ID,
    outcome: 'withdrawn',
    request_count: 1,
    submit_started_at: NOW,
    watched_until: NOW,
  },
  step: {
    project_id,
    run_id: ID,
    number: 1,
    attempt: 1,
    provider_batch_id: ID,
    ordinal: 0,
    state: 'sealed',
    context_from_seq: 0,
    context_to_seq: 1,
    block_ids: [],
    block_revisions: [],
    max_tokens: 1,
    sealed_at: NOW,
    ...tokens,
  },
  message: { project_id, conversation_id: ID, seq: 1, role: 'user', content: '[]' },
  tool_call: {
    project_id,
    run_id: ID,
    step_number: 1,
    call_index: 0,
    tool_use_id: 'toolu_1',
    tool_name: 'look',
    kind: 'module',
    state: 'pending',
  },
  tool_call_output: {
    project_id,
    run_id: ID,
    step_number: 1,
    call_index: 0,
    attempts: 2,
  },
  run_chunk: { id: ID, project_id, kind: 'ready', run_ids: [ID], next_due_at: NOW },
  result_line: {
    provider_batch_id: ID,
    line_number: 1,
    project_id,
    reason: 'foreign',
    byte_length: 1,
    excerpt: '',
  },
  schedule: {
    id: ID,
    project_id,
    name: 's',
    cron: '0 2 * * *',
    time_zone: 'UTC',
    body: '{}',
    state: 'active',
    tick_due_at: NOW,
    next_due_at: NOW,
  },
  waiting_message: { conversation_id: ID, place: 1, project_id, role: 'user', content: '[]' },
  cursor_span: {
    run_id: ID,
    agent_id: ID,
    name: 'c',
    project_id,
    batch_id: ID,
    from_seq: 0,
    to_seq: 1,
    top_seq: 1,
  },
  forgotten_batch: {
    id: ID,
    project_id,
    state: 'completed',
    created_at: NOW,
    completed_at: NOW,
    cost_nanousd: 0,
    next_due_at: NOW,
  },
  deleted_item: { id: ID, project_id, kind: 'tool', created_at: NOW },
  cursor_rewind: { agent_id: ID, name: 'c', project_id, to_seq: 0, rewinds: 1 },
  tick: { schedule_id: ID, due_at: NOW, project_id, outcome: 'skipped', reason: 'overlap' },
  idempotency_key: { project_id, key: 'k', request_sha256: 'aa', batch_id: ID },
};

/** The rows that each CHECK refuses: changes to the valid row that break no other CHECK. */
const REFUSED: Readonly<Record<string, readonly Row[]>> = {
  'agent.agent_context_window_limit_check': [{ context_window_limit: 0 }],
  'agent.agent_model_check': [{ model: 'claude' }, { model: '/claude' }],
  'agent.agent_server_tools_check': [{ server_tools: '{}' }],
  'batch.batch_cancelling': [{ state: 'cancelling' }, { state: 'cancelled', completed_at: NOW }],
  'batch.batch_ended': [{ state: 'completed' }, { state: 'failed' }, { completed_at: NOW }],
  'batch.batch_expires': [
    { expires_at: NOW, expires_in_days: 1 },
    { state: 'completed', completed_at: NOW, expires_at: NOW },
  ],
  'batch.batch_expires_in_days_check': [{ expires_in_days: 0 }],
  'batch.batch_expected_nanousd_check': [{ expected_nanousd: -1 }],
  'batch.batch_paused': [{ state: 'paused' }],
  'batch.batch_state_check': [{ state: 'done' }],
  'batch.batch_total_check': [{ total: -1 }],
  'batch.batch_within_total': [{ accepted: 0 }, { accepted: 2 }, { accepted: -1, state: 'receiving' }],
  'batch.batch_tick': [{ schedule_id: ID }],
  'batch.batch_pilot_state': [{ pilot: '{}', pilot_state: 'lost' }],
  'batch.batch_pilot_complete': [
    { pilot: '{}' },
    { pilot_state: 'running' },
    { pilot_ordinals: [0] },
    { pilot: '{}', pilot_state: 'passed' },
    { pilot: '{}', pilot_state: 'running', pilot_ended_at: NOW },
    { pilot: '{}', pilot_state: 'waiting', state: 'paused', state_reason: 'why' },
  ],
  'batch.batch_pilot_fits_state': [
    { pilot: '{}', pilot_state: 'stopped' },
    { pilot: '{}', pilot_state: 'running', state: 'completed', completed_at: NOW },
    { pilot: '{}', pilot_state: 'waiting', pilot_ended_at: NOW, pilot_result: '{}' },
  ],
  'batch_agent.batch_agent_ordinal_check': [{ ordinal: -1 }],
  'cursor_rewind.cursor_rewind_rewinds_check': [{ rewinds: 0 }],
  'cursor_rewind.cursor_rewind_to_seq_check': [{ to_seq: -1 }],
  'cursor_span.cursor_span_forward': [{ to_seq: 0 }, { top_seq: 0 }],
  'cursor_span.cursor_span_from_seq_check': [{ from_seq: -1 }],
  'batch_budget.batch_budget_max_cost_nanousd_check': [{ max_cost_nanousd: 0 }],
  'batch_budget.batch_budget_max_output_tokens_check': [{ max_output_tokens: 0 }],
  'batch_budget.batch_budget_reserved_nanousd_check': [{ reserved_nanousd: -1 }],
  'batch_budget.batch_budget_reserved_output_tokens_check': [{ reserved_output_tokens: -1 }],
  'batch_budget.batch_budget_room_check': [{ room: 'some' }],
  'batch_budget.batch_budget_spent_nanousd_check': [{ spent_nanousd: -1 }],
  'batch_budget.batch_budget_spent_output_tokens_check': [{ spent_output_tokens: -1 }],
  'block.block_head_revision_check': [{ head_revision: 0 }],
  'batch.batch_apply': [{ apply: 'never' }],
  'held_change.held_change_kind_check': [{ kind: 'moved', base_revision: 1, base_label: 'notes' }],
  'held_change.held_change_state_check': [{ state: 'lost', settled_at: NOW }],
  'failed_lines.failed_lines_lines_check': [{ lines: -1 }],
  'ended_runs.ended_runs_run_ids_check': [{ run_ids: [] }],
  'batch.batch_callback_events': [{ callback_events: ['done'] }],
  'sent_steps.sent_steps_steps_check': [{ steps: 0 }],
  'event.event_type_check': [{ type: 'batch.done' }],
  'event.event_subject': [{ batch_id: null }, { schedule_id: ID }, { type: 'schedule.tick' }],
  'session.session_kind_check': [{ kind: 'phone' }],
  'secret.secret_name_check': [{ name: '' }, { name: '1st' }, { name: 'A-B' }, { name: 'x'.repeat(65) }],
  'secret.secret_key_id_check': [{ key_id: '0123456789ABCDEF' }, { key_id: '0123' }],
  'secret.secret_nonce_check': [{ nonce: '\\x00' }],
  'secret.secret_ciphertext_check': [
    { ciphertext: `\\x${'00'.repeat(16)}` },
    { ciphertext: `\\x${'00'.repeat(65_553)}` },
  ],
  'staged_line.staged_line_ordinal_check': [{ ordinal: -1 }],
  'run_failure.run_failure_state_check': [{ state: 'completed' }],
  'batch_retry_run.batch_retry_run_decided': [{ retry_run_id: ID, skip_reason: 'no_input' }],
  'held_change.held_change_base': [
    { kind: 'revised' },
    { base_revision: 1, base_label: 'notes' },
    { kind: 'revised', base_revision: 1 },
  ],
  'held_change.held_change_settled': [{ state: 'accepted' }, { settled_at: NOW }],
  'block.block_held': [{ held_by_batch_id: ID }],
  'block.block_conflict_policy': [{ conflict_policy: 'first_write' }],
  'block_event.block_event_kind_check': [{ kind: 'moved' }],
  'block_event.block_event_renamed': [{ kind: 'renamed' }, { new_label: 'facts' }],
  'block_revision.block_revision_char_limit_check': [{ char_limit: 0 }],
  'block_revision.block_revision_check': [{ revision: 2, based_on: 2 }],
  'block_revision.block_revision_first': [{ revision: 2 }, { revision: 1, based_on: 0 }],
  'block_revision.block_revision_revision_check': [{ revision: 0, based_on: -1 }],
  'block_revision.block_revision_writer': [
    { batch_id: ID },
    { run_id: ID, step_number: 1, tool_use_id: 'toolu_1', resolution: 'clean' },
  ],
  'block_revision.block_revision_resolution': [
    { batch_id: ID, run_id: ID, step_number: 1, tool_use_id: 'toolu_1', resolution: 'dirty' },
  ],
  'block_revision.block_revision_resolved': [
    { resolution: 'clean' },
    { batch_id: ID, run_id: ID, step_number: 1, tool_use_id: 'toolu_1' },
  ],
  'conversation.conversation_context_from_seq_check': [{ context_from_seq: -1 }],
  'conversation.conversation_low_bits_free': [
    { id: '01900000-0000-7000-8000-000000000001' },
    { id: '01900000-0000-7000-8000-000000000100' },
    { id: '01900000-0000-7000-8000-000000010000' },
    { id: '01900000-0000-7000-8000-000040000000' },
  ],
  'conversation.conversation_reset_is_past': [
    { reset_seq: -1 },
    { reset_seq: 1 },
    { reset_seq: 3, context_from_seq: 3 },
  ],
  'conversation.conversation_summary_is_past': [
    { summary_to_seq: 0 },
    { summary_to_seq: 3, context_from_seq: 3 },
  ],
  'conversation_summary.conversation_summary_hidden_check': [{ hidden: 0 }],
  'conversation_summary.conversation_summary_summary_check': [{ summary: '' }],
  'conversation_summary.conversation_summary_to_seq_check': [{ to_seq: 0 }],
  'definition.definition_strict_check': [{ strict: '[]' }],
  'definition.definition_context_window_limit_check': [{ context_window_limit: 0 }],
  'definition.definition_tool_choice_check': [{ tool_choice: '[]' }],
  'definition.definition_server_tools_check': [{ server_tools: '{}' }],
  'deleted_item.deleted_item_kind_check': [{ kind: 'agent' }],
  'doubted_submission.doubted_submission_outcome_check': [{ outcome: 'lost' }],
  'forgotten_batch.forgotten_batch_due': [{ next_due_at: null }, { removed_at: NOW }],
  'forgotten_batch.forgotten_batch_state_check': [{ state: 'running' }],
  'forgotten_batch.forgotten_batch_tick': [{ schedule_id: ID }, { tick_due_at: NOW }],
  'idempotency_key.idempotency_key_key_check': [{ key: '' }, { key: 'x'.repeat(256) }],
  'idempotency_key.idempotency_key_stands': [{ batch_id: null }, { made: '{}' }],
  'message.message_role_check': [{ role: 'tool' }],
  'message.message_seq_check': [{ seq: -1 }, { seq: 0x1_00_00_00 }],
  'model_outage.model_outage_outages_check': [{ outages: 0 }],
  'provider_batch.provider_batch_due': [
    { next_due_at: null },
    { state: 'rejected' },
    { state: 'orphan_paid' },
  ],
  'provider_batch.provider_batch_ended': [{ ...accepted, state: 'ended' }],
  'provider_batch.provider_batch_ingested': [
    { ...accepted, state: 'ingested', ended_at: NOW, next_due_at: null },
    { ...accepted, state: 'ended', ended_at: NOW, ingested_at: NOW },
  ],
  'provider_batch.provider_batch_nonce_check': [
    { nonce: 'abcde' },
    { nonce: 'ABCDEF' },
    { nonce: 'a'.repeat(17) },
    { nonce: 'abc-def' },
  ],
  'provider_batch.provider_batch_request_count_check': [{ request_count: -1 }],
  'provider_batch.provider_batch_steps_forgotten': [{ forgotten_steps: -1 }, { forgotten_steps: 2_000_000 }],
  'provider_batch.provider_batch_state_check': [{ state: 'lost' }],
  'provider_batch.provider_batch_submitted': [
    { ...accepted, state: 'submitted', provider_id: null },
    { ...accepted, state: 'cancelling', submitted_at: null },
    { ...accepted, state: 'ended', ended_at: NOW, provider_id: null },
  ],
  'provider_batch.provider_batch_unsent': [
    { provider_id: 'msgbatch_1' },
    { ...sent, state: 'submitting', provider_id: 'msgbatch_1' },
    { ...sent, state: 'unknown', provider_id: 'msgbatch_1' },
  ],
  'provider_batch.provider_batch_written_ahead': [
    { state: 'submitting' },
    { ...sent, state: 'submitting', body_sha256: null },
    { ...sent, state: 'unknown', body_bytes: null },
    { ...accepted, state: 'submitted', submit_started_at: null },
  ],
  'result_line.result_line_reason_check': [{ reason: 'odd' }],
  'run.run_attempt_check': [{ attempt: 0 }, { attempt: 256 }],
  'run.run_ended': [
    { state: 'completed' },
    { state: 'completed', ended_at: NOW },
    { state: 'cancelled', stop_reason: 'cancelled' },
    { ended_at: NOW, stop_reason: 'end_turn' },
  ],
  'run.run_failed_says_why': [{ state: 'failed', stop_reason: 'refusal', ended_at: NOW }],
  'run.run_failing': [
    { failing_since: NOW },
    { failing_since: NOW, last_error: '{}' },
    { last_error: '{}', next_attempt_at: NOW },
  ],
  'run.run_low_bits_free': [
    { id: '01900000-0000-7000-8000-000000000001' },
    { id: '01900000-0000-7000-8000-000000000100' },
    { id: '01900000-0000-7000-8000-000000010000' },
  ],
  'run.run_max_steps_check': [{ max_steps: 65_536 }, { max_steps: 0, step_number: 0 }],
  'run.run_ordinal_check': [{ ordinal: -1 }],
  'run.run_overdue': [
    { deadline_at: NOW },
    { overdue_from: NOW },
    { deadline_at: NOW, overdue_from: '2026-11-21T12:00:00Z' },
    { cancel_requested_at: NOW },
    { cancel_requested_at: NOW, deadline_at: '2026-11-21T12:00:00Z', overdue_from: '2026-11-21T12:00:00Z' },
    {
      state: 'completed',
      stop_reason: 'end_turn',
      ended_at: NOW,
      deadline_at: NOW,
      overdue_from: NOW,
    },
  ],
  'run.run_started': [
    { state: 'queued' },
    { state: 'queued', first_seq: null, last_seq: null },
    { started_at: null },
    { first_seq: null, last_seq: null, started_at: null },
    {
      state: 'completed',
      stop_reason: 'end_turn',
      ended_at: NOW,
      first_seq: null,
      last_seq: null,
      started_at: null,
    },
    { state: 'cancelled', stop_reason: 'cancelled', ended_at: NOW, last_seq: null },
  ],
  'run.run_max_cost_nanousd_check': [{ max_cost_nanousd: 0 }],
  'run.run_max_output_tokens_check': [{ max_output_tokens: 0 }],
  'run.run_state_check': [{ state: 'running' }],
  'run.run_steps_bounded': [{ step_number: 4 }, { step_number: 0 }],
  'run.run_stop_reason_check': [{ state: 'completed', ended_at: NOW, stop_reason: 'tired' }],
  'run.run_summary_steps_check': [{ summary_steps: -1 }],
  'run_chunk.run_chunk_kind_check': [{ kind: 'idle' }],
  'run_chunk.run_chunk_run_ids_check': [
    { run_ids: [] },
    { run_ids: Array.from({ length: 10_001 }, () => ID) },
  ],
  'schedule.schedule_catch_up_window_s_check': [{ catch_up_window_s: -1 }],
  'schedule.schedule_due': [
    { next_due_at: null },
    { tick_due_at: null },
    { state: 'paused', state_reason: 'by hand' },
  ],
  'schedule.schedule_failures_max_check': [{ failures_max: 0 }],
  'schedule.schedule_jitter_s_check': [{ jitter_s: -1 }],
  'schedule.schedule_max_cost_nanousd_per_month_check': [{ max_cost_nanousd_per_month: 0 }],
  'schedule.schedule_overlap_check': [{ overlap: 'replace' }],
  'schedule.schedule_says_why': [{ state: 'paused', tick_due_at: null, next_due_at: null }],
  'schedule.schedule_state_check': [
    { state: 'off', state_reason: 'off', tick_due_at: null, next_due_at: null },
  ],
  'step.step_answer_limit_check': [{ answer_limit: 0 }],
  'step.step_answered': [
    { state: 'answered', applied_at: NOW },
    { state: 'done', applied_at: NOW, ended_at: NOW },
  ],
  'step.step_applied': [
    { applied_at: NOW },
    { state: 'answered', stop_reason: 'tool_use' },
    { state: 'lost', ended_at: NOW, applied_at: NOW },
  ],
  'step.step_cache_read_tokens_check': [{ cache_read_tokens: -1 }],
  'step.step_cache_write_1h_tokens_check': [{ cache_write_1h_tokens: -1 }],
  'step.step_cache_write_5m_tokens_check': [{ cache_write_5m_tokens: -1 }],
  'step.step_cost_nanousd_check': [{ cost_nanousd: -1 }],
  'step.step_ended': [
    { ended_at: NOW },
    { state: 'lost' },
    { state: 'done', stop_reason: 'end_turn', applied_at: NOW },
  ],
  'run.run_prompt': [{ prompt_number: 1 }, { prompt_attempt: 1 }],
  'step.step_prompt': [
    { prompt_number: 1 },
    { prompt_attempt: 1 },
    { prompt_number: 1, prompt_attempt: 2 },
    { prompt_number: 2, prompt_attempt: 1 },
  ],
  'step.step_counts': [{ passages: 1 }, { passage_tags: '{a}' }],
  'step.step_error': [{ state: 'errored', ended_at: NOW }],
  'step.step_input_tokens_check': [{ input_tokens: -1 }],
  'step.step_max_tokens_fitted': [{ max_tokens_fitted: 0 }, { max_tokens_fitted: 2 }],
  'step.step_output_tokens_check': [{ output_tokens: -1 }],
  'step.step_passages_check': [{ passages: -1, passage_tags: '{}' }],
  'step.step_reserved': [{ reserved_nanousd: 1 }, { reserved_output_tokens: 1 }],
  'step.step_reserved_nanousd_check': [{ reserved_nanousd: -1, reserved_output_tokens: 1 }],
  'step.step_state_check': [{ state: 'open', ended_at: NOW }],
  'tick.tick_outcome_check': [{ outcome: 'late' }],
  'tick.tick_says_why': [{ reason: null }],
  'tick.tick_started': [{ outcome: 'started' }, { batch_id: ID }],
  'waiting_message.waiting_message_place_check': [{ place: 0 }],
  'waiting_message.waiting_message_role_check': [{ role: 'tool' }],
  'token_calibration.token_calibration_bytes_per_token_check': [{ bytes_per_token: 0 }],
  'token_calibration.token_calibration_samples_check': [{ samples: 0 }],
  'prompt_density.prompt_density_samples_check': [{ samples: 0 }],
  'prompt_density.prompt_density_bytes_per_token_min_check': [{ bytes_per_token_min: 0 }],
  'mcp_server.mcp_server_name_check': [{ name: '' }, { name: '.a' }, { name: 'x'.repeat(65) }],
  'mcp_server.mcp_server_url_check': [{ url: '' }, { url: 'x'.repeat(2_049) }],
  'mcp_server.mcp_server_headers_check': [{ headers: '[]' }],
  'mcp_server.mcp_server_program': [
    { url: null, headers: '{"a":"b"}' },
    { url: null, auth_header: 'a' },
  ],
  'mcp_tool.mcp_tool_name_check': [{ name: '' }, { name: 'x'.repeat(129) }],
  'mcp_tool.mcp_tool_offered_sha256_check': [{ offered_sha256: 'a' }],
  'mcp_tool.mcp_tool_approved_sha256_check': [{ approved: '{}', approved_sha256: 'a' }],
  'mcp_tool.mcp_tool_offered': [{ offered_sha256: null }],
  'mcp_tool.mcp_tool_approved': [{ approved: '{}' }, { approved_sha256: 'a'.repeat(64) }],
  'mcp_tool.mcp_tool_any': [{ offered: null, offered_sha256: null }],
  'mcp_tool.mcp_tool_tool': [{ tool_id: ID }],
  'tool_code.tool_code_code_check': [{ code: 'x'.repeat(524_289) }],
  'tool_code.tool_code_sha256_check': [{ sha256: 'A'.repeat(64) }],
  'tool_trial.tool_trial_arguments_check': [{ arguments: '[]' }],
  'tool_trial.tool_trial_tool_check': [{ tool: '[]' }],
  'tool_trial.tool_trial_state_check': [{ state: 'lost', taken_by: 'w', replies_until: NOW }],
  'tool_trial.tool_trial_reply_check': [{ state: 'ended', taken_by: 'w', replies_until: NOW, reply: '[]' }],
  'tool_trial.tool_trial_taken': [
    { state: 'running' },
    { taken_by: 'w', replies_until: NOW },
    { state: 'running', taken_by: 'w' },
  ],
  'tool_trial.tool_trial_replied': [
    { state: 'ended', taken_by: 'w', replies_until: NOW },
    { state: 'running', taken_by: 'w', replies_until: NOW, reply: '{}' },
  ],
  'turnaround.turnaround_durations_ms_check': [
    { durations_ms: [] },
    { durations_ms: Array<number>(65).fill(1) },
  ],
  'work_statistic.work_statistic_measure_check': [{ measure: 'mean' }],
  'work_statistic.work_statistic_bucket_check': [{ bucket: -1 }],
  'tool.tool_kind_check': [{ kind: 'magic' }],
  'tool.tool_source': [{ kind: 'sandbox' }, { kind: 'module', source: '{}' }],
  'tool.tool_concurrency_check': [
    { kind: 'module', concurrency: 0 },
    { kind: 'module', concurrency: 10_001 },
  ],
  'tool.tool_rate_per_minute_check': [
    { kind: 'module', rate_per_minute: 0 },
    { kind: 'module', rate_per_minute: 1_000_001 },
  ],
  'tool.tool_limits_of_worker': [
    { kind: 'memory', concurrency: 1 },
    { kind: 'client', rate_per_minute: 1 },
  ],
  'tool_grant.tool_grant_under_way_check': [{ under_way: -1 }],
  'tool_grant.tool_grant_waiting_check': [{ waiting: -1 }],
  'tool_grant.tool_grant_covers_calls': [{ under_way: 1 }],
  'tool_bucket.tool_bucket_tokens_check': [{ tokens: -1 }],
  'tool.tool_name_check': [{ name: '' }, { name: 'with space' }, { name: 'x'.repeat(65) }],
  'tool.tool_return_char_limit_check': [{ return_char_limit: 0 }, { return_char_limit: 1_000_001 }],
  'tool.tool_side_effects_check': [{ side_effects: 'many' }],
  'tool.tool_timeout_ms_check': [{ timeout_ms: 0 }, { timeout_ms: 3_600_001 }],
  'tool_call.tool_call_awaits_check': [{ awaits: 'money' }],
  'tool_call.tool_call_verdict_check': [{ awaits: 'answer', verdict: 'perhaps', answer_sha256: 'a' }],
  'tool_call.tool_call_verdict': [
    { awaits: 'answer', verdict: 'answered' },
    { awaits: 'answer', answer_sha256: 'a' },
    { verdict: 'denied', answer_sha256: 'a' },
  ],
  'tool_call.tool_call_duration_ms_check': [{ duration_ms: -1 }],
  'tool_call.tool_call_ended': [{ ended_at: NOW }, { state: 'succeeded' }, { state: 'unknown' }],
  'tool_call.tool_call_held': [{ held_result: 'x' }, { state: 'running', started_at: NOW, held_result: 'x' }],
  'tool_call.tool_call_kind_check': [{ kind: 'magic' }],
  'tool_call.tool_call_running': [{ state: 'running' }],
  'tool_call.tool_call_state_check': [{ state: 'open', ended_at: NOW }],
  'tool_call_output.tool_call_output_attempts_check': [{ attempts: 0, stdout: 'x' }],
  'tool_call_output.tool_call_output_answer_bytes_check': [{ answer_bytes: 0 }],
  'tool_call_output.tool_call_output_stdout_check': [{ stdout: '' }, { stdout: 'x'.repeat(4_097) }],
  'tool_call_output.tool_call_output_stderr_check': [{ stderr: '' }, { stderr: 'x'.repeat(4_097) }],
  'tool_call_output.tool_call_output_any': [{ attempts: 1 }],
};

/** Runs `work` in a transaction that is rolled back, without foreign keys, so that a row is checked alone. */
async function onTrial<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await database.pool.connect();
  try {
    await client.query('begin; set local session_replication_role = replica');
    return await work(client);
  } finally {
    await client.query('rollback');
    client.release();
  }
}

function insert(client: PoolClient, table: string, row: Row): Promise<unknown> {
  const names = Object.keys(row);
  const places = names.map((_, index) => `$${index + 1}`).join(', ');
  return client.query(`insert into ${table} (${names.join(', ')}) values (${places})`, Object.values(row));
}

/** Returns the name of the constraint that refuses the row; null if the row is accepted. */
function refusedBy(table: string, row: Row): Promise<string | null> {
  return onTrial(async (client) => {
    try {
      await insert(client, table, row);
      return null;
    } catch (error) {
      const { code, constraint } = error as { code?: string; constraint?: string };
      if (code !== '23514') throw error;
      return constraint ?? 'unnamed';
    }
  });
}

async function names(text: string): Promise<readonly string[]> {
  const { rows } = await database.pool.query<{ name: string }>(text);
  return rows.map((row) => row.name);
}

test('every CHECK of the schema has a case below', async () => {
  const checks = await names(
    `select c.relname || '.' || k.conname as name from pg_constraint k join pg_class c on c.oid = k.conrelid
      where k.contype = 'c' and c.relnamespace = 'public'::regnamespace`,
  );
  expect(Object.keys(REFUSED).sort()).toEqual([...checks].sort());
});

test.each(Object.entries(VALID))('the base row of the refusals is accepted: %s', async (table, row) => {
  expect(await refusedBy(table, row)).toBeNull();
});

describe('a CHECK refuses an invalid row', () => {
  const cases = Object.entries(REFUSED).flatMap(([path, changes]) => {
    const [table = '', constraint = ''] = path.split('.');
    return changes.map((change) => ({
      table,
      constraint,
      change: JSON.stringify(change).slice(0, 120),
      row: change,
    }));
  });
  test.each(cases)('$constraint: $change', async ({ table, constraint, row }) => {
    // Postgres names the first broken constraint by name, so the row must break no earlier one.
    expect(await refusedBy(table, { ...VALID[table], ...row })).toBe(constraint);
  });
});

describe('a unique constraint refuses a second row', () => {
  test.each([
    [
      'a step has one answer',
      'message',
      { ...VALID['message'], role: 'assistant', run_id: ID, step_number: 1 },
      { ...VALID['message'], role: 'assistant', run_id: ID, step_number: 1, seq: 2 },
      'message_answer_once',
    ],
    [
      'a place in a provider batch belongs to one step',
      'step',
      VALID['step'],
      { ...VALID['step'], attempt: 2 },
      'step_by_provider_batch',
    ],
    [
      'a message number is given once',
      'message',
      VALID['message'],
      { ...VALID['message'], role: 'assistant' },
      'message_pkey',
    ],
    [
      'a batch of the provider belongs to one of ours',
      'provider_batch',
      { ...VALID['provider_batch'], ...accepted, state: 'submitted' },
      {
        ...VALID['provider_batch'],
        ...accepted,
        state: 'submitted',
        id: '01900000-0000-7000-8000-000000000001',
        nonce: 'bcdefg',
      },
      'provider_batch_provider_id_key',
    ],
    [
      'a nonce names one submission',
      'provider_batch',
      VALID['provider_batch'],
      { ...VALID['provider_batch'], id: '01900000-0000-7000-8000-000000000001' },
      'provider_batch_nonce_key',
    ],
    [
      'a place in a batch belongs to one run',
      'run',
      VALID['run'],
      { ...VALID['run'], id: '01900000-0000-7000-8000-000001000000' },
      'run_batch_id_ordinal_key',
    ],
    [
      'a moment of a schedule is one tick',
      'tick',
      VALID['tick'],
      { ...VALID['tick'], outcome: 'missed' },
      'tick_pkey',
    ],
  ] as const)('%s', async (_promise, table, first, second, constraint) => {
    const outcome = onTrial(async (client) => {
      await insert(client, table, first as Row);
      await insert(client, table, second);
    });
    await expect(outcome).rejects.toMatchObject({ code: '23505', constraint });
  });

  test('several attempts may be unapplied', async () => {
    await onTrial(async (client) => {
      const lost = { ...VALID['step'], state: 'lost', ended_at: NOW };
      await insert(client, 'step', lost);
      await insert(client, 'step', { ...lost, attempt: 2, ordinal: 1 });
      const applied = { state: 'done', stop_reason: 'end_turn', applied_at: NOW, ended_at: NOW };
      await insert(client, 'step', { ...VALID['step'], ...applied, attempt: 3, ordinal: 2 });
    });
  });
});

test('tables written per run or step have no foreign keys', async () => {
  const owners = await names(
    `select distinct conrelid::regclass::text as name from pg_constraint where contype = 'f'`,
  );
  expect(
    owners.filter((table) => ['run', 'step', 'message', 'tool_call', 'tool_call_output'].includes(table)),
  ).toEqual([]);
});

test('every table belongs to a project', async () => {
  const without = await names(
    `select c.relname as name from pg_class c
      where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname not like 'kysely\\_%' and c.relname <> 'project'
        and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'project_id' and a.attnotnull)`,
  );
  expect(without).toEqual([]);
});

test('no index of run depends on a column that changes with every step', async () => {
  const { rows } = await database.pool.query<{ name: string; columns: string[] }>(
    `select x.relname as name, array(
              select distinct a.attname::text from pg_depend d join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
               where d.objid = i.indexrelid and d.refobjid = 'run'::regclass and d.refobjsubid > 0) as columns
       from pg_index i join pg_class x on x.oid = i.indexrelid where i.indrelid = 'run'::regclass`,
  );
  const changing = ['state', 'step_number', 'attempt', 'failures', 'token_boost', 'last_seq'];
  expect(rows.length).toBeGreaterThan(3);
  for (const { name, columns } of rows) {
    expect({ name, columns: columns.filter((column) => changing.includes(column)) }).toEqual({
      name,
      columns: [],
    });
  }
});
