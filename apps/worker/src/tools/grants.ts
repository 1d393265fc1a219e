import type { CallDemand, CallGrant, LimitedTool } from '@nightshift/db';

/** The calls of limited tools that this worker may start: its part of their limits over all workers. */
export interface Grants {
  /** Sets the tools with limits. */
  setLimited(tools: readonly LimitedTool[]): void;
  isLimited(toolName: string): boolean;
  /** Whether a limit of the tool keeps its waiting calls from starting; false before the first answer. */
  isUsedUp(toolName: string): boolean;
  /** Whether a call of the chunk may start. An earlier chunk with waiting calls of the tool goes first. */
  mayStart(chunk: number, toolName: string): boolean;
  /** Whether the chunk is the first for at least one tool that it waits for. */
  isFirst(chunk: number): boolean;
  /** Notes that a call starts, and that it has ended. */
  hold(call: CallOfTool): void;
  free(call: CallOfTool): void;
  /** Sets the waiting calls of a chunk. */
  setWaiting(chunk: number, calls: readonly CallOfTool[]): void;
  /** `first`: a tool waits for its first answer. `more`: calls of limited tools wait or are under way, or were until now. */
  need(): 'none' | 'first' | 'more';
  /** Begins a request for new grants. Until it ends, no call of a limited tool starts. */
  begin(): readonly CallDemand[];
  /**
   * Ends the request. Unit of `trustMs`, for which calls may start under its grants: milliseconds. Null: it failed, and none
   * starts until the next.
   */
  end(answer: { readonly grants: readonly CallGrant[]; readonly trustMs: number } | null): void;
  /** Lets no further call of a limited tool start, because the worker takes no more work. */
  close(): void;
  isClosed(): boolean;
}

interface CallOfTool {
  readonly tool_name: string;
}

interface ToolUse {
  readonly tool_id: string;
  underWay: number;
  /** Waiting calls by chunk. */
  readonly waiting: Map<number, number>;
  grant: CallGrant | null;
  /** Calls of the last request; null: no request has named the tool yet. */
  asked: number | null;
}

/** A moment by both clocks of this machine: the monotonic one may stop while the machine sleeps. */
interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

interface State {
  /** Ids of limited tools by name. */
  limited: ReadonlyMap<string, string>;
  /** Tools with waiting calls or grants, by id. */
  readonly uses: Map<string, ToolUse>;
  readonly held: Map<CallOfTool, ToolUse>;
  begunAt: Moment;
  isAsking: boolean;
  isClosed: boolean;
  trustMs: number;
}

/** Creates grants for no call. `onGranted`: calls may start now. */
export function createGrants(onGranted: () => void): Grants {
  const state: State = {
    limited: new Map(),
    uses: new Map(),
    held: new Map(),
    begunAt: { monotonic: 0, wall: 0 },
    isAsking: false,
    isClosed: false,
    trustMs: 0,
  };
  const { uses, held } = state;
  return {
    setLimited(tools) {
      state.limited = new Map(tools.map(({ id, name }) => [name, id]));
    },
    isLimited: (toolName) => state.limited.has(toolName),
    isUsedUp(toolName) {
      const use = useOf(state, toolName);
      if (use === undefined) return false;
      if (state.isClosed) return true;
      return use.grant !== null && !state.isAsking && !hasRoom(state, use);
    },
    mayStart(chunk, toolName) {
      if (!state.limited.has(toolName)) return true;
      const use = useOf(state, toolName);
      return use !== undefined && hasRoom(state, use) && isFirstOf(use, chunk);
    },
    isFirst: (chunk) => [...uses.values()].some((use) => use.waiting.has(chunk) && isFirstOf(use, chunk)),
    hold(call) {
      const use = useOf(state, call.tool_name);
      if (use === undefined) return;
      held.set(call, use);
      use.underWay += 1;
      const { grant } = use;
      if (grant !== null && grant.tokens !== null) use.grant = { ...grant, tokens: grant.tokens - 1 };
    },
    free(call) {
      const use = held.get(call);
      if (use === undefined) return;
      held.delete(call);
      use.underWay -= 1;
    },
    setWaiting(chunk, calls) {
      for (const { waiting } of uses.values()) waiting.delete(chunk);
      if (state.limited.size === 0) return;
      for (const { tool_name } of calls) {
        const tool_id = state.limited.get(tool_name);
        if (tool_id === undefined) continue;
        const use = uses.get(tool_id) ?? noUse(tool_id);
        uses.set(tool_id, use);
        use.waiting.set(chunk, (use.waiting.get(chunk) ?? 0) + 1);
      }
    },
    need() {
      if (uses.size === 0) return 'none';
      return [...uses.values()].some(({ grant, waiting }) => grant === null && waiting.size > 0)
        ? 'first'
        : 'more';
    },
    begin() {
      state.isAsking = true;
      state.begunAt = { monotonic: performance.now(), wall: Date.now() };
      return [...uses.values()].map((use) => {
        const { tool_id, underWay: under_way, grant } = use;
        const waiting = waitingOf(use);
        use.asked = under_way + waiting;
        return { tool_id, under_way, waiting, unused: grant?.tokens ?? 0 };
      });
    },
    end(answer) {
      state.isAsking = false;
      state.trustMs = answer?.trustMs ?? 0;
      const grants = new Map(answer?.grants.map((grant) => [grant.tool_id, grant]));
      for (const use of uses.values()) {
        // A tool that came after the request: the answer says nothing about it.
        if (use.asked === null) continue;
        // A tool without a grant has lost its limits.
        const granted = grants.get(use.tool_id) ?? { tool_id: use.tool_id, places: null, tokens: null };
        use.grant = answer === null ? { ...granted, places: 0, tokens: 0 } : granted;
        // Calls that have ended meanwhile are given back with the next request.
        const isGivenBack = answer !== null && use.asked === 0;
        if (isGivenBack && use.underWay + waitingOf(use) === 0) uses.delete(use.tool_id);
      }
      if (answer !== null) onGranted();
    },
    close() {
      state.isClosed = true;
      onGranted();
    },
    isClosed: () => state.isClosed,
  };
}

function noUse(tool_id: string): ToolUse {
  return { tool_id, underWay: 0, waiting: new Map(), grant: null, asked: null };
}

function useOf({ limited, uses }: State, toolName: string): ToolUse | undefined {
  const toolId = limited.get(toolName);
  return toolId === undefined ? undefined : uses.get(toolId);
}

const waitingOf = ({ waiting }: ToolUse): number =>
  [...waiting.values()].reduce((sum, count) => sum + count, 0);

function isFirstOf({ waiting }: ToolUse, chunk: number): boolean {
  return [...waiting.keys()].every((other) => other >= chunk);
}

function hasRoom({ isAsking, isClosed, begunAt, trustMs }: State, { underWay, grant }: ToolUse): boolean {
  if (isAsking || isClosed || grant === null) return false;
  if (performance.now() - begunAt.monotonic > trustMs || Date.now() - begunAt.wall > trustMs) return false;
  return (grant.places === null || underWay < grant.places) && (grant.tokens === null || grant.tokens > 0);
}
