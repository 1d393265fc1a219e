import type { ColumnType, Generated } from 'kysely';
import type {
  BatchState,
  CallbackEventName,
  CompactionPolicy,
  ConflictPolicy,
  DecodedBill,
  EventType,
  HoldRule,
  Json,
  JsonObject,
  LastError,
  McpDefinition,
  ModelSettings,
  PilotResult,
  PilotSettings,
  PilotState,
  ProviderBatchState,
  ResultFormat,
  RunState,
  SideEffects,
  StepState,
  StopReason,
  StopWhen,
  StrictParts,
  ToolCallState,
  ServerTool,
  ToolChoice,
  ToolDefinition,
  ToolKind,
  ToolSource,
  WriteResolution,
} from '@nightshift/agent-core';

/*
 * An interface per table with the columns of the migrations; a test compares them. Records keep their snake_case up to the
 * wire.
 */

/** A timestamptz: read as a Date, written as a Date or as text. */
export type Timestamp = ColumnType<Date, Date | string, Date | string>;
type Stamped = ColumnType<Date, Date | string | undefined, Date | string>;
/** A `json` column: read as parsed JSON, written as JSON text, so that nothing is serialized twice. */
export type JsonColumn<T> = ColumnType<T, string, string>;
type JsonDefaulted<T> = ColumnType<T, string | undefined, string>;

export interface LeaseColumns {
  next_due_at: Timestamp | null;
  lease_owner: string | null;
  lease_until: ColumnType<Date | number, Date | string | undefined, Date | string>;
  lease_epoch: Generated<number>;
}

export interface ProjectTable {
  id: string;
  name: string;
  created_at: Stamped;
}

export interface ConversationTable {
  id: string;
  project_id: string;
  run_id: string | null;
  context_from_seq: Generated<number>;
  summary_to_seq: number | null;
  reset_seq: Generated<number>;
  created_at: Stamped;
}

export interface AgentTable {
  id: string;
  project_id: string;
  conversation_id: string;
  name: string;
  description: string | null;
  agent_type: string;
  system: string;
  model: string;
  model_settings: JsonColumn<ModelSettings>;
  tool_rules: JsonColumn<readonly JsonObject[]>;
  metadata: JsonColumn<Record<string, unknown>> | null;
  tags: Generated<string[]>;
  timezone: Generated<string>;
  message_buffer_autoclear: Generated<boolean>;
  context_window_limit: number;
  compaction: JsonDefaulted<CompactionPolicy>;
  hidden: Generated<boolean>;
  echoed: JsonDefaulted<Record<string, unknown>>;
  created_at: Stamped;
  updated_at: Stamped;
  deleted_at: Timestamp | null;
  result_format: JsonColumn<unknown> | null;
  server_tools: JsonColumn<readonly ServerTool[]> | null;
  keeps_blocks: Generated<boolean>;
}

export interface BlockTable {
  id: string;
  project_id: string;
  label: string;
  head_revision: number;
  conflict_policy: Generated<ConflictPolicy>;
  metadata: JsonDefaulted<Record<string, unknown>>;
  tags: Generated<string[]>;
  is_template: Generated<boolean>;
  hidden: Generated<boolean>;
  created_at: Stamped;
  updated_at: Stamped;
  deleted_at: Timestamp | null;
  held_by_batch_id: string | null;
}

export interface BlockRevisionTable {
  block_id: string;
  revision: number;
  project_id: string;
  description: string | null;
  value: string;
  char_limit: number;
  read_only: boolean;
  based_on: number | null;
  batch_id: string | null;
  run_id: string | null;
  step_number: number | null;
  tool_use_id: string | null;
  resolution: WriteResolution | null;
  created_at: Stamped;
}

export interface BlockEventTable {
  project_id: string;
  block_id: string;
  agent_id: string;
  kind: 'created' | 'detached' | 'renamed';
  label: string;
  new_label: string | null;
  batch_id: string;
  run_id: string;
  step_number: number;
  place: number;
  tool_use_id: string;
  created_at: Stamped;
}

export interface AgentBlockTable {
  agent_id: string;
  block_id: string;
  label: string;
  project_id: string;
  position: number;
}

