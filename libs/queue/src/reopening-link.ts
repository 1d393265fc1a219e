import { settles } from './deadline.ts';
import type { SendingLink } from './port.ts';

/** Opens a sending link on demand, and another after it fails. */
export interface ReopeningLink {
  /** Returns the open link, or opens it. Rejects at once within `reopenPauseMs` of a failed attempt. */
  current(): Promise<SendingLink>;
  /** Discards a failed link; the next `current()` opens another without delay. */
  replace(link: SendingLink): void;
  isOpen(): boolean;
  /** Ends in bounded time; a link that opens later is discarded. */
  close(): Promise<void>;
}

const closeTimeoutMs = 3_000;

export function createReopeningLink(open: () => Promise<SendingLink>, reopenPauseMs: number): ReopeningLink {
  let opening: Promise<SendingLink> | undefined;
  let link: SendingLink | undefined;
  let failed: { readonly attempt: Promise<SendingLink>; readonly atMs: number } | undefined;
  let closed = false;
  const discards = new Set<Promise<void>>();

  function discard(discarded: SendingLink): void {
    const done = discarded.discard();
    discards.add(done);
    void done.finally(() => discards.delete(done));
  }

  async function openNext(): Promise<SendingLink> {
    const opened = await open();
    if (closed) {
      discard(opened);
      throw new Error('the bell is closed');
    }
    link = opened;
    return opened;
  }

  function replace(broken: SendingLink): void {
    if (link !== broken) return;
    link = undefined;
    opening = undefined;
    discard(broken);
  }

  return {
    current() {
      if (opening !== undefined) return opening;
      if (closed) return Promise.reject(new Error('the bell is closed'));
      if (failed !== undefined && performance.now() - failed.atMs < reopenPauseMs) return failed.attempt;
      const attempt = openNext();
      opening = attempt;
      attempt.catch(() => {
        opening = undefined;
        failed = { attempt, atMs: performance.now() };
      });
      return attempt;
    },
    replace,
    isOpen: () => link !== undefined,
    async close() {
      closed = true;
      if (opening !== undefined) await settles(opening, closeTimeoutMs);
      if (link !== undefined) replace(link);
      await settles(Promise.all(discards), closeTimeoutMs);
    },
  };
}
