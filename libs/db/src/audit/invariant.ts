import type { RawBuilder } from 'kysely';

/** A promise that holds in every committed state, after any crash, race or repetition. */
export interface Invariant {
  readonly id: string;
  /** The promise, as a sentence. */
  readonly name: string;
  /** Selects the violating rows with their keys; empty when the promise holds. */
  readonly sql: RawBuilder<Record<string, unknown>>;
}