export interface ToolTable {
  id: string;
  project_id: string;
  name: string;
  kind: ToolKind;
  tool_type: string;
  description: string;
  input_schema: JsonColumn<JsonObject>;
  side_effects: SideEffects;
  return_char_limit: number;
  timeout_ms: number;
  requires_approval: Generated<boolean>;
  source_type: string;
  source_code: string | null;
  source: JsonColumn<ToolSource> | null;
  concurrency: number | null;
  rate_per_minute: number | null;
  tags: Generated<string[]>;
  metadata: JsonDefaulted<Record<string, unknown>>;
  created_at: Stamped;
  updated_at: Stamped;
}

export interface ToolTrialTable {
  id: string;
  project_id: string;
  agent_id: string;
  tool: JsonColumn<ToolDefinition>;
  arguments: JsonColumn<JsonObject>;
  state: Generated<'waiting' | 'running' | 'ended'>;
  waits_until: Timestamp;
  taken_by: string | null;
  replies_until: Timestamp | null;
  reply: JsonColumn<JsonObject> | null;
  created_at: Stamped;
}

export interface ToolGrantTable {
  tool_id: string;
  owner: string;
  project_id: string;
  under_way: number;
  waiting: number;
  places: number;
  granted_until: Timestamp;
}

export interface ToolBucketTable {
  tool_id: string;
  project_id: string;
  tokens: number;
  filled_at: Timestamp;
}

export interface ToolCodeTable {
  project_id: string;
  sha256: string;
  code: string;
  created_at: Stamped;
}

export interface McpServerTable {
  id: string;
  project_id: string;
  name: string;
  url: string | null;
  headers: JsonDefaulted<Readonly<Record<string, string>>>;
  auth_header: string | null;
  revision: string;
  refreshed_at: Stamped;
  created_at: Stamped;
  updated_at: Stamped;
}

export interface McpToolTable {
  server_id: string;
  project_id: string;
  name: string;
  offered: JsonColumn<McpDefinition> | null;
  offered_sha256: string | null;
  approved: JsonColumn<McpDefinition> | null;
  approved_sha256: string | null;
  tool_id: string | null;
}

export interface AgentToolTable {
  agent_id: string;
  tool_id: string;
  project_id: string;
  position: number;
}

export interface DefinitionTable {
  id: string;
  project_id: string;
  agent_type: string;
  system: string;
  model: string;
  model_settings: JsonColumn<ModelSettings>;
  tool_rules: JsonColumn<readonly JsonObject[]>;
  tools: JsonColumn<readonly ToolDefinition[]>;
  result_format: JsonColumn<ResultFormat> | null;
  strict: JsonColumn<StrictParts> | null;
  context_window_limit: Generated<number>;
  compaction: JsonDefaulted<CompactionPolicy>;
  shows_counts: Generated<boolean>;
  writable_labels: string[] | null;
  tool_choice: JsonColumn<ToolChoice> | null;
  server_tools: JsonColumn<readonly ServerTool[]> | null;
  created_at: Stamped;
}

export interface BatchTable extends LeaseColumns {
  id: string;
  project_id: string;
  state: BatchState;
  state_reason: string | null;
  total: number;
  metadata: JsonColumn<JsonObject> | null;
  callback_url: string | null;
  callback_sent_at: Timestamp | null;
  callback_status_code: number | null;
  callback_error: string | null;
  callback_attempts: Generated<number>;
  created_at: Stamped;
  updated_at: Stamped;
  cancel_requested_at: Timestamp | null;
  completed_at: Timestamp | null;
  takeovers: Generated<number>;
  apply: Generated<'auto' | 'review'>;
  budgeted: Generated<boolean>;
  accepted: Generated<number>;
  source: JsonColumn<unknown> | null;
  agents_taken: Generated<number>;
  skipped: JsonDefaulted<Readonly<Record<string, number>>>;
  hold_if: JsonColumn<HoldRule> | null;
  schedule_id: string | null;
  tick_due_at: Timestamp | null;
  is_estimated: Generated<boolean>;
  expected_nanousd: number | null;
  estimate_error: number | null;
  pilot: JsonColumn<PilotSettings> | null;
  pilot_state: PilotState | null;
  pilot_ordinals: number[] | null;
  pilot_ended_at: Timestamp | null;
  pilot_result: JsonColumn<PilotResult> | null;
  retry_of: string | null;
  stop_when: JsonColumn<StopWhen> | null;
  name: string | null;
  tags: Generated<string[]>;
  version: Generated<number>;
  callback_events: Generated<CallbackEventName[]>;
  expires_in_days: number | null;
  expires_at: Timestamp | null;
  usage_booked: Generated<number>;
}

