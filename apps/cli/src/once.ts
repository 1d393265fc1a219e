import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import type { Session } from './session.ts';

export interface OnceFlags {
  readonly idempotencyKey?: string;
}

/** Adds the flag that makes a command safe to repeat. */
export function addOnceFlag(command: Command, what: string): Command {
  return command.option('--idempotency-key <key>', `the same key makes the same ${what} once, for a day`);
}

/**
 * Does work that makes something, under an `Idempotency-Key`. If its error leaves open whether the thing was made, the user is
 * told the flag with which the command can be repeated.
 */
export async function makeOnce<Made>(
  { out }: Session,
  { idempotencyKey = randomBytes(16).toString('hex') }: OnceFlags,
  make: (once: { readonly idempotencyKey: string }) => Promise<Made>,
): Promise<Made> {
  try {
    return await make({ idempotencyKey });
  } catch (error) {
    if (isOpen(error))
      out.warn(
        `Whether the API has acted is not known. Repeat the command with --idempotency-key ${idempotencyKey}: it acts once.`,
      );
    throw error;
  }
}

/** Whether the API may have acted: no answer came, or one that says nothing about it. */
function isOpen(error: unknown): boolean {
  const { name, cause, status } = error as Error & { readonly status?: number };
  // A stream that is cut is an error of its file, with this cause.
  const isCut = [name, (cause as Error | undefined)?.name].includes('NightshiftUnreachableError');
  return isCut || name === 'AbortError' || (status !== undefined && status >= 500);
}
