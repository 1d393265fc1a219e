/**
 * Records the simulated provider's requests and bills: the only evidence of a double payment, which no table
 * shows.
 */
import { fromCustomId } from '../libs/agent-core/src/index.ts';

/** Result of a request other than a usable answer. `refused`: alone in a create that was refused as bad. */
export type Trouble =
  | 'errored'
  | 'expired'
  | 'canceled'
  | 'permanent'
  | 'too_long'
  | 'refused'
  | 'cut off'
  | 'unreadable'
  | 'unusable'
  | 'garbled'
  | 'no line'
  | 'forgotten'
  | 'late';

/** Token usage of a result line. */
export interface LineUsage {
  readonly input_tokens: number;
  readonly output_tokens: number;
}

export interface Ledger {
  /** Records a create with this nonce. */
  posted(nonce: string, end: 'accepted' | 'refused' | 'dropped'): void;
  /** Records a billed answer. */
  billed(customId: string, batchId: string, outputTokens: number): void;
  /** Marks an answer as spoiled by the provider, so that a repeated request is right. */
  excuse(customId: string, batchId: string, why: Trouble): void;
  /** Records a result other than an answer. */
  trouble(customId: string, what: Trouble): void;
  /** Records the usage of a line in a complete result file. */
  delivered(customId: string, batchId: string, usage: LineUsage): void;
  /** Usage of delivered lines, by batch and custom id. */
  deliveries(): readonly {
    readonly custom_id: string;
    readonly batch_id: string;
    readonly usage: LineUsage;
  }[];
  /** Records a cancel at the console: the run may send nothing before its batch is resumed. */
  cancelledAtConsole(customId: string, batchId: string): void;
  resumed(runIds: readonly string[]): void;
  /** Records a request. */
  sent(customId: string): void;
  /** The troubles of a run's steps. */
  troublesOf(runId: string): ReadonlySet<Trouble>;
  /** Steps, as `<run>/<number>`, with a billed and readable answer. */
  answered(): readonly string[];
  note(name: string, detail: string): void;
  /** All violations found so far. */
  violations(): readonly { readonly name: string; readonly detail: string }[];
  readonly counts: { posts: number; accepted: number; billed: number; excused: number };
}

/** Creates an empty ledger. */
export function createLedger(): Ledger {
  const ends = new Map<string, string[]>();
  const bills = new Map<string, { readonly answer: string; excused: boolean }[]>();
  const notes: { readonly name: string; readonly detail: string }[] = [];
  const troubles = new Map<string, Set<Trouble>>();
  const deliveries = new Map<string, { custom_id: string; batch_id: string; usage: LineUsage }>();
  /** Answers whose line was unreadable or missing in at least one pass. */
  const untold = new Set<string>();
  /** Lines that were cancelled at the console, by run. */
  const stopped = new Map<string, string[]>();
  const counts = { posts: 0, accepted: 0, billed: 0, excused: 0 };
  /** Bills count per step: attempts are an internal matter. */
  const stepOf = (customId: string): string | null => {
    const id = fromCustomId(customId);
    return id === null ? null : `${id.key.run_id}/${id.key.number}`;
  };
  const trouble = (customId: string, what: Trouble): void => {
    const runId = fromCustomId(customId)?.key.run_id;
    if (runId === undefined) return;
    troubles.set(runId, (troubles.get(runId) ?? new Set()).add(what));
  };
  return {
    counts,
    trouble,
    delivered(custom_id, batch_id, usage) {
      deliveries.set(`${batch_id}/${custom_id}`, { custom_id, batch_id, usage });
    },
    deliveries: () => [...deliveries].flatMap(([key, told]) => (untold.has(key) ? [] : [told])),
    cancelledAtConsole(customId, batchId) {
      const runId = fromCustomId(customId)?.key.run_id;
      if (runId !== undefined) stopped.set(runId, [...(stopped.get(runId) ?? []), `${batchId}/${customId}`]);
    },
    resumed(runIds) {
      for (const runId of runIds) stopped.delete(runId);
    },
    sent(customId) {
      const lines = stopped.get(fromCustomId(customId)?.key.run_id ?? '') ?? [];
      // A lost line tells no cancel, so its step is rightly sent again.
      if (lines.some((line) => !untold.has(line)))
        notes.push({ name: 'sent_against_console', detail: customId });
    },
    troublesOf: (runId) => troubles.get(runId) ?? new Set(),
    answered: () =>
      [...bills].filter(([, answers]) => answers.some(({ excused }) => !excused)).map(([step]) => step),
    posted(nonce, end) {
      counts.posts += 1;
      if (end === 'accepted') counts.accepted += 1;
      const earlier = ends.get(nonce) ?? [];
      if (earlier.some((other) => other !== 'refused'))
        notes.push({ name: 'nonce_sent_twice', detail: `nonce ${nonce}: ${[...earlier, end].join(', ')}` });
      ends.set(nonce, [...earlier, end]);
    },
    billed(customId, batchId) {
      const step = stepOf(customId);
      if (step === null) return;
      counts.billed += 1;
      bills.set(step, [...(bills.get(step) ?? []), { answer: `${batchId}/${customId}`, excused: false }]);
    },
    excuse(customId, batchId, why) {
      trouble(customId, why);
      if (why === 'unreadable' || why === 'no line') untold.add(`${batchId}/${customId}`);
      const bill = bills
        .get(stepOf(customId) ?? '')
        ?.find((other) => other.answer === `${batchId}/${customId}`);
      if (bill === undefined || bill.excused) return;
      bill.excused = true;
      counts.excused += 1;
    },
    note(name, detail) {
      notes.push({ name, detail });
    },
    violations() {
      const twice = [...bills].filter(
        ([, answers]) => answers.filter((answer) => !answer.excused).length > 1,
      );
      return [
        ...notes,
        ...twice.map(([step, answers]) => ({
          name: 'paid_twice',
          detail: `step ${step}: ${answers.map(({ answer, excused }) => (excused ? `(${answer})` : answer)).join(', ')}`,
        })),
      ];
    },
  };
}
