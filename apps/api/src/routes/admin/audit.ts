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
    ok: z.boolean().describe('True if no invariant is broken.'),
    violations: z.array(
      z.object({
        id: z.string(),
        name: z.string().describe('The broken promise.'),
        money: z.boolean().describe('True if the violation stops all new requests to the provider.'),
        row: z
          .record(z.string(), z.unknown())
          .describe('The columns that identify the row, and the wrong values.'),
      }),
    ),
    paused: z
      .array(z.object({ name: z.string(), reason: z.string(), paused_until: z.iso.datetime().nullable() }))
      .describe('Credentials that currently send no requests; a null `until` means until an operator acts.'),
    clocks: z
      .array(
        z.object({
          name: z.string().describe('The credential.'),
          offset_seconds: z.number().describe("The provider's time minus the database's."),
          uncertainty_seconds: z.number().describe('Uncertainty of the offset.'),
          age_seconds: z.number().describe('Seconds since the measurement.'),
          alarm: z.boolean().describe('True if the clocks are 30 seconds or more apart: set them.'),
        }),
      )
      .describe("Last measured offset between the provider's clock and the database's, by credential."),
  })
  .meta({
    id: 'Audit',
    examples: [
      {
        ok: true,
        violations: [],
        paused: [],
        clocks: [
          { name: 'default', offset_seconds: 0.2, uncertainty_seconds: 0.1, age_seconds: 40, alarm: false },
        ],
      },
    ],
  });

/**
 * Checks every invariant in one snapshot. Concurrent requests share one audit. Reads every table several times, so do not poll
 * it.
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
      // An idle socket is closed otherwise. `inject` has no real socket.
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
