import { messageUuid, toWireId } from '@nightshift/agent-core';
import type { CursorRow } from '@nightshift/db';
import type { Cursor } from '../schemas/cursor.ts';

export function toCursor(row: CursorRow): Cursor {
  const hasMessage = row.position_at !== null;
  return {
    name: row.name,
    position: row.position,
    last_message_id: hasMessage ? toWireId('message', messageUuid(row.conversation_id, row.position)) : null,
    last_message_date: row.position_at?.toISOString() ?? null,
    new_messages: row.new_messages,
    has_more: row.is_cut,
    skip_reason: row.skip,
    last_run_id: row.last_run_id === null ? null : toWireId('run', row.last_run_id),
    last_job_id: row.last_batch_id === null ? null : toWireId('job', row.last_batch_id),
    rewound_at: row.rewound_at?.toISOString() ?? null,
  };
}
