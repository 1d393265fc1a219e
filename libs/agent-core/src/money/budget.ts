import { capReason } from '../model/cap-reason.ts';
import { toUsd } from './to-usd.ts';

/** Spending limits. Null: no limit. */
export interface Cap {
  readonly cost_nanousd: number | null;
  readonly output_tokens: number | null;
}

export interface Amount {
  readonly cost_nanousd: number;
  readonly output_tokens: number;
}

/** Cap and use of a run or a batch. */
export interface Account {
  readonly cap: Cap;
  /** Billed by answers. */
  readonly spent: Amount;
  /** Held for unanswered requests. */
  readonly reserved: Amount;
}

export const NO_AMOUNT: Amount = { cost_nanousd: 0, output_tokens: 0 };

/** A run that is ready for its next step. */
export interface AskingRun {
  readonly run_id: string;
  readonly batch_id: string;
  /** Maximum cost of the step; null for a model without a price. */
  readonly cost_nanousd: number | null;
  /** Maximum output tokens of the step. */
  readonly output_tokens: number;
  /** The account of the run. */
  readonly account: Account;
}

/** Admission of ready runs. Every run is in exactly one list. */
export interface Admission {
  /** In the order given. The caller reserves the amounts for run and batch in the same transaction. */
  readonly admitted: readonly { readonly run_id: string; readonly amount: Amount }[];
  /** Runs whose own cap is reached or cannot be kept; they end with `budget_exceeded`. */
  readonly ended: readonly { readonly run_id: string; readonly message: string }[];
  /** Runs that wait for open requests to release amounts, or with their paused batch. */
  readonly waiting: readonly string[];
  /** Batches without room for their next run and without open requests. */
  readonly paused: readonly {
    readonly batch_id: string;
    readonly reason: string;
    /** Use of the step without room. */
    readonly needs: Amount;
  }[];
}

/** Returns the limit without room; keeps `spent + reserved + amount ≤ cap`. */
function exceededLimit({ cap, spent, reserved }: Account, amount: Amount): keyof Cap | null {
  for (const kind of ['cost_nanousd', 'output_tokens'] as const) {
    const limit = cap[kind];
    if (limit !== null && spent[kind] + reserved[kind] + amount[kind] > limit) return kind;
  }
  return null;
}

/** Returns the account with an amount reserved. */
export function reserveAmount(account: Account, amount: Amount): Account {
  const { reserved } = account;
  return {
    ...account,
    reserved: {
      cost_nanousd: reserved.cost_nanousd + amount.cost_nanousd,
      output_tokens: reserved.output_tokens + amount.output_tokens,
    },
  };
}

/**
 * Decides which ready runs are sent, in the order given. `batches` are the locked accounts; an unknown batch has no
 * cap.
 * A run whose own cap has no room ends. A batch whose cap has no room sends nothing behind the first run without room,
 * however small. It waits for open requests, and is paused without any.
 */
export function admitRuns(runs: readonly AskingRun[], batches: ReadonlyMap<string, Account>): Admission {
  const accounts = new Map(batches);
  const admitted: { run_id: string; amount: Amount }[] = [];
  const ended: { run_id: string; message: string }[] = [];
  const waiting: string[] = [];
  const stuck = new Map<string, { readonly reason: string; readonly needs: Amount }>();
  for (const run of runs) {
    const { run_id, batch_id } = run;
    const batch = accounts.get(batch_id);
    const amount = { cost_nanousd: run.cost_nanousd ?? 0, output_tokens: run.output_tokens };
    const message = endReason(run, batch, amount);
    if (message !== null) {
      ended.push({ run_id, message });
      continue;
    }
    if (batch !== undefined && !stuck.has(batch_id)) {
      const short = exceededLimit(batch, amount);
      if (short !== null) stuck.set(batch_id, { reason: reasonOf(batch, short, amount), needs: amount });
    }
    if (stuck.has(batch_id)) {
      waiting.push(run_id);
      continue;
    }
    if (batch !== undefined) accounts.set(batch_id, reserveAmount(batch, amount));
    admitted.push({ run_id, amount });
  }
  const paused = [...accounts].flatMap(([batch_id, { reserved }]) => {
    const why = stuck.get(batch_id);
    const hasOpen = reserved.cost_nanousd > 0 || reserved.output_tokens > 0;
    return why === undefined || hasOpen ? [] : [{ batch_id, ...why }];
  });
  return { admitted, ended, waiting, paused };
}

/** Returns why the run ends instead of being sent; null if it does not end. */
function endReason(run: AskingRun, batch: Account | undefined, amount: Amount): string | null {
  const isCapped = run.account.cap.cost_nanousd !== null || (batch?.cap.cost_nanousd ?? null) !== null;
  if (run.cost_nanousd === null && isCapped) {
    return 'The model has no price in the price table, so max_cost_usd cannot be kept. Add the price, or lift the cap.';
  }
  const short = exceededLimit(run.account, amount);
  if (short === null) return null;
  return `The next step could exceed the ${NAMES[short]} of the run: it ${describeNeed(run.account, short, amount)}.`;
}

const NAMES: Readonly<Record<keyof Cap, string>> = {
  cost_nanousd: 'max_cost_usd',
  output_tokens: 'max_output_tokens',
};

function reasonOf(batch: Account, short: keyof Cap, amount: Amount): string {
  return capReason(NAMES[short], describeNeed(batch, short, amount));
}

/** Returns why an account has no room for a step with this use; null if it has. */
export function noRoomReason(account: Account, needs: Amount): string | null {
  const short = exceededLimit(account, needs);
  return short === null ? null : reasonOf(account, short, needs);
}

/** Describes the maximum use of a step, and the cap that it needs. */
function describeNeed({ spent, reserved }: Account, short: keyof Cap, amount: Amount): string {
  const written = (sum: number): string => (short === 'cost_nanousd' ? `$${toUsd(sum)}` : `${sum} tokens`);
  return `may take ${written(amount[short])} and needs a cap of ${written(spent[short] + reserved[short] + amount[short])}`;
}
