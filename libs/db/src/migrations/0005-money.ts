import { sql, type Kysely } from 'kysely';

/** Caps on money and tokens, what is held for open requests under them, and costs that nobody knows. */
export async function up(db: Kysely<never>): Promise<void> {
  await sql
    .raw(
      `
-- True for a batch with a cap, its own or of a run: it has a batch_budget row from its accept on. Others pay nothing.
alter table batch add column budgeted boolean not null default false;

-- What a capped batch may spend, has spent, and holds for requests without an answer. Locked after the batch's runs and
-- before its counts; the auditor checks it against the steps.
create table batch_budget (
  batch_id uuid primary key references batch on delete cascade,
  project_id uuid not null references project,
  -- Caps; null: none (then a run of it has one).
  max_cost_nanousd bigint check (max_cost_nanousd > 0),
  max_output_tokens bigint check (max_output_tokens > 0),
  spent_nanousd bigint not null default 0 check (spent_nanousd >= 0),
  spent_output_tokens bigint not null default 0 check (spent_output_tokens >= 0),
  reserved_nanousd bigint not null default 0 check (reserved_nanousd >= 0),
  reserved_output_tokens bigint not null default 0 check (reserved_output_tokens >= 0),
  -- Whether ready runs of it wait for room outside any chunk: open: none does; short: they do, and nothing was given
  -- back since; freed: something was, and the sweep queues them again.
  room text not null default 'open' check (room in ('open','short','freed'))
);
create index batch_budget_freed on batch_budget (batch_id) where room = 'freed';

alter table run
  add column max_cost_nanousd bigint check (max_cost_nanousd > 0),
  add column max_output_tokens bigint check (max_output_tokens > 0);

-- What was reserved for it. Null, both: its batch has no cap, nothing was.
alter table step
  add column reserved_nanousd bigint check (reserved_nanousd >= 0),
  add column reserved_output_tokens integer,
  add constraint step_reserved check ((reserved_nanousd is null) = (reserved_output_tokens is null));
-- Null: the model that answered has no price.
alter table step alter column cost_nanousd drop not null;
alter table batch_tally add column unpriced_steps integer not null default 0;
`,
    )
    .execute(db);
}
