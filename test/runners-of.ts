import type { ToolKind } from '@nightshift/agent-core';
import { createPlaces, PLACE_LIMITS_DEFAULT, type CallPool } from '../apps/worker/src/tools/places.ts';
import { createPoolRests } from '../apps/worker/src/tools/pool-rests.ts';
import type { ToolReply, ToolRequest, ToolRunners } from '../apps/worker/src/tools/runner.ts';

/** Runs the calls of one moment together. May reject, as a host that is away: `outcomes` of the error holds the replies so far. */
export interface ToolPort {
  runCalls(
    calls: readonly ToolRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly ToolReply[]>;
}

const POOL: CallPool = { name: 'all', calls_max: 10_000, reserve: 1 };

interface Asked {
  readonly request: ToolRequest;
  readonly resolve: (reply: ToolReply) => void;
}

/** Makes runners of a port: the calls of one turn are one `runCalls`. */
export function runnersOf(port: ToolPort): ToolRunners {
  const gathered = new Map<AbortSignal, Asked[]>();
  const send = async (asked: readonly Asked[], signal: AbortSignal): Promise<void> => {
    const { replies, isAway } = await port
      .runCalls(
        asked.map(({ request }) => request),
        { signal },
      )
      .then(
        (replies) => ({ replies, isAway: false }),
        (error: unknown) => ({
          replies: (error as { readonly outcomes?: readonly ToolReply[] }).outcomes ?? [],
          isAway: true,
        }),
      );
    const byKey = new Map(replies.map((reply) => [reply.call_id, reply]));
    for (const { request, resolve } of asked) {
      const reply = byKey.get(request.call_id) ?? noReply(request.call_id);
      resolve(isAway && reply.status === 'crashed' ? { ...reply, unavailable: true } : reply);
    }
  };
  return {
    places: createPlaces(PLACE_LIMITS_DEFAULT),
    rests: createPoolRests(),
    poolOf: (_kind: ToolKind | 'rejected') => POOL,
    run: (request, { signal }) =>
      new Promise((resolve) => {
        const asked = gathered.get(signal) ?? [];
        asked.push({ request, resolve });
        if (asked.length > 1) return;
        gathered.set(signal, asked);
        queueMicrotask(() => {
          gathered.delete(signal);
          void send(asked, signal);
        });
      }),
  };
}

/** Stands for a reply that never came: the call may have happened. */
function noReply(call_id: string): ToolReply {
  return {
    call_id,
    status: 'crashed',
    result: 'The tool host did not answer this call.',
    duration_ms: 0,
    started: true,
  };
}
