import { nanoUsdOf } from '@nightshift/agent-core';
import { changeCaps, inTransaction, readBatchModels, renameBatch, type CapChange } from '@nightshift/db';
import { refuseUnpriced, toError } from '@nightshift/intake';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { batchResponse, capsInput } from '../../schemas/batch.ts';
import { wireId } from '../../schemas/ids.ts';
import { readShownBatch } from './shown-batch.ts';

/** Sets the caps, the name and the tags of a batch. A batch paused at its cap resumes. */
export function changeBatchCaps(app: App, context: Context, path: string, hide: boolean): void {
  app.patch(
    `${path}/:job_id`,
    {
      schema: {
        operationId: 'changeBatchCaps',
        summary: 'Change the caps, the name or the tags of a batch',
        description:
          'A batch that is paused at its cap, or that waits for room, resumes at once, unless the next step needs more: then ' +
          'it stays paused, with the reason in `state_reason`. Null lifts a cap; an absent cap stays. A cap below the spent and reserved amount is refused. A batch submitted without any cap, on itself or ' +
          'on a run, cannot get a cap, because nothing was reserved for its requests: pause or cancel it instead. Name and tags of a batch in any state can be changed.',
        tags: ['batches'],
        hide,
        params: z.object({ job_id: wireId('job') }),
        body: capsInput,
        response: { 200: batchResponse, ...problems },
      },
    },
    async (request) => {
      const { job_id } = request.params;
      const change = toCapChange(request.body);
      const { name, tags, ...caps } = request.body;
      const changesCaps = Object.values(caps).some((cap) => cap !== undefined);
      const queued = await inTransaction(context.db, async (trx) => {
        if (name !== undefined || tags !== undefined)
          await renameBatch(trx, context.projectId, job_id, { name, tags });
        if (!changesCaps) return 0;
        const runs = await changeCaps(trx, context.projectId, job_id, change);
        if (change.cost_nanousd != null) {
          const models = await readBatchModels(trx, job_id);
          for (const model of models) {
            const refusal = refuseUnpriced('/max_cost_usd', model, context.prices);
            if (refusal !== null) throw toError(refusal);
          }
        }
        return runs;
      });
      if (queued > 0) await context.bell.ring([{ kind: 'compose', id: '*' }]);
      return (await readShownBatch(context, job_id)).batch;
    },
  );
}

function toCapChange({ max_cost_usd, max_output_tokens }: z.output<typeof capsInput>): CapChange {
  return {
    cost_nanousd: max_cost_usd == null ? max_cost_usd : nanoUsdOf(max_cost_usd),
    output_tokens: max_output_tokens,
  };
}
