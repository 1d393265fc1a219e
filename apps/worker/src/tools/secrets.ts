import { DEFAULT_PROJECT_ID, readSecretsFor, type Database } from '@nightshift/db';
import { openSecrets, type OpenSecrets, type SecretsKeys } from '@nightshift/intake';

/**
 * Returns the values of secrets by name, for the agent with this wire id; null: of the project alone. A name without a value is absent.
 * Throws: the database's error, and those of a secret that cannot be decrypted.
 */
export type ReadSecrets = (
  wireAgentId: string | null,
  names: readonly string[],
) => Promise<Readonly<Record<string, string>>>;

const NO_AGENT = '00000000-0000-0000-0000-000000000000';

interface Wanted {
  readonly agentId: string;
  readonly names: readonly string[];
  readonly resolve: (open: OpenSecrets) => void;
  readonly reject: (error: unknown) => void;
}

/** Reads secrets from the database: those of all calls of one moment with one statement. Keeps no value. */
export function createSecretReader(db: Database, keys: SecretsKeys): ReadSecrets {
  let wanted: Wanted[] = [];
  async function read(): Promise<void> {
    const all = wanted;
    wanted = [];
    try {
      const names = [...new Set(all.flatMap((each) => each.names))];
      const agentIds = [...new Set(all.map(({ agentId }) => agentId))];
      const open = openSecrets(await readSecretsFor(db, DEFAULT_PROJECT_ID, names, agentIds), keys);
      for (const { resolve } of all) resolve(open);
    } catch (error) {
      for (const { reject } of all) reject(error);
    }
  }
  return async (wireAgentId, names) => {
    if (names.length === 0) return {};
    const agentId = wireAgentId === null ? NO_AGENT : wireAgentId.slice('agent-'.length);
    const open = await new Promise<OpenSecrets>((resolve, reject) => {
      wanted.push({ agentId, names, resolve, reject });
      if (wanted.length === 1) setImmediate(() => void read());
    });
    return Object.fromEntries(open(agentId, names));
  };
}