export interface ForgottenBatchTable extends LeaseColumns {
  id: string;
  project_id: string;
  state: 'completed' | 'cancelled' | 'failed';
  created_at: Timestamp;
  completed_at: Timestamp;
  schedule_id: string | null;
  tick_due_at: Timestamp | null;
  cost_nanousd: number;
  forgotten_at: Stamped;
  next_ordinal: Generated<number>;
  removed_at: Timestamp | null;
  takeovers: Generated<number>;
}

export interface ForgottenRunTable {
  run_id: string;
  batch_id: string;
  project_id: string;
}

export interface UsageDayTable {
  project_id: string;
  /** A date, read as text. */
  day: string;
  model: string;
  tags: string[];
  schedule_id: string | null;
  completed: number;
  failed: number;
  cancelled: number;
  steps: number;
  input_tokens: number;
  output_tokens: number;
  cache_write_tokens: number;
  cache_read_tokens: number;
  cost_nanousd: number;
  unpriced_steps: number;
}

export interface HeldChangeTable {
  batch_id: string;
  agent_id: string;
  block_id: string;
  project_id: string;
  draft_id: string;
  kind: 'revised' | 'created' | 'detached' | 'dropped';
  base_revision: number | null;
  base_label: string | null;
  state: Generated<'held' | 'accepted' | 'rejected'>;
  run_id: string;
  step_number: number;
  tool_use_id: string;
  created_at: Stamped;
  settled_at: Timestamp | null;
  edited_at: Timestamp | null;
}

export interface BatchBudgetTable {
  batch_id: string;
  project_id: string;
  max_cost_nanousd: number | null;
  max_output_tokens: number | null;
  spent_nanousd: Generated<number>;
  spent_output_tokens: Generated<number>;
  reserved_nanousd: Generated<number>;
  reserved_output_tokens: Generated<number>;
  room: Generated<'open' | 'short' | 'freed'>;
  overshoots: Generated<number>;
  overshot_nanousd: Generated<number>;
  overshot_output_tokens: Generated<number>;
  cut_offs: Generated<number>;
  needs_nanousd: number | null;
  needs_output_tokens: number | null;
}

export interface PassageTable {
  id: string;
  project_id: string;
  agent_id: string;
  content: string;
  tags: Generated<string[]>;
  words: string;
  batch_id: string;
  run_id: string;
  step_number: number;
  tool_use_id: string;
  held_by_batch_id: string | null;
  created_at: Stamped;
}

export interface BatchTallyTable {
  batch_id: string;
  slot: number;
  project_id: string;
  queued: Generated<number>;
  completed: Generated<number>;
  failed: Generated<number>;
  cancelled: Generated<number>;
  expired: Generated<number>;
  requires_action: Generated<number>;
  retrying: Generated<number>;
  steps: Generated<number>;
  tool_calls: Generated<number>;
  ended_tool_calls: Generated<number>;
  failed_tool_calls: Generated<number>;
  unknown_tool_calls: Generated<number>;
  input_tokens: Generated<number>;
  output_tokens: Generated<number>;
  cache_write_5m_tokens: Generated<number>;
  cache_write_1h_tokens: Generated<number>;
  cache_read_tokens: Generated<number>;
  cost_nanousd: Generated<number>;
  unpriced_steps: Generated<number>;
  version: Generated<number>;
  last_ended_at: Timestamp | null;
}

export interface EndedRunsTable {
  batch_id: string;
  slot: number;
  version: number;
  project_id: string;
  run_ids: string[];
  ended_at: Stamped;
}

