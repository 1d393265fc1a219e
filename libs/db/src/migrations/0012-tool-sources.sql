-- Tools that a user uploads or describes, beside the operator's modules.
alter table tool
  drop constraint tool_kind_check,
  add constraint tool_kind_check
    check (kind in ('memory', 'finish', 'module', 'sandbox', 'http', 'client')),
  -- What the runner of the tool needs beyond the arguments; null for tools of the release and of modules.
  add column source json,
  add constraint tool_source check ((kind in ('sandbox', 'http')) = (source is not null));

alter table tool_call
  drop constraint tool_call_kind_check,
  add constraint tool_call_kind_check
    check (kind in ('memory', 'finish', 'module', 'sandbox', 'http', 'client', 'rejected'));

-- The code of uploaded tools by its hash. A definition names the code of its time, so no row changes.
create table tool_code (
  project_id uuid not null references project,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  -- The text that runs: types are stripped, and an export may be added.
  code text not null check (octet_length(code) <= 524288),
  created_at timestamptz not null default app_now(),
  primary key (project_id, sha256)
);
