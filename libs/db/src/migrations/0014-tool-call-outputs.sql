-- The output of tool calls, beside tool_call. Only calls with more than one attempt, an answer or output have a row.
create table tool_call_output (
  project_id uuid not null,
  run_id uuid not null,
  step_number integer not null,
  call_index smallint not null,
  -- Attempts of the runner itself, such as requests of an HTTP tool.
  attempts smallint not null check (attempts >= 1),
  -- Bytes of all answers read from the network.
  answer_bytes integer check (answer_bytes >= 1),
  -- The first characters.
  stdout text check (length(stdout) between 1 and 4096),
  stderr text check (length(stderr) between 1 and 4096),
  primary key (run_id, step_number, call_index),
  constraint tool_call_output_any
    check (attempts > 1 or answer_bytes is not null or stdout is not null or stderr is not null)
);
