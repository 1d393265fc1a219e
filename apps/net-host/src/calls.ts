import type { NetCall, Reply } from './contract.ts';

/** Resends of a call that had not started when its process died. */
const RESENDS_MAX = 3;

interface Pending {
  readonly id: number;
  readonly call: NetCall;
  readonly frame: Buffer;
  readonly resolve: (reply: Reply) => void;
  /** The current process was about to run it, or has. */
  started: boolean;
  /** A process died while it may have been running. */
  interrupted: boolean;
  resends: number;
}

/** The calls without a reply. */
export interface Calls {
  /** Adds a call, encoded as a frame. */
  add(id: number, call: NetCall, frame: Buffer): Promise<Reply>;
  /** Takes the next calls for the process, up to the limit, and returns their frames. */
  take(): readonly Buffer[];
  onStarting(id: number): void;
  onReply(id: number, reply: Reply): void;
  /** Ends a call that its caller gave up. */
  cancel(id: number): void;
  /** Decides about the calls of a process that died: again, or crashed. */
  onDeath(reason: string): void;
  /** Ends all calls, because there is no process for them. */
  endAll(reason: string): void;
}

export function createCalls(callsMax: number): Calls {
  const waiting = new Map<number, Pending>();
  /** Calls of the current process. */
  const underWay = new Map<number, Pending>();

  function settle(id: number, replyOf: (pending: Pending) => Reply): void {
    const pending = underWay.get(id) ?? waiting.get(id);
    underWay.delete(id);
    waiting.delete(id);
    pending?.resolve(replyOf(pending));
  }

  function afterDeath(pending: Pending, reason: string): void {
    const { id, call, started, interrupted } = pending;
    if (!started) pending.resends += 1;
    const mayRunAgain = started
      ? !interrupted && call.side_effects !== 'once'
      : pending.resends <= RESENDS_MAX;
    if (!mayRunAgain) {
      const text = `the net host ended while the call was under way: ${reason}`;
      settle(id, () => crashed(call, started || interrupted, text));
      return;
    }
    pending.interrupted ||= started;
    pending.started = false;
    underWay.delete(id);
    waiting.set(id, pending);
  }

  return {
    add(id, call, frame) {
      return new Promise((resolve) => {
        waiting.set(id, { id, call, frame, resolve, started: false, interrupted: false, resends: 0 });
      });
    },
    take() {
      const frames: Buffer[] = [];
      for (const [id, pending] of waiting) {
        if (underWay.size >= callsMax) break;
        waiting.delete(id);
        underWay.set(id, pending);
        frames.push(pending.frame);
      }
      return frames;
    },
    onStarting(id) {
      const pending = underWay.get(id);
      if (pending !== undefined) pending.started = true;
    },
    onReply: (id, reply) => settle(id, () => reply),
    cancel(id) {
      // A call that was sent may have started: the message may be on its way.
      const isSent = underWay.has(id);
      settle(id, ({ call, interrupted }) => crashed(call, isSent || interrupted, 'the caller gave up'));
    },
    onDeath(reason) {
      for (const pending of [...underWay.values()]) afterDeath(pending, reason);
    },
    endAll(reason) {
      for (const id of [...underWay.keys(), ...waiting.keys()])
        settle(id, ({ call, started, interrupted }) => ({
          ...crashed(call, started || interrupted, reason),
          unavailable: true,
        }));
    },
  };
}

/** Makes the reply of a call that this side ends. */
export function crashed(call: NetCall, started: boolean, result: string): Reply {
  return {
    call_id: call.call_id,
    status: 'crashed',
    result,
    truncated: false,
    duration_ms: 0,
    started,
    attempts: 0,
    answer_bytes: 0,
  };
}
