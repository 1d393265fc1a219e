/** The tables that Letta's batch path touches, with the indexes and foreign keys that its migrations give them. */
export const LETTA_TABLES = `
create table agents (id text primary key, number int not null, name text not null, system text not null,
  message_ids json not null, llm_config json not null, tool_rules json not null default '[]',
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(), is_deleted boolean not null default false);
create index ix_agents_created_at on agents (created_at, id);
create table tools (id text primary key, name text not null, json_schema json not null, created_at timestamptz not null default now());
create table tools_agents (agent_id text not null references agents on delete cascade, tool_id text not null references tools on delete cascade,
  primary key (agent_id, tool_id));
create table block (id text primary key, label text not null, value text not null, "limit" int not null default 20000);
create table blocks_agents (agent_id text not null references agents on delete cascade, block_id text not null references block on delete cascade,
  block_label text not null, primary key (agent_id, block_id, block_label));
create table archives (id text primary key, name text not null);
create table archives_agents (agent_id text not null references agents on delete cascade, archive_id text not null references archives on delete cascade,
  primary key (agent_id, archive_id));
create table jobs (id text primary key, status text not null, created_at timestamptz not null default now(), completed_at timestamptz,
  callback_url text, metadata_ json);
create index ix_jobs_created_at on jobs (created_at, id);
create table llm_batch_job (id text primary key, status text not null, llm_provider text not null, create_batch_response json not null,
  latest_polling_response json, last_polled_at timestamptz, letta_batch_job_id text not null references jobs on delete cascade,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now());
create index ix_llm_batch_job_created_at on llm_batch_job (created_at);
create index ix_llm_batch_job_status on llm_batch_job (status);
create table llm_batch_items (id text primary key, llm_batch_id text not null references llm_batch_job on delete cascade,
  agent_id text not null references agents on delete cascade, llm_config json not null, request_status text not null,
  step_status text not null, step_state json not null, batch_request_result json,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now());
create index ix_llm_batch_items_agent_id on llm_batch_items (agent_id);
create index ix_llm_batch_items_llm_batch_id on llm_batch_items (llm_batch_id);
create index ix_llm_batch_items_status on llm_batch_items (request_status);
create table messages (id text primary key, agent_id text not null references agents on delete cascade, role text not null, text text,
  model text, content json, tool_calls json, tool_call_id text, step_id text, run_id text, group_id text, sender_id text, otid text,
  batch_item_id text, sequence_id bigserial not null unique, is_err boolean,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(), is_deleted boolean not null default false);
create index ix_messages_agent_created_at on messages (agent_id, created_at);
create index ix_messages_created_at on messages (created_at, id);
create index ix_messages_agent_sequence on messages (agent_id, sequence_id);
create index ix_messages_run_id on messages (run_id);
`;