export interface BatchMinuteTable {
  batch_id: string;
  minute: Timestamp;
  slot: number;
  project_id: string;
  ended: number;
  failed: number;
  input_tokens: number;
  output_tokens: number;
  cost_nanousd: number;
}

export interface SentStepsTable {
  batch_id: string;
  provider_batch_id: string;
  project_id: string;
  nonce: string;
  steps: number;
}

export interface EventTable {
  /** An xid8, which the driver reads as text. */
  xid: Generated<string>;
  /** Always generated. */
  id: number;
  project_id: string;
  type: EventType;
  batch_id: string | null;
  schedule_id: string | null;
  data: JsonColumn<JsonObject>;
  created_at: Stamped;
}

export interface CallbackEventTable {
  xid: string;
  id: number;
  project_id: string;
  attempts: Generated<number>;
  sent_at: Timestamp | null;
  status_code: number | null;
  error: string | null;
  next_due_at: Timestamp | null;
  lease_epoch: Generated<number>;
}

export interface RunFailureTable {
  batch_id: string;
  run_id: string;
  project_id: string;
  failed_at: Timestamp;
  state: 'failed' | 'expired' | 'cancelled';
  stop_reason: StopReason;
  message: string | null;
  fingerprint: string;
}

export interface BatchRetryRunTable {
  batch_id: string;
  ordinal: number;
  project_id: string;
  run_id: string;
  retry_run_id: string | null;
  skip_reason: string | null;
}

export interface BatchLabelTable {
  project_id: string;
  label: string;
  created_at: Timestamp;
  batch_id: string;
}

export interface RunTable {
  id: string;
  project_id: string;
  batch_id: string;
  agent_id: string;
  conversation_id: string;
  definition_id: string;
  ordinal: number;
  custom_id: string | null;
  state: RunState;
  stop_reason: StopReason | null;
  error: JsonColumn<JsonObject> | null;
  max_steps: number;
  step_number: Generated<number>;
  attempt: Generated<number>;
  failures: Generated<number>;
  token_boost: Generated<number>;
  trail: JsonColumn<unknown> | null;
  result: JsonColumn<Json> | null;
  summary_steps: Generated<number>;
  summarises_to_seq: number | null;
  deadline_at: Timestamp | null;
  /** The deadline of an open run, or the earlier time of its cancel request. A commit that ends the run must set it to null, as a CHECK enforces. */
  overdue_from: Timestamp | null;
  cancel_requested_at: Timestamp | null;
  first_seq: number | null;
  last_seq: number | null;
  created_at: Stamped;
  started_at: Timestamp | null;
  ended_at: Timestamp | null;
  max_cost_nanousd: number | null;
  max_output_tokens: number | null;
  prompt_number: number | null;
  prompt_attempt: number | null;
  /** When the present step first failed; an ended run keeps its last values of these three. */
  failing_since: Timestamp | null;
  last_error: JsonColumn<LastError> | null;
  next_attempt_at: Timestamp | null;
}

export interface ModelOutageTable {
  credential: string;
  model: string;
  project_id: string;
  outages: number;
  began_at: Timestamp;
  seen_at: Timestamp;
  ended_at: Timestamp | null;
}

export interface FailedLinesTable {
  error_type: string;
  slot: number;
  project_id: string;
  lines: Generated<number>;
}

export interface QueuedInputTable {
  run_id: string;
  project_id: string;
  messages: JsonColumn<unknown>;
}

export interface CredentialTable {
  id: string;
  name: string;
  project_id: string;
  paused_until: Timestamp | null;
  pause_reason: string | null;
  failures: Generated<number>;
  refusals: Generated<number>;
  simulated: boolean | null;
  clock_offset_ms: number | null;
  clock_uncertainty_ms: number | null;
  clock_measured_at: Timestamp | null;
  look_from: Timestamp | null;
  lease_owner: string | null;
  lease_until: ColumnType<Date | number, Date | string | undefined, Date | string>;
  lease_epoch: Generated<number>;
}

