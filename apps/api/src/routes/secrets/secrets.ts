import { NightshiftError } from '@nightshift/agent-core';
import {
  deleteSecret as commitDelete,
  inTransaction,
  listSecrets as readSecrets,
  putSecrets,
  type SecretRow,
} from '@nightshift/db';
import { sealSecret } from '@nightshift/intake';
import { z } from 'zod';
import type { App, Context } from '../../context.ts';
import { nullAnswer, problems } from '../../schemas/answers.ts';
import {
  secretInput,
  secretName,
  secretResponse,
  SECRETS_MAX,
  type SecretResponse,
} from '../../schemas/secret.ts';

const params = z.object({ name: secretName });

/** Creates or replaces a secret of the project. Its value is encrypted before the transaction, and never returned. */
export function putSecret(app: App, context: Context): void {
  app.put(
    '/v1/secrets/:name',
    {
      config: { hidesBody: true },
      schema: {
        operationId: 'putSecret',
        summary: 'Store a secret, or replace its value',
        description:
          'Tools that name it get the value; no answer, log or file has it. A secret of the same name of an agent takes ' +
          `precedence for its calls. A project has at most ${SECRETS_MAX}.`,
        tags: ['secrets'],
        params,
        body: secretInput,
        response: { 200: secretResponse, ...problems },
      },
    },
    async ({ params: { name }, body }) => {
      const { db, projectId, secretsKeys } = context;
      const sealed = sealSecret({ project_id: projectId, agent_id: null, name }, body.value, secretsKeys);
      const secrets = await inTransaction(db, async (trx) => {
        await putSecrets(trx, [sealed]);
        const stored = await readSecrets(trx, projectId);
        if (stored.length > SECRETS_MAX) throw tooMany();
        return stored;
      });
      const stored = secrets.find((secret) => secret.name === name);
      if (stored === undefined) throw new Error('The secret was not stored.');
      return toSecretResponse(stored);
    },
  );
}

export function listSecrets(app: App, context: Context): void {
  app.get(
    '/v1/secrets',
    {
      schema: {
        operationId: 'listSecrets',
        summary: 'List the secrets of the project',
        description: 'By name, without values and without the secrets of agents.',
        tags: ['secrets'],
        response: { 200: z.array(secretResponse), ...problems },
      },
    },
    async () => (await readSecrets(context.db, context.projectId)).map(toSecretResponse),
  );
}

export function deleteSecret(app: App, context: Context): void {
  app.delete(
    '/v1/secrets/:name',
    {
      schema: {
        operationId: 'deleteSecret',
        summary: 'Delete a secret',
        description: 'Calls of tools that start later go without it.',
        tags: ['secrets'],
        params,
        response: { 200: nullAnswer, ...problems },
      },
    },
    async ({ params: { name } }) => {
      await inTransaction(context.db, (trx) => commitDelete(trx, context.projectId, name));
      return null;
    },
  );
}

function toSecretResponse({ name, key_id, created_at, updated_at }: SecretRow): SecretResponse {
  return { name, key_id, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() };
}

function tooMany(): NightshiftError {
  return new NightshiftError(
    'conflict',
    `The project already has ${SECRETS_MAX} secrets: delete one first, or store the secret with its agent.`,
  );
}
