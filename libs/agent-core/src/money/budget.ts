import { toUsd } from './to-usd.ts';

/** What may be spent. Null: no limit. */
export interface Cap {
  readonly cost_nanousd: number | null;
  readonly output_tokens: number | null;
}

export interface Amount {
  readonly cost_nanousd: number;
  readonly output_tokens: number;
}

/** A cap and what it has been used for: by a run, or by a batch. */
export interface Account {
  readonly cap: Cap;
  /** Billed by answers. */
  readonly spent: Amount;
  /** Held for requests that have not been answered. */
  readonly reserved: Amount;
}

export const NO_AMOUNT: Amount = { cost_nanousd: 0, output_tokens: 0 };

/** A run that is ready for its next step. */
export interface AskingRun {
  readonly run_id: string;
  readonly batch_id: string;
  /** The most that the step may cost; null for a model without a price. */
  readonly cost_nanousd: number | null;
  /** `max_tokens` of the step. */
  readonly output_tokens: number;
  /** The run's own. */
  readonly account: Account;
}

/** Who may be sent now. Every asking run is in exactly one of the lists. */
export interface Admission {
  /** In the order asked; the amounts are to be reserved for run and batch in the same transaction. */
  readonly admitted: readonly { readonly run_id: string; readonly amount: Amount }[];
  /** Runs whose own cap is reached, or cannot be kept: they end with `budget_exceeded`. */
  readonly ended: readonly { readonly run_id: string; readonly message: string }[];
  /** Runs that wait: for amounts that open requests may give back, or with their paused batch. */
  readonly waiting: readonly string[];
  /** Batches whose next run cannot be sent although nothing of theirs is open. */
  readonly paused: readonly { readonly batch_id: string; readonly reason: string }[];
}

/** Which limit leaves no room: `spent + reserved + amount ≤ cap` holds always. */
function shortOf({ cap, spent, reserved }: Account, amount: Amount): keyof Cap | null {
  for (const kind of ['cost_nanousd', 'output_tokens'] as const) {
    const limit = cap[kind];
    if (limit !== null && spent[kind] + reserved[kind] + amount[kind] > limit) return kind;
  }
  return null;
}

/** The account with an amount held. */
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
 * Decides which ready runs may be sent, in the order given. `batches` are the accounts of their batches, locked: what
 * was decided by others is in them. An unknown batch has no cap.
 *
 * A run whose own cap has no room ends. A batch whose cap has no room sends nothing behind the first run that did not
 * fit, however small: it waits while open requests may give something back, and is paused when there are none.
 */
export function admitRuns(runs: readonly AskingRun[], batches: ReadonlyMap<string, Account>): Admission {
  const accounts = new Map(batches);
  const admitted: { run_id: string; amount: Amount }[] = [];
  const ended: { run_id: string; message: string }[] = [];
  const waiting: string[] = [];
  const stuck = new Map<string, string>();
  for (const run of runs) {
    const { run_id, batch_id } = run;
    const batch = accounts.get(batch_id);
    const amount = { cost_nanousd: run.cost_nanousd ?? 0, output_tokens: run.output_tokens };
    const message = endOf(run, batch, amount);
    if (message !== null) {
      ended.push({ run_id, message });
      continue;
    }
    if (batch !== undefined && !stuck.has(batch_id)) {
      const short = shortOf(batch, amount);
      if (short !== null) stuck.set(batch_id, reasonOf(batch, short, amount));
    }
    if (stuck.has(batch_id)) {
      waiting.push(run_id);
      continue;
    }
    if (batch !== undefined) accounts.set(batch_id, reserveAmount(batch, amount));
    admitted.push({ run_id, amount });
  }
  const paused = [...accounts].flatMap(([batch_id, { reserved }]) => {
    const reason = stuck.get(batch_id);
    const hasOpen = reserved.cost_nanousd > 0 || reserved.output_tokens > 0;
    return reason === undefined || hasOpen ? [] : [{ batch_id, reason }];
  });
  return { admitted, ended, waiting, paused };
}

/** Why the run ends rather than be sent; null when it does not. */
function endOf(run: AskingRun, batch: Account | undefined, amount: Amount): string | null {
  const isCapped = run.account.cap.cost_nanousd !== null || (batch?.cap.cost_nanousd ?? null) !== null;
  if (run.cost_nanousd === null && isCapped) {
    return 'The model has no price in the price table, so max_cost_usd cannot be kept. Add the price, or lift the cap.';
  }
  const short = shortOf(run.account, amount);
  if (short === null) return null;
  return `The next step could exceed the ${NAMES[short]} of the run: it ${needOf(run.account, short, amount)}.`;
}

const NAMES: Readonly<Record<keyof Cap, string>> = {
  cost_nanousd: 'max_cost_usd',
  output_tokens: 'max_output_tokens',
};

function reasonOf(batch: Account, short: keyof Cap, amount: Amount): string {
  return `${NAMES[short]} leaves no room for the next step, which ${needOf(batch, short, amount)}; raise it to go on.`;
}

/** What a step may come to, and the cap that has room for it. */
function needOf({ spent, reserved }: Account, short: keyof Cap, amount: Amount): string {
  const written = (sum: number): string => (short === 'cost_nanousd' ? `$${toUsd(sum)}` : `${sum} tokens`);
  return `may take ${written(amount[short])} and needs a cap of ${written(spent[short] + reserved[short] + amount[short])}`;
}