export interface ProviderBatchTable extends LeaseColumns {
  id: string;
  project_id: string;
  credential: string;
  state: ProviderBatchState;
  nonce: string;
  submission: Generated<number>;
  request_count: number;
  body_bytes: number | null;
  body_sha256: string | null;
  provider_id: string | null;
  submit_started_at: Timestamp | null;
  submitted_at: Timestamp | null;
  expires_at: Timestamp | null;
  ended_at: Timestamp | null;
  ingested_at: Timestamp | null;
  missing_since: Timestamp | null;
  searches: Generated<number>;
  not_ours: Generated<string[]>;
  streams: Generated<number>;
  lines_refused: Generated<number>;
  failures: Generated<number>;
  error: JsonColumn<unknown> | null;
  token_samples: JsonColumn<unknown> | null;
  created_at: Stamped;
  takeovers: Generated<number>;
  crash_count: Generated<number>;
  suspect: string | null;
  suspect_tries: Generated<number>;
  untried: Generated<boolean>;
  provider_sent_at: Timestamp | null;
  models: string[] | null;
  forgotten_steps: Generated<number>;
  cache_marks: Buffer | null;
}

export interface DoubtedSubmissionTable {
  nonce: string;
  project_id: string;
  provider_batch_id: string;
  outcome: 'adopted' | 'withdrawn' | 'proven';
  request_count: number;
  submit_started_at: Timestamp;
  watched_until: Timestamp;
  provider_sent_at: Timestamp | null;
}

export interface StepTable {
  project_id: string;
  run_id: string;
  number: number;
  attempt: number;
  provider_batch_id: string;
  ordinal: number;
  state: StepState;
  context_from_seq: number;
  context_to_seq: number;
  block_ids: string[];
  block_revisions: number[];
  block_labels: string[] | null;
  max_tokens: number;
  is_summary: Generated<boolean>;
  summary_to_seq: number | null;
  max_tokens_fitted: number | null;
  stop_reason: string | null;
  model: string | null;
  provider_message_id: string | null;
  input_tokens: Generated<number>;
  output_tokens: Generated<number>;
  cache_write_5m_tokens: Generated<number>;
  cache_write_1h_tokens: Generated<number>;
  cache_read_tokens: Generated<number>;
  cost_nanousd: number | null;
  error: JsonColumn<JsonObject> | null;
  sealed_at: Timestamp;
  applied_at: Timestamp | null;
  ended_at: Timestamp | null;
  reserved_nanousd: number | null;
  reserved_output_tokens: number | null;
  answer_limit: number | null;
  passages: number | null;
  passage_tags: string[] | null;
  prompt_number: number | null;
  prompt_attempt: number | null;
}

export interface MemoryNoticeTable {
  run_id: string;
  seq: number;
  project_id: string;
  block_ids: string[];
  block_revisions: number[];
  block_labels: string[] | null;
}

export interface MessageTable {
  project_id: string;
  conversation_id: string;
  seq: number;
  run_id: string | null;
  step_number: number | null;
  role: 'user' | 'assistant' | 'system';
  content: JsonColumn<unknown>;
  shown: Generated<boolean>;
  otid: string | null;
  name: string | null;
  said_at: Timestamp | null;
  created_at: Stamped;
}

export interface ToolCallTable {
  project_id: string;
  run_id: string;
  step_number: number;
  call_index: number;
  tool_use_id: string;
  tool_name: string;
  kind: ToolKind | 'rejected';
  state: ToolCallState;
  held_result: string | null;
  awaits: 'approval' | 'answer' | null;
  verdict: 'approved' | 'denied' | 'answered' | null;
  answer_sha256: string | null;
  started_at: Timestamp | null;
  ended_at: Timestamp | null;
  duration_ms: number | null;
  attempts: Generated<number>;
}

export interface ToolCallOutputTable {
  project_id: string;
  run_id: string;
  step_number: number;
  call_index: number;
  attempts: number;
  answer_bytes: number | null;
  stdout: string | null;
  stderr: string | null;
}

export interface RunChunkTable {
  id: string;
  project_id: string;
  kind: 'ready' | 'tools';
  run_ids: string[];
  created_at: Stamped;
  failures: Generated<number>;
  next_due_at: Timestamp;
  lease_owner: string | null;
  lease_until: ColumnType<Date | number, Date | string | undefined, Date | string>;
  lease_epoch: Generated<number>;
  takeovers: Generated<number>;
  gathered: Generated<boolean>;
}

