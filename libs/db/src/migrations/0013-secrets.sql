-- Encrypted values for tools: of a project, or of an agent. The key is not in the database.
create table secret (
  project_id uuid not null references project,
  -- Null: of all agents of the project.
  agent_id uuid references agent,
  name text not null check (name ~ '^[A-Za-z_][A-Za-z0-9_]{0,63}$'),
  -- The first 16 hex digits of the SHA-256 of the key.
  key_id text not null check (key_id ~ '^[0-9a-f]{16}$'),
  nonce bytea not null check (octet_length(nonce) = 12),
  -- AES-256-GCM of 1 to 65,536 bytes, then the tag of 16 bytes.
  ciphertext bytea not null check (octet_length(ciphertext) between 17 and 65552),
  created_at timestamptz not null default app_now(),
  updated_at timestamptz not null default app_now(),
  constraint secret_place unique nulls not distinct (project_id, agent_id, name)
);
