-- Server tools of the provider, sent verbatim behind an agent's own tools. Null: none.
alter table agent
  add column server_tools json,
  add constraint agent_server_tools_check check (json_typeof(server_tools) = 'array');

alter table definition
  add column server_tools json,
  add constraint definition_server_tools_check check (json_typeof(server_tools) = 'array');
