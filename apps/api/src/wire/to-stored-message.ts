import type { StoredMessage } from '@nightshift/agent-core';
import type { MessageRow } from '@nightshift/db';

/** Converts a row for the wire module. */
export function toStoredMessage(row: MessageRow, agentId: string): StoredMessage {
  return {
    conversation_id: row.conversation_id,
    seq: row.seq,
    agent_id: agentId,
    run_id: row.run_id,
    step:
      row.run_id === null || row.step_number === null || row.attempt === null
        ? null
        : { run_id: row.run_id, number: row.step_number, attempt: row.attempt },
    role: row.role,
    content: row.content,
    model: row.model,
    otid: row.otid,
    name: row.name,
    said_at: row.said_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
