-- Recorded starts of a call: a call with side effects that a crash interrupted may start again.
alter table tool_call add column attempts smallint not null default 0;
