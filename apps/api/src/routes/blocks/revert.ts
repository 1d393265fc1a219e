import { readBlock, readBlockRevisions } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { blockResponse } from '../../schemas/block.ts';
import { wireId } from '../../schemas/ids.ts';
import { toBlockResponse } from '../../wire/to-block.ts';
import { changeBlock } from './patch-block.ts';
import { revisionNumber } from './revisions.ts';

const revertInput = z
  .strictObject({
    revision: revisionNumber,
    expected_revision: z
      .int()
      .min(1)
      .nullish()
      .describe(
        'The present revision, if the caller knows it; 409 when the block has changed since, unless to the earlier one.',
      ),
  })
  .meta({ id: 'BlockRevert', examples: [{ revision: 1, expected_revision: 2 }] });

/** Writes an earlier revision as a new revision: its text, description, limit and read_only. */
export function revertBlock(app: App, context: Context): void {
  app.post(
    '/v1/blocks/:block_id/revert',
    {
      schema: {
        operationId: 'revertBlock',
        summary: 'Restore a block to an earlier revision',
        description: 'Writes a new revision, which can be reverted as well; none if nothing would change.',
        tags: ['blocks'],
        params: z.object({ block_id: wireId('block') }),
        body: revertInput,
        response: { 200: blockResponse, ...problems },
      },
    },
    async (request) => {
      const { block_id } = request.params;
      const { revision, expected_revision } = request.body;
      await readBlock(context.db, context.projectId, block_id);
      const [then] = (await readBlockRevisions(context.db, block_id, [revision])).values();
      const reverted = await changeBlock(context, block_id, expected_revision ?? null, (present) => ({
        ...present,
        ...then,
        label: present.label,
      }));
      return toBlockResponse(reverted);
    },
  );
}
