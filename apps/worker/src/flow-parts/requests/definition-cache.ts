import {
  toolPolicyOf,
  encodeDefinition,
  parseModelHandle,
  toolUsageRules,
  workClassKey,
  type CompileOptions,
  type ToolPolicy,
  type Definition,
  type EncodedDefinition,
} from '@nightshift/agent-core';
import { readDefinitions, type Database } from '@nightshift/db';

/** A definition with its tool policy and its encoded form. */
export interface CachedDefinition {
  readonly definition: Definition;
  readonly toolPolicy: ToolPolicy;
  readonly encoded: EncodedDefinition;
  /** Format of memory in its requests. */
  readonly memory_form: CompileOptions;
  /** Key of its statistics beside its own. */
  readonly work_class: string;
}

/** Caches definitions in use, read and encoded once: they never change. */
export interface DefinitionCache {
  /**
   * Returns all of these definitions. Reads the missing definitions with one statement on `db`, which may be a transaction.
   */
  get(db: Database, ids: readonly string[]): Promise<ReadonlyMap<string, CachedDefinition>>;
}

/** Creates a cache of at most `entriesMax` definitions; the least recently used is evicted first. */
export function createDefinitionCache(entriesMax = 2_000): DefinitionCache {
  const cached = new Map<string, CachedDefinition>();
  return {
    async get(db, ids) {
      const wanted = [...new Set(ids)];
      const missing = wanted.filter((id) => !cached.has(id));
      const found = new Map<string, CachedDefinition>();
      for (const definition of await readDefinitions(db, missing)) {
        const toolPolicy = toolPolicyOf(definition);
        const instructions = [toolUsageRules(toolPolicy.rules), toolPolicy.result?.instructions ?? ''];
        const encoded = encodeDefinition({ ...definition, tools: toolPolicy.tools }, instructions);
        const memory_form = {
          agent_type: definition.agent_type,
          model_provider: parseModelHandle(definition.model)?.provider ?? '',
        };
        const work_class = workClassKey(definition);
        found.set(definition.id, { definition, toolPolicy, encoded, memory_form, work_class });
      }
      for (const id of wanted) {
        const entry = cached.get(id);
        if (entry === undefined) continue;
        cached.delete(id);
        cached.set(id, entry);
        found.set(id, entry);
      }
      for (const [id, entry] of found) cached.set(id, entry);
      for (const id of cached.keys()) {
        if (cached.size <= entriesMax) break;
        cached.delete(id);
      }
      return found;
    },
  };
}
