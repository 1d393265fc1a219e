import { deleteAgentSecrets, putSecrets, type SealedSecret, type Tx } from '@nightshift/db';
import { sealSecret } from '@nightshift/intake';
import type { Context } from '../../context.ts';
import type { AgentPatch } from '../../schemas/agent.ts';
import { MASK } from '../../schemas/secret.ts';

/** Reads the secrets from the two fields in which Letta's clients may send them. */
export function secretsOf(
  input: Pick<AgentPatch, 'secrets' | 'tool_exec_environment_variables'>,
): Readonly<Record<string, string>> | null {
  return input.secrets ?? input.tool_exec_environment_variables ?? null;
}

/**
 * Encrypts the given values of an agent. An empty or masked value is no value: a file of an agent has only the names.
 * Throws: `secrets_key_missing`.
 */
export function sealAgentSecrets(
  { projectId, secretsKeys }: Pick<Context, 'projectId' | 'secretsKeys'>,
  agentId: string,
  secrets: Readonly<Record<string, string>> | null,
): readonly SealedSecret[] {
  return Object.entries(secrets ?? {}).flatMap(([name, value]) =>
    value === '' || value === MASK
      ? []
      : [sealSecret({ project_id: projectId, agent_id: agentId, name }, value, secretsKeys)],
  );
}

/** Replaces the secrets of an agent. A masked value, as answers have it, keeps the stored value. */
export async function replaceAgentSecrets(
  context: Pick<Context, 'projectId' | 'secretsKeys'>,
  trx: Tx,
  agentId: string,
  secrets: Readonly<Record<string, string>>,
): Promise<void> {
  const kept = Object.keys(secrets).filter((name) => secrets[name] !== '');
  await deleteAgentSecrets(trx, context.projectId, agentId, kept);
  await putSecrets(trx, sealAgentSecrets(context, agentId, secrets));
}
