/** What the host hands to a thread, and what it gets back. All of it crosses by structured clone. */

/** A tool as a thread needs to know it. */
export interface TaskTool {
  readonly name: string;
  readonly file: string;
  readonly once: boolean;
  readonly timeout_ms: number;
  readonly result_char_limit: number;
}

/** Many calls in one task: posting one costs ten times what a fast call does. */
export interface ThreadTask {
  readonly task: number;
  /** The cells of the task's progress record, in shared memory. */
  readonly cells: Int32Array;
  /** How many calls may be in flight at a time. */
  readonly slots: number;
  readonly tools: readonly TaskTool[];
  /** The call frames as one JSON array: a single string crosses to a thread far cheaper than a thousand objects. */
  readonly calls_json: string;
  /** For each call, in the order of `calls_json`, its index in `tools`. */
  readonly tool_of_call: readonly number[];
}

/** Outcomes of a task, sent as they come; the last report of a task is its return value. */
export interface ThreadReport {
  readonly task: number;
  /** For each outcome, its call's index in the task. */
  readonly indexes: readonly number[];
  /** Null for one whose function was not entered. */
  readonly durations_ms: readonly (number | null)[];
  /** For how long each kept the thread busy: before its first `await`, and after that as far as it can be told from its neighbours. */
  readonly busy_ms: readonly number[];
  /** The outcome frames as JSON, separated by commas, so that the host passes them on unread. */
  readonly outcomes_json: string;
  /** Calls past their deadline that have no outcome: what the thread computed may have been their neighbours' work. */
  readonly given_back: readonly number[];
  /** Modules that this thread could not import, and cannot import any more: their calls are left waiting. */
  readonly not_imported: readonly ImportFailure[];
  /**
   * Set in a last report only: the thread must be stopped, because functions past their deadline are still running or a
   * module could not be imported.
   */
  readonly stop_thread: boolean;
}

export interface ImportFailure {
  /** The index of its tool in the task. */
  readonly tool: number;
  readonly reason: string;
}

/** What a module says of itself, or why it cannot be used. */
export type ModuleInspection =
  | {
      readonly usable: true;
      readonly description: string;
      readonly parameters: Readonly<Record<string, unknown>>;
      readonly side_effects: 'none' | 'idempotent' | 'once';
      readonly timeout_ms: number;
      readonly result_char_limit: number;
    }
  | { readonly usable: false; readonly reason: string };

/** Threads listen here for the ids of calls whose caller gave up. */
export const CANCEL_CHANNEL = 'nightshift.tool-host.cancel';
