-- Tools of uploaded Python and of MCP servers.
alter table tool
  drop constraint tool_kind_check,
  add constraint tool_kind_check
    check (kind in ('memory', 'finish', 'module', 'sandbox', 'python', 'http', 'mcp', 'client')),
  drop constraint tool_source,
  add constraint tool_source
    check ((kind in ('sandbox', 'python', 'http', 'mcp')) = (source is not null));

alter table tool_call
  drop constraint tool_call_kind_check,
  add constraint tool_call_kind_check
    check (kind in ('memory', 'finish', 'module', 'sandbox', 'python', 'http', 'mcp', 'client', 'rejected'));
