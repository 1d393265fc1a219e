import { CLOCK_ALARM_MS } from '@nightshift/agent-core';
import {
  auditInvariants,
  MONEY_INVARIANTS,
  readPausedCredentials,
  readProviderClocks,
  type Violation,
} from '@nightshift/db';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { problems } from '../../schemas/answers.ts';

const audit = z
  .object({
    ok: z.boolean().describe('No invariant is broken.'),
    violations: z.array(
      z.object({
        id: z.string(),
        name: z.string().describe('The promise that is broken.'),
        money: z.boolean().describe('Nothing new is sent while this is so.'),
        row: z.record(z.string(), z.unknown()).describe('What names the row, and what is wrong about it.'),
      }),
    ),
    paused: z
      .array(z.object({ name: z.string(), reason: z.string(), paused_until: z.iso.datetime().nullable() }))
      .describe(
        'Credentials under which nothing is sent at present; until null means until an operator acts.',
      ),
    clocks: z
      .array(
        z.object({
          name: z.string().describe('The credential.'),
          offset_seconds: z.number().describe("The provider's time minus the database's."),
          uncertainty_seconds: z.number().describe('By how much the offset may be wrong.'),
          age_seconds: z.number().describe('How long ago it was measured.'),
          alarm: z.boolean().describe('The clocks are 30 seconds or more apart: set them.'),
        }),
      )
      .describe("How far the provider's clocks are from the database's, by credential, as last measured."),
  })
  .meta({ id: 'Audit' });

/**
 * Checks every invariant now, in one snapshot. Reads every table several times: not for polling. Who asks while an audit is
 * under way gets its answer.
 */
export function auditNow(app: App, context: Context): void {
  let underWay: Promise<readonly Violation[]> | undefined;
  const audited = (): Promise<readonly Violation[]> =>
    (underWay ??= auditInvariants(context.auditDb).finally(() => (underWay = undefined)));
  app.get(
    '/v1/admin/audit',
    {
      schema: {
        operationId: 'auditNow',
        summary: 'Check the books',
        tags: ['admin'],
        response: { 200: audit, ...problems },
      },
    },
    async ({ raw: { socket } }) => {
      // A socket that is silent for long is cut otherwise. Under `inject` it is none.
      if ('setTimeout' in socket) socket.setTimeout(0);
      const violations = await audited();
      const [paused, clocks] = await Promise.all([
        readPausedCredentials(context.db),
        readProviderClocks(context.db),
      ]);
      return {
        ok: violations.length === 0,
        violations: violations.map((violation) => ({
          ...violation,
          money: MONEY_INVARIANTS.has(violation.id),
        })),
        paused: paused.map(({ name, reason, paused_until }) => ({
          name,
          reason,
          paused_until: paused_until?.toISOString() ?? null,
        })),
        clocks: clocks.map(({ name, offset_ms, uncertainty_ms, age_ms }) => ({
          name,
          offset_seconds: offset_ms / 1000,
          uncertainty_seconds: uncertainty_ms / 1000,
          age_seconds: Math.round(age_ms / 1000),
          alarm: Math.abs(offset_ms) >= CLOCK_ALARM_MS,
        })),
      };
    },
  );
}
