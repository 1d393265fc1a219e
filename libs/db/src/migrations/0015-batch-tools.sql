-- The choice of tools by the request that a definition is of: `add`, `remove`, `only`. Null: the agent's tools.
alter table definition
  add column tool_choice json,
  add constraint definition_tool_choice_check check (json_typeof(tool_choice) = 'object');
