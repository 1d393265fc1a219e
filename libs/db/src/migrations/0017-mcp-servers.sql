-- MCP servers: addresses of users, and programs of the operator.
create table mcp_server (
  id uuid primary key,
  project_id uuid not null references project,
  name text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
  -- Null: a program that the workers start.
  url text check (length(url) between 1 and 2048),
  -- Sent with each request. Values name secrets as {{secrets.NAME}}.
  headers json not null default '{}' check (json_typeof(headers) = 'object'),
  -- The header of the token, for the answers of the API.
  auth_header text,
  -- Revision of the protocol that the server spoke last.
  revision text not null,
  -- When its tools were last read.
  refreshed_at timestamptz not null default app_now(),
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  unique (project_id, name),
  constraint mcp_server_program check (url is not null or (headers::text = '{}' and auth_header is null))
);

-- Tools of MCP servers. A definition is offered by the server, approved by a user, or both.
create table mcp_tool (
  server_id uuid not null references mcp_server on delete cascade,
  project_id uuid not null references project,
  -- Its name on the server.
  name text not null check (length(name) between 1 and 128),
  -- Null: the server no longer offers it.
  offered json,
  offered_sha256 text check (offered_sha256 ~ '^[0-9a-f]{64}$'),
  -- Null: never approved.
  approved json,
  approved_sha256 text check (approved_sha256 ~ '^[0-9a-f]{64}$'),
  -- The tool of agents that it became. Null: none, or deleted.
  tool_id uuid references tool on delete set null,
  primary key (server_id, name),
  constraint mcp_tool_offered check ((offered is null) = (offered_sha256 is null)),
  constraint mcp_tool_approved check ((approved is null) = (approved_sha256 is null)),
  constraint mcp_tool_any check (offered is not null or approved is not null),
  constraint mcp_tool_tool check (tool_id is null or approved is not null)
);
create unique index mcp_tool_by_tool on mcp_tool (tool_id);
