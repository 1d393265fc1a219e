-- Keys of requests that make something else than a batch.

alter table idempotency_key
  alter column batch_id drop not null,
  -- The answer, or the key of the row that the request made. Null: it made a batch.
  add column made json,
  add constraint idempotency_key_stands check ((batch_id is null) <> (made is null));
