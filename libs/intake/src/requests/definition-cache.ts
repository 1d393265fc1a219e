import { workClassKey, type Definition } from '@nightshift/agent-core';
import { readDefinitions, type Database } from '@nightshift/db';
import { prepareDefinition, type PreparedDefinition } from './prepare-definition.ts';

/** A definition, ready for requests. */
export interface CachedDefinition extends PreparedDefinition {
  readonly definition: Definition;
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
      for (const definition of await readDefinitions(db, missing))
        found.set(definition.id, {
          ...prepareDefinition(definition),
          definition,
          work_class: workClassKey(definition),
        });
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