export interface ResultLineTable {
  provider_batch_id: string;
  line_number: number;
  project_id: string;
  custom_id: string | null;
  reason: 'unreadable' | 'unusable' | 'too_long' | 'foreign' | 'conflicting';
  byte_length: number;
  excerpt: string;
  bill: JsonColumn<DecodedBill> | null;
  seen_at: Stamped;
}

export interface ScheduleTable {
  id: string;
  project_id: string;
  name: string;
  cron: string;
  time_zone: string;
  body: JsonColumn<unknown>;
  state: ScheduleState;
  state_reason: string | null;
  overlap: Generated<'skip' | 'queue'>;
  catch_up_window_s: Generated<number>;
  jitter_s: Generated<number>;
  ends_at: Timestamp | null;
  max_cost_nanousd_per_month: number | null;
  failures_max: number | null;
  tick_due_at: Timestamp | null;
  next_due_at: Timestamp | null;
  resumed_at: Timestamp | null;
  revision: Generated<number>;
  created_at: Stamped;
  updated_at: Stamped;
}

export type ScheduleState = 'active' | 'paused' | 'ended';

export interface TickTable {
  schedule_id: string;
  due_at: Timestamp;
  project_id: string;
  is_manual: Generated<boolean>;
  outcome: TickOutcome;
  reason: string | null;
  message: string | null;
  batch_id: string | null;
  created_at: Stamped;
}

export type TickOutcome = 'started' | 'waiting' | 'skipped' | 'missed' | 'refused';

export interface BatchAgentTable {
  batch_id: string;
  ordinal: number;
  agent_id: string;
  project_id: string;
  skip_reason: string | null;
}

export interface WaitingMessageTable {
  conversation_id: string;
  place: number;
  project_id: string;
  role: 'user' | 'assistant' | 'system';
  content: JsonColumn<unknown>;
  otid: string | null;
  name: string | null;
  said_at: Timestamp | null;
  created_at: Stamped;
}

export interface CursorSpanTable {
  run_id: string;
  agent_id: string;
  name: string;
  project_id: string;
  batch_id: string;
  from_seq: number;
  to_seq: number;
  top_seq: number;
  rewinds: Generated<number>;
  reverted_at: Timestamp | null;
  stop_reason: StopReason | null;
}

export interface CursorRewindTable {
  agent_id: string;
  name: string;
  project_id: string;
  to_seq: number;
  rewinds: number;
  rewound_at: Stamped;
}

export interface AuditReportTable {
  id: string;
  project_id: string;
  started_at: Stamped;
  finished_at: Timestamp | null;
  violations: JsonColumn<unknown> | null;
  covered_to: Timestamp | null;
  slice_to: string | null;
}

export interface IdempotencyKeyTable {
  project_id: string;
  key: string;
  request_sha256: string;
  batch_id: string | null;
  made: JsonColumn<JsonObject> | null;
  created_at: Stamped;
  by_retry: Generated<boolean>;
}

export interface ConversationSummaryTable {
  conversation_id: string;
  to_seq: number;
  project_id: string;
  hidden: number;
  summary: string;
  run_id: string;
  step_number: number;
  created_at: Stamped;
}

export interface TokenCalibrationTable {
  model: string;
  project_id: string;
  bytes_per_token: number;
  samples: number;
  updated_at: Stamped;
}

export interface PromptDensityTable {
  definition_id: string;
  project_id: string;
  samples: number;
  bytes_per_token_min: number;
  updated_at: Stamped;
}

export interface TurnaroundTable {
  credential: string;
  model: string;
  project_id: string;
  durations_ms: number[];
  updated_at: Stamped;
}

export interface WorkStatisticTable {
  key: string;
  measure: 'total' | 'step' | 'output';
  bucket: number;
  project_id: string;
  answers: number;
  ended: number;
  prompt_tokens: number;
  output_tokens: number;
  cache_write_5m_tokens: number;
  cache_write_1h_tokens: number;
  cache_read_tokens: number;
  used_on: Timestamp;
}

