import { createGrants, type Grants } from './grants.ts';

/** Calls of one kind that may be under way in a worker. */
export interface CallPool {
  readonly name: string;
  readonly calls_max: number;
  /** Places that one tool never takes alone, so that a quick call of another tool finds one. */
  readonly reserve: number;
}

/** A call that wants a place. */
export interface WantedCall {
  readonly pool: CallPool;
  readonly tool_name: string;
  readonly run_id: string;
  /** Maximum length of the results of its run, which are kept until all calls of the run have ended. Unit: characters. */
  readonly run_chars: number;
  /** It must not be repeated, so it is in doubt from its start until its result is stored. */
  readonly is_once: boolean;
}

/** The places of one chunk's calls. */
export interface ChunkPlaces {
  /** Takes places for those calls that may start now, in the given order. The others count as waiting. */
  take<Call extends WantedCall>(calls: readonly Call[]): readonly Call[];
  /** Takes the waiting calls back: those of other chunks no longer wait for them. */
  withdraw(): void;
  /** Frees the place of a call that has ended. */
  free(call: WantedCall): void;
  /** Notes that the result of a call that is `is_once` is stored. */
  stored(call: WantedCall): void;
  /** Notes that the results of a run are committed. */
  committed(runId: string): void;
  /** Whether all waiting calls wait for limits of their tools over all workers. */
  waitsForGrants(): boolean;
  /**
   * Whether the chunk should leave this worker. All its waiting calls wait for limits, and one of these holds:
   * - At least two earlier chunks wait for limits; six if this chunk is the first for at least one of its tools.
   * - The worker takes no more work.
   */
  isSurplus(): boolean;
  /** Frees all places of the chunk. */
  close(): void;
}

/** Shares the places of a worker among chunks and tools. */
export interface Places {
  /** Opens the places of a chunk. `onFreed` is called when a place becomes free while calls of the chunk wait. */
  open(onFreed: () => void): ChunkPlaces;
  /** The limits of tools over all workers. */
  readonly grants: Grants;
  /**
   * Time until this worker may claim another chunk: none unless calls of several chunks wait here already, which another
   * worker could make. Unit: milliseconds.
   */
  claimDelayMs(): number;
}

/** Limits of a worker over all pools. */
export interface PlaceLimits {
  /** Maximum `once` calls in doubt after a crash. */
  readonly once_max: number;
  /** Maximum length of uncommitted results. Unit: characters. */
  readonly result_chars_max: number;
}

export const PLACE_LIMITS_DEFAULT: PlaceLimits = { once_max: 64, result_chars_max: 50_000_000 };

/** Chunks with waiting calls from which a worker delays its next claim. */
const CROWDED_CHUNKS = 2;
/** Interval of claims while calls of so many chunks wait. Unit: milliseconds. */
const CROWDED_CLAIM_MS = 500;

/** Maximum chunks of a worker that wait for limits. The second bounds a chunk that is the first for one of its tools. */
const GATED_CHUNKS_MAX = 2;
const FIRST_CHUNKS_MAX = 6;

interface Chunk {
  /** Its number in the order of opening. */
  readonly number: number;
  readonly onFreed: () => void;
}

interface PoolUse {
  total: number;
  /** Calls under way by tool. */
  readonly held: Map<string, number>;
  /** Chunks with waiting calls by tool. */
  readonly wanted: Map<string, Set<Chunk>>;
}

interface State {
  readonly limits: PlaceLimits;
  readonly pools: Map<string, PoolUse>;
  readonly grants: Grants;
  /** Chunks with waiting calls. */
  readonly waiting: Set<Chunk>;
  /** Of them: chunks whose waiting calls all wait for limits of their tools. */
  readonly gated: Set<Chunk>;
  opened: number;
  openedMs: number;
  onceHeld: number;
  charsHeld: number;
}

/**
 * Creates the places of a worker.
 * While several tools want places of a pool, none takes more than its equal share; a single tool leaves the reserve free.
 * Chunks with calls of one tool take places one after the other: side by side, their runs would end one by one, each in a
 * commit of its own.
 */
export function createPlaces(limits: PlaceLimits = PLACE_LIMITS_DEFAULT): Places {
  const grants = createGrants(() => ring(state));
  const state: State = {
    ...{ limits, grants, pools: new Map(), waiting: new Set(), gated: new Set() },
    ...{ opened: 0, openedMs: -Infinity, onceHeld: 0, charsHeld: 0 },
  };
  return {
    grants,
    claimDelayMs: () =>
      state.waiting.size - state.gated.size < CROWDED_CHUNKS
        ? 0
        : Math.max(0, state.openedMs + CROWDED_CLAIM_MS - performance.now()),
    open(onFreed) {
      state.openedMs = performance.now();
      state.opened += 1;
      return openChunk(state, { number: state.opened, onFreed });
    },
  };
}

/** Wakes the chunks with waiting calls. */
function ring({ waiting }: State): void {
  for (const { onFreed } of waiting) onFreed();
}

