import { isError, NightshiftError } from '@nightshift/agent-core';
import { assertMigrated, takesWrites } from '@nightshift/db';
import { liveness } from '@nightshift/services';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { readOnly } from '../../errors/answer-of.ts';
import { problem } from '../../schemas/answers.ts';

const health = z
  .object({
    status: z.literal('ok'),
    version: z.string(),
    model: z.enum(['simulator', 'anthropic']).describe('The provider of the answers.'),
  })
  .meta({ id: 'Health', examples: [{ status: 'ok', version: '0.1.0', model: 'simulator' }] });

/** Serves Letta's two health checks. They check the process, not the database. */
export function lettaHealth(app: App, context: Context): void {
  for (const [path, operationId] of [
    ['/v1/health', 'health'],
    ['/v1/ready', 'lettaReady'],
  ] as const) {
    app.get(
      path,
      {
        schema: {
          operationId,
          summary: 'Check that the server is up',
          tags: ['health'],
          security: [],
          response: { 200: health },
        },
      },
      async () => ({ status: 'ok' as const, version: context.version, model: context.model }),
    );
  }
}

const alive = z
  .object({
    status: z.literal('ok'),
    degraded: z
      .array(z.string())
      .describe(
        'Descriptions of parts that fail while the process still works, such as a log on a full disk.',
      ),
    log_lines_dropped: z.int().describe('Log lines dropped since the process started.'),
  })
  .meta({ id: 'Liveness', examples: [{ status: 'ok', degraded: [], log_lines_dropped: 0 }] });

/** Checks that the process is alive. Ignores the database, whose loss must not restart the process. */
export function livez(app: App, context: Context): void {
  app.get(
    '/livez',
    {
      schema: {
        operationId: 'livez',
        summary: 'Check that the process is alive',
        tags: ['health'],
        security: [],
        response: { 200: alive },
      },
    },
    async () => liveness(context.logStatus()),
  );
}

/**
 * Checks that the server can take requests: the database answers, is migrated and writable, and the server is not shutting
 * down.
 */
export function readyz(app: App, context: Context): void {
  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'readyz',
        summary: 'Check that the server can take requests',
        tags: ['health'],
        security: [],
        response: { 200: health, 503: problem },
      },
    },
    async () => {
      if (!context.isOpen()) throw new NightshiftError('not_ready', 'The server is shutting down.');
      await assertMigrated(context.db).catch((error: unknown) => {
        throw isError(error, 'database_from_future') || isError(error, 'database_from_past')
          ? new NightshiftError('not_ready', error.message)
          : error;
      });
      if (!(await takesWrites(context.db))) throw readOnly();
      return { status: 'ok' as const, version: context.version, model: context.model };
    },
  );
}
