import { NightshiftError } from '@nightshift/agent-core';
import { endSession, inTransaction, startSession, type Database } from '@nightshift/db';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import { shownTime } from '../../schemas/moment.ts';
import {
  cookieOf,
  digest,
  isKey,
  LINK_MS,
  newSecret,
  readSession,
  refuseOtherSites,
  SESSION_MS,
  sessionHashOf,
} from '../../session.ts';

const session = z
  .object({
    expires_at: shownTime,
    version: z.string().describe('Version of the API: a page of another version loads itself again.'),
    model: z.enum(['simulator', 'anthropic']).describe('The provider of the answers.'),
  })
  .meta({
    id: 'Session',
    examples: [{ expires_at: '2026-12-07T08:00:00.000Z', version: '0.1.0', model: 'simulator' }],
  });

const signIn = z
  .strictObject({
    api_key: z.string().max(500).optional(),
    token: z.string().max(500).optional().describe('Of a sign-in link, instead of the key; valid once.'),
  })
  .meta({ id: 'SignIn', examples: [{ api_key: 'your key' }] });

type Served = Pick<Context, 'db' | 'projectId' | 'version' | 'model'>;

/** Serves the sign-in of browsers: a key or a link becomes a cookie. */
export function sessions(app: App, context: Served, apiKey: string): void {
  const keyHash = digest(apiKey);
  const described = (expiresAt: Date): z.output<typeof session> => ({
    expires_at: expiresAt.toISOString(),
    version: context.version,
    model: context.model,
  });
  app.post(
    '/v1/session',
    {
      schema: {
        operationId: 'signIn',
        summary: 'Sign a browser in',
        description: 'Answers with a cookie that counts as the key, for a week or until the key changes.',
        tags: ['session'],
        security: [],
        body: signIn,
        response: { 200: session, ...problems },
      },
    },
    async (request, reply) => {
      refuseOtherSites(request);
      const { secret, hash } = newSecret();
      const expiresAt = await inTransaction(context.db, async (trx) => {
        const { api_key, token } = request.body;
        const isValid =
          token === undefined
            ? isKey(api_key ?? '', keyHash)
            : await endSession(trx, { hash: digest(token), kind: 'link', key_hash: keyHash });
        if (!isValid) throw new NightshiftError('unauthorized', token === undefined ? WRONG_KEY : USED_LINK);
        return startSession(trx, {
          hash,
          project_id: context.projectId,
          kind: 'browser',
          key_hash: keyHash,
          lifetime_ms: SESSION_MS,
        });
      });
      void reply.header('set-cookie', cookieOf(request, secret));
      return described(expiresAt);
    },
  );
  app.get(
    '/v1/session',
    {
      schema: {
        operationId: 'retrieveSession',
        summary: 'Read the session of a browser',
        tags: ['session'],
        security: [{ browser: [] }],
        response: { 200: session, ...problems },
      },
    },
    async (request) => {
      const expiresAt = await readSession(context.db, request, keyHash);
      if (expiresAt === null) throw new NightshiftError('unauthorized', 'This browser is not signed in.');
      return described(expiresAt);
    },
  );
  app.delete(
    '/v1/session',
    {
      schema: {
        operationId: 'signOut',
        summary: 'Sign a browser out',
        tags: ['session'],
        security: [{ browser: [] }],
        response: { 200: nullAnswer, ...problems },
      },
    },
    async (request, reply) => {
      refuseOtherSites(request);
      await endBrowserSession(context.db, request, keyHash);
      void reply.header('set-cookie', cookieOf(request, ''));
      return null;
    },
  );
}

const WRONG_KEY =
  'The API key is wrong. It stands in .data/api-key, or in NIGHTSHIFT_API_KEY of the service.';
const USED_LINK = 'The link was used, or is older than ten minutes. Sign in with the API key.';

async function endBrowserSession(db: Database, request: FastifyRequest, key_hash: Buffer): Promise<void> {
  const hash = sessionHashOf(request);
  if (hash === undefined) return;
  await inTransaction(db, (trx) => endSession(trx, { hash, kind: 'browser', key_hash }));
}

const link = z
  .object({
    token: z.string().describe('Belongs into the fragment of the dashboard’s address: `/#token=…`.'),
    expires_at: shownTime,
  })
  .meta({
    id: 'SignInLink',
    examples: [{ token: 'X2c…', expires_at: '2026-11-30T08:10:00.000Z' }],
  });

/** Makes links that sign a browser in once. */
export function sessionLinks(app: App, context: Served, apiKey: string): void {
  app.post(
    '/v1/session/links',
    {
      schema: {
        operationId: 'createSignInLink',
        summary: 'Make a link that signs a browser in once, within ten minutes',
        tags: ['session'],
        response: { 200: link, ...problems },
      },
    },
    async () => {
      const { secret, hash } = newSecret();
      const expiresAt = await inTransaction(context.db, (trx) =>
        startSession(trx, {
          hash,
          project_id: context.projectId,
          kind: 'link',
          key_hash: digest(apiKey),
          lifetime_ms: LINK_MS,
        }),
      );
      return { token: secret, expires_at: expiresAt.toISOString() };
    },
  );
}
