/** Messages between the host and a thread. All are passed by structured clone. */

/** A tool as its thread needs it. */
export interface TaskTool {
  readonly name: string;
  readonly file: string;
  readonly once: boolean;
  readonly timeout_ms: number;
  readonly result_char_limit: number;
}

/** A task of many calls: posting a task costs ten times a fast call. */
export interface ThreadTask {
  readonly task: number;
  /** Cells of the task's progress in shared memory. */
  readonly cells: Int32Array;
  /** Maximum calls in flight. */
  readonly slots: number;
  readonly tools: readonly TaskTool[];
  /** The call frames as one JSON array: one string is far cheaper to pass than a thousand objects. */
  readonly calls_json: string;
  /** The index in `tools` of each call of `calls_json`. */
  readonly tool_of_call: readonly number[];
}

/** Outcomes of a task, sent as they arrive; the last report is the task's return value. */
export interface ThreadReport {
  readonly task: number;
  /** The index in the task of each outcome's call. */
  readonly indexes: readonly number[];
  /** Null for calls whose function was not entered. */
  readonly durations_ms: readonly (number | null)[];
  /** Busy time of each call: before its first `await`, and after it as far as neighbours can be separated. */
  readonly busy_ms: readonly number[];
  /** The outcome frames as JSON, separated by commas, so that the host forwards them unread. */
  readonly outcomes_json: string;
  /** Timed-out calls without an outcome: the thread's time may have been their neighbours'. */
  readonly given_back: readonly number[];
  /** Modules that this thread can no longer import: their calls are left waiting. */
  readonly not_imported: readonly ImportFailure[];
  /**
   * Only in a last report: the thread must be stopped, because timed-out functions are still running or an import failed.
   */
  readonly stop_thread: boolean;
}

export interface ImportFailure {
  /** The index of the tool in the task. */
  readonly tool: number;
  readonly reason: string;
}

/** The manifest of a module, or the reason why it cannot be used. */
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

/** Channel of the ids of cancelled calls. */
export const CANCEL_CHANNEL = 'nightshift.tool-host.cancel';
