import type { RawBuilder } from 'kysely';

/** Something that is true of every committed state of the database, whatever has crashed, raced or been repeated. */
export interface Invariant {
  readonly id: string;
  /** The promise, as a sentence. */
  readonly name: string;
  /** Gives the rows that break it, with what names them; none when it holds. */
  readonly sql: RawBuilder<Record<string, unknown>>;
}
