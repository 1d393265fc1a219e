import { createBlocks, deleteBlock as commitDelete, inTransaction, readBlock } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { idempotencyHeaders } from '../../idempotency/key.ts';
import { makeOnce } from '../../idempotency/make-once.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { blockInput, blockPatch, blockResponse } from '../../schemas/block.ts';
import { wireId } from '../../schemas/ids.ts';
import { toBlockResponse, toNewBlock } from '../../wire/to-block.ts';
import { patchBlock } from './patch-block.ts';

export function createBlock(app: App, context: Context): void {
  app.post(
    '/v1/blocks',
    {
      schema: {
        operationId: 'createBlock',
        summary: 'Create a block',
        tags: ['blocks'],
        headers: idempotencyHeaders,
        body: blockInput,
        response: { 200: blockResponse, ...problems },
      },
    },
    (request, reply) =>
      makeOnce(context, request, reply, {
        prepare: () => toNewBlock(request.body),
        make: async (trx, block) => {
          await createBlocks(trx, context.projectId, [block]);
          return { id: block.id };
        },
        show: async ({ id }) => toBlockResponse(await readBlock(context.db, context.projectId, id)),
      }),
  );
}

export function updateBlock(app: App, context: Context): void {
  app.patch(
    '/v1/blocks/:block_id',
    {
      schema: {
        operationId: 'updateBlock',
        summary: 'Change a block, as a new revision',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block') }),
        body: blockPatch,
        response: { 200: blockResponse, ...problems },
      },
    },
    async (request) => toBlockResponse(await patchBlock(context, request.params.block_id, request.body)),
  );
}

export function deleteBlock(app: App, context: Context): void {
  app.delete(
    '/v1/blocks/:block_id',
    {
      schema: {
        operationId: 'deleteBlock',
        summary: 'Delete a block, also while agents have it',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block') }),
        response: { 200: nullAnswer, ...problems },
      },
    },
    async (request) => {
      await inTransaction(context.db, (trx) => commitDelete(trx, context.projectId, request.params.block_id));
      return null;
    },
  );
}
