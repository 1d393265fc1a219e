import { createHash } from 'node:crypto';
import { CommandError } from '../failure.ts';

/** A call that acts, as its dry run saw it. */
export interface SeenCall {
  readonly tool: string;
  readonly input: unknown;
  /** State that the dry run described; if it changes, the token does not hold. */
  readonly state: unknown;
}

/** Tokens of dry runs. Each confirms one call, once, for {@link TOKEN_MS}. */
export interface Confirmations {
  issue(call: SeenCall): { readonly token: string; readonly expiresAt: string };
  /** Returns whether the call was sent before. Throws if the token is not that of a dry run with this input. */
  check(token: string, call: Pick<SeenCall, 'tool' | 'input'>): { readonly wasSent: boolean };
  /** Uses the token up. Throws if it is used, or if the call was not sent and the state is another than in the dry run. */
  take(token: string, call: SeenCall): void;
  /** Makes a taken token valid again: its call was sent, and may have acted. */
  giveBack(token: string, call: SeenCall): void;
}

/** How long a token holds. */
export const TOKEN_MS = 10 * 60_000;
/** Most tokens; the oldest is dropped for a new one. */
const TOKENS_MAX = 1_000;

interface Issued {
  readonly call: string;
  readonly state: string;
  readonly expiresAt: number;
  /** True: the call itself may have changed the state, and its repeat has the same Idempotency-Key. */
  readonly wasSent: boolean;
}

/** Creates the tokens of a process. `now` is in milliseconds. */
export function createConfirmations(now: () => number = Date.now): Confirmations {
  const tokens = new Map<string, Issued>();
  const keep = (token: string, { tool, input, state }: SeenCall, wasSent: boolean): Issued => {
    const [oldest] = tokens.keys();
    if (tokens.size >= TOKENS_MAX && oldest !== undefined) tokens.delete(oldest);
    const call = hashOf([tool, input]);
    const issued = { call, state: hashOf(state), expiresAt: now() + TOKEN_MS, wasSent };
    tokens.set(token, issued);
    return issued;
  };
  const find = (token: string, { tool, input }: Pick<SeenCall, 'tool' | 'input'>): Issued => {
    const issued = tokens.get(token);
    if (issued === undefined || issued.expiresAt <= now())
      throw new CommandError(
        `The token of confirm is unknown, used or older than ten minutes. Call ${tool} without confirm for a new one.`,
      );
    if (issued.call !== hashOf([tool, input]))
      throw new CommandError(
        `The token of confirm belongs to other arguments. Repeat the arguments of its dry run, or call ${tool} without confirm for a new one.`,
      );
    return issued;
  };
  return {
    issue(call) {
      const token = crypto.randomUUID();
      return { token, expiresAt: new Date(keep(token, call, false).expiresAt).toISOString() };
    },
    check: (token, call) => ({ wasSent: find(token, call).wasSent }),
    take(token, call) {
      const issued = find(token, call);
      tokens.delete(token);
      if (!issued.wasSent && issued.state !== hashOf(call.state))
        throw new CommandError(
          `Its state has changed since the dry run, and nothing was done. Call ${call.tool} without confirm to see what would happen now.`,
        );
    },
    giveBack: (token, call) => void keep(token, call, true),
  };
}

/** Returns the same text for equal values, whatever the order of names in objects. */
export function hashOf(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(value)))
    .digest('base64');
}

/** Sorts the names of all objects, so that equal values have equal JSON. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value ?? null;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, field]) => [name, sorted(field)]),
  );
}