function openChunk(state: State, chunk: Chunk): ChunkPlaces {
  const places = new Set<WantedCall>();
  const unstored = new Set<WantedCall>();
  /** Maximum length of the results of its uncommitted runs. */
  const runs = new Map<string, number>();
  function hasRoom({ run_id, run_chars, is_once }: WantedCall): boolean {
    const { limits, onceHeld, charsHeld } = state;
    if (is_once && onceHeld >= limits.once_max) return false;
    return runs.has(run_id) || charsHeld === 0 || charsHeld + run_chars <= limits.result_chars_max;
  }

  function hold(call: WantedCall): void {
    const use = useOf(state, call.pool);
    use.total += 1;
    use.held.set(call.tool_name, (use.held.get(call.tool_name) ?? 0) + 1);
    places.add(call);
    state.grants.hold(call);
    if (call.is_once) {
      state.onceHeld += 1;
      unstored.add(call);
    }
    if (runs.has(call.run_id)) return;
    runs.set(call.run_id, call.run_chars);
    state.charsHeld += call.run_chars;
  }

  function free(call: WantedCall): void {
    if (!places.delete(call)) return;
    state.grants.free(call);
    const use = useOf(state, call.pool);
    use.total -= 1;
    const held = (use.held.get(call.tool_name) ?? 1) - 1;
    if (held === 0) use.held.delete(call.tool_name);
    else use.held.set(call.tool_name, held);
    ring(state);
  }

  function stored(call: WantedCall): void {
    if (!unstored.delete(call)) return;
    state.onceHeld -= 1;
    ring(state);
  }

  function committed(runId: string): void {
    state.charsHeld -= runs.get(runId) ?? 0;
    if (runs.delete(runId)) ring(state);
  }

  return {
    take(calls) {
      setWaiting(state, chunk, calls);
      /** Tools that find no other place here: until the end, places are only taken. */
      const full = new Set<string>();
      const taken = calls.filter((call) => {
        const { tool_name } = call;
        if (full.has(tool_name)) return false;
        if (!hasPlace(state, chunk, call)) {
          full.add(tool_name);
          return false;
        }
        const mayStart = hasRoom(call) && state.grants.mayStart(chunk.number, tool_name);
        if (mayStart) hold(call);
        return mayStart;
      });
      setWaiting(
        state,
        chunk,
        calls.filter((call) => !places.has(call)),
      );
      return taken;
    },
    withdraw() {
      setWaiting(state, chunk, []);
      ring(state);
    },
    free,
    stored,
    committed,
    waitsForGrants: () => state.gated.has(chunk),
    isSurplus() {
      if (!state.gated.has(chunk)) return false;
      if (state.grants.isClosed()) return true;
      const ahead = [...state.gated].filter(({ number }) => number < chunk.number).length;
      return ahead >= (state.grants.isFirst(chunk.number) ? FIRST_CHUNKS_MAX : GATED_CHUNKS_MAX);
    },
    close() {
      setWaiting(state, chunk, []);
      for (const call of [...places]) free(call);
      for (const call of [...unstored]) stored(call);
      for (const runId of [...runs.keys()]) committed(runId);
      ring(state);
    },
  };
}

function useOf({ pools }: State, { name }: CallPool): PoolUse {
  const use = pools.get(name) ?? { total: 0, held: new Map(), wanted: new Map() };
  pools.set(name, use);
  return use;
}

/** Sets the calls of a chunk that wait for places. */
function setWaiting(state: State, chunk: Chunk, calls: readonly WantedCall[]): void {
  for (const { wanted } of state.pools.values()) {
    for (const [tool, chunks] of wanted) {
      chunks.delete(chunk);
      if (chunks.size === 0) wanted.delete(tool);
    }
  }
  state.grants.setWaiting(chunk.number, calls);
  const poolOf = new Map(calls.map(({ tool_name, pool }) => [tool_name, pool]));
  // A call that waits for a limit of its tool does not keep the tools beside it to a smaller share.
  const ready = [...poolOf].filter(([tool]) => !state.grants.isUsedUp(tool));
  for (const [tool, pool] of ready) {
    const { wanted } = useOf(state, pool);
    wanted.set(tool, (wanted.get(tool) ?? new Set()).add(chunk));
  }
  if (calls.length > 0) state.waiting.add(chunk);
  else state.waiting.delete(chunk);
  if (calls.length > 0 && ready.length === 0) state.gated.add(chunk);
  else state.gated.delete(chunk);
}

function hasPlace(state: State, chunk: Chunk, { pool, tool_name }: WantedCall): boolean {
  const { total, held, wanted } = useOf(state, pool);
  if (total >= pool.calls_max) return false;
  for (const other of wanted.get(tool_name) ?? []) if (other.number < chunk.number) return false;
  const own = held.get(tool_name) ?? 0;
  if (own === 0) return true;
  const isAlone = [...wanted.keys()].every((name) => name === tool_name);
  const tools = isAlone ? 1 : new Set([...held.keys(), ...wanted.keys()]).size;
  return own < Math.max(1, Math.min(Math.floor(pool.calls_max / tools), pool.calls_max - pool.reserve));
}
