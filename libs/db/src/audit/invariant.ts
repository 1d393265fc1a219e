import { sql, type RawBuilder } from 'kysely';

/**
 * The rows that a part reads in an audit of some batches; a full audit reads all.
 * - `work`: the batches, and everything of their runs
 * - `open work`: the same, by statements that single out few open rows
 * - `keys`: runs, steps and calls whose run ids are in the ranges of these runs, so that rows without a parent show
 * - `conversations`: the conversations of these runs, with all their messages and summaries
 * - `provider batches`: the provider batches of these runs, with all their steps
 * - `blocks`: the blocks that these runs wrote, with all revisions
 * - `cursors`: the agents whose cursors these runs moved, with all their spans
 * - `all`: whole tables, which stay small
 * - `all, weekly`: whole tables, which grow with agents and their memory
 */
export type Reads =
  | 'work'
  | 'open work'
  | 'keys'
  | 'conversations'
  | 'provider batches'
  | 'blocks'
  | 'cursors'
  | 'all'
  | 'all, weekly';

/** A promise that holds in every committed state, after any crash, race or repetition. */
export interface Invariant {
  readonly id: string;
  /** The promise, as a sentence. */
  readonly name: string;
  /** Selects the violating rows with their keys; empty when the promise holds. */
  readonly sql: RawBuilder<Record<string, unknown>>;
  /** Default: `work`. */
  readonly reads?: Reads;
  /** The statements of `sql` by the rows that each reads. Default: `sql` and `reads`. */
  readonly parts?: readonly Part[];
}

/** A statement of an invariant. It names tables without a schema, so that an audit can narrow them. */
export interface Part {
  readonly reads: Reads;
  readonly sql: RawBuilder<Record<string, unknown>>;
}

/** Joins parts with equal columns. */
export function inParts(parts: readonly Part[]): Pick<Invariant, 'sql' | 'parts'> {
  return {
    sql: sql.join(
      parts.map((part) => part.sql),
      sql` union all `,
    ),
    parts,
  };
}