export interface SessionTable {
  hash: Buffer;
  project_id: string;
  kind: 'browser' | 'link';
  key_hash: Buffer;
  created_at: Stamped;
  expires_at: Date;
}

export interface SecretTable {
  project_id: string;
  agent_id: string | null;
  name: string;
  key_id: string;
  nonce: Buffer;
  ciphertext: Buffer;
  created_at: Stamped;
  updated_at: Stamped;
}

export interface UploadTable {
  batch_id: string;
  project_id: string;
  started_at: Stamped;
}

export interface StagedLineTable {
  batch_id: string;
  project_id: string;
  ordinal: number;
  bytes: number;
  custom_id: string | null;
  run: JsonColumn<unknown>;
}

/** All tables, by name. */
/** The place of a deleted item in its list, for cursors. */
export interface DeletedItemTable {
  id: string;
  project_id: string;
  kind: 'tool' | 'schedule';
  created_at: Timestamp;
  deleted_at: Stamped;
}

export interface WorkerTable {
  owner: string;
  project_id: string;
  name: string;
  host: string;
  pid: number;
  version: string;
  started_at: Stamped;
  heartbeat_at: Stamped;
  tools: JsonColumn<Readonly<Record<string, string>>>;
  id: Generated<string>;
  drain_requested_at: Date | null;
}

export interface DB {
  project: ProjectTable;
  conversation: ConversationTable;
  conversation_summary: ConversationSummaryTable;
  agent: AgentTable;
  block: BlockTable;
  block_revision: BlockRevisionTable;
  block_event: BlockEventTable;
  held_change: HeldChangeTable;
  passage: PassageTable;
  agent_block: AgentBlockTable;
  tool: ToolTable;
  tool_code: ToolCodeTable;
  tool_trial: ToolTrialTable;
  tool_grant: ToolGrantTable;
  tool_bucket: ToolBucketTable;
  mcp_server: McpServerTable;
  mcp_tool: McpToolTable;
  agent_tool: AgentToolTable;
  definition: DefinitionTable;
  batch: BatchTable;
  batch_budget: BatchBudgetTable;
  batch_tally: BatchTallyTable;
  batch_minute: BatchMinuteTable;
  ended_runs: EndedRunsTable;
  sent_steps: SentStepsTable;
  event: EventTable;
  callback_event: CallbackEventTable;
  run: RunTable;
  queued_input: QueuedInputTable;
  run_failure: RunFailureTable;
  batch_retry_run: BatchRetryRunTable;
  batch_label: BatchLabelTable;
  unstarted_input: QueuedInputTable;
  credential: CredentialTable;
  provider_batch: ProviderBatchTable;
  doubted_submission: DoubtedSubmissionTable;
  step: StepTable;
  message: MessageTable;
  tool_call: ToolCallTable;
  tool_call_output: ToolCallOutputTable;
  run_chunk: RunChunkTable;
  result_line: ResultLineTable;
  schedule: ScheduleTable;
  tick: TickTable;
  batch_agent: BatchAgentTable;
  session: SessionTable;
  secret: SecretTable;
  upload: UploadTable;
  staged_line: StagedLineTable;
  waiting_message: WaitingMessageTable;
  cursor_span: CursorSpanTable;
  cursor_rewind: CursorRewindTable;
  audit_report: AuditReportTable;
  idempotency_key: IdempotencyKeyTable;
  token_calibration: TokenCalibrationTable;
  prompt_density: PromptDensityTable;
  memory_notice: MemoryNoticeTable;
  turnaround: TurnaroundTable;
  model_outage: ModelOutageTable;
  failed_lines: FailedLinesTable;
  work_statistic: WorkStatisticTable;
  deleted_item: DeletedItemTable;
  forgotten_batch: ForgottenBatchTable;
  forgotten_run: ForgottenRunTable;
  usage_day: UsageDayTable;
  worker: WorkerTable;
}

/** The leased tables: coarse rows only, never a run or a step. */
export type LeasedTable = 'batch' | 'provider_batch' | 'run_chunk' | 'credential' | 'forgotten_batch';
