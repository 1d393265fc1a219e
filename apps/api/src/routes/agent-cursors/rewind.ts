import { messageKeyOf, NightshiftError, toWireId } from '@nightshift/agent-core';
import { listCursors, readAgent, rewindCursor as commitRewind, type RewindTarget } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { problems } from '../../schemas/answers.ts';
import { cursor, cursorName, rewindTarget } from '../../schemas/cursor.ts';
import { wireId } from '../../schemas/ids.ts';
import { toCursor } from '../../wire/to-cursor.ts';

/** Moves a cursor, so that messages are new again, or no longer new. */
export function rewindCursor(app: App, context: Context): void {
  app.post(
    '/v1/agents/:agent_id/cursors/:name/rewind',
    {
      schema: {
        operationId: 'rewindCursor',
        summary: 'Move a cursor of an agent',
        description:
          'To a message, to a time, or without a body to the beginning; then every message since the last reset is new. A ' +
          'name that no run has used begins there. Refused with 409 while a run under the cursor is open or its changes ' +
          'are held.',
        tags: ['agents'],
        params: z.object({ agent_id: wireId('agent'), name: cursorName }),
        headers: idempotencyHeaders,
        body: rewindTarget,
        response: { 200: cursor, ...problems },
      },
    },
    (request, reply) => {
      const { agent_id, name } = request.params;
      return makeOnce(context, request, reply, {
        prepare: async () => toTarget(request.body, await readAgent(context.db, context.projectId, agent_id)),
        make: async (trx, target) => {
          await commitRewind(trx, context.projectId, agent_id, name, target);
          const [moved] = await listCursors(trx, context.projectId, agent_id, name);
          if (moved === undefined) throw new Error('A rewound cursor is not listed.');
          return toCursor(moved);
        },
        show: (moved) => moved,
      });
    },
  );
}

/** Throws: `not_found` for a message of another conversation. */
function toTarget(
  body: z.output<typeof rewindTarget>,
  agent: { readonly id: string; readonly conversation_id: string },
): RewindTarget {
  if (body?.before != null) return { before: body.before };
  if (body?.to_message_id == null) return { seq: 0 };
  const key = messageKeyOf(body.to_message_id);
  if (key.conversation_id === agent.conversation_id) return { seq: key.seq };
  const message = `${toWireId('message', body.to_message_id)} is no message of agent-${agent.id}'s conversation`;
  throw new NightshiftError('not_found', `/to_message_id: ${message}.`, {
    fields: [{ path: '/to_message_id', message }],
  });
}
