-- The cache marks of each request of a submission, a byte in the order of its requests; empty: none has any. Null: not kept.
alter table provider_batch add column cache_marks bytea;
