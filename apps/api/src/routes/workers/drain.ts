import { readLeaseCounts, readWorker, requestDrain } from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';
import { wireId } from '../../schemas/ids.ts';
import { workerResponse } from '../../schemas/worker.ts';
import { toWorkerResponse } from '../../wire/to-worker.ts';

export function drainWorker(app: App, context: Context): void {
  app.post(
    '/v1/workers/:worker_id/drain',
    {
      schema: {
        operationId: 'drainWorker',
        summary: 'Drain a worker',
        description:
          'From its next heartbeat on, within ten seconds, it takes no new work. It finishes its work under way, and ' +
          'ends. `npm start` does not start it again. Again is no error.',
        tags: ['workers'],
        params: z.object({ worker_id: wireId('worker') }),
        response: { 200: workerResponse, ...problems },
      },
    },
    async (request) => {
      const { worker_id } = request.params;
      await requestDrain(context.db, context.projectId, worker_id);
      const worker = await readWorker(context.db, context.projectId, worker_id);
      const leases = await readLeaseCounts(context.db, [worker.owner]);
      return toWorkerResponse(worker, leases.get(worker.owner));
    },
  );
}
