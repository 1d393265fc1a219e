/**
 * Schedules a simulation. Every effect of a simulated process is parked; the world picks one at a time,
 * performs it, returns its outcome, and waits until all code rests before it picks the next. Time is virtual
 * and jumps to the next event when nothing is left to do now.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { hash32, type Random } from './random.ts';

/** A simulated process. The code of its flows runs in its async context. */
export interface Actor {
  readonly name: string;
  readonly world: World;
  /** Randomness of this process: ids, nonces, jitter. */
  readonly random: Random;
  alive: boolean;
  /** Virtual time until which the process is paused. */
  pausedUntil: number;
  /** Offset of its monotonic clock: negative after its machine slept. */
  clockOffsetMs: number;
  /** Offset of its wall clock. */
  wallOffsetMs: number;
}

/** Creates a running process with exact clocks. */
export function createActor(world: World, name: string, random: Random): Actor {
  return { name, world, random, alive: true, pausedUntil: 0, clockOffsetMs: 0, wallOffsetMs: 0 };
}

/** The process of the running code. */
export const currentActor = new AsyncLocalStorage<Actor>();

/** A fault at an effect. `performed`: whether the effect still happens. */
export type Strike =
  | { readonly kind: 'kill'; readonly performed: boolean }
  | { readonly kind: 'pause'; readonly ms: number; readonly performed: boolean }
  /** The caller gets an error. With `performed`, the reply was lost and the commit is unknown. */
  | { readonly kind: 'fail'; readonly performed: boolean }
  | { readonly kind: 'slow'; readonly ms: number };

/** `sql`: a single statement. `begin`, `statement`, `commit`: of a transaction. `call`: a network call. */
export type EffectKind = 'sql' | 'begin' | 'statement' | 'commit' | 'call' | 'hook';

/** An effect before it is performed. */
export interface StrikePoint {
  readonly actor: Actor;
  readonly kind: EffectKind;
  readonly label: string;
  /** Whether the effect can fail. A `fail` strike on another effect does nothing. */
  readonly canFail: boolean;
}

/** Chooses the fault of an effect; null for none. */
export type Striker = (point: StrikePoint) => Strike | null;

/** Outcome of an effect. `afterMs`: delay of the reply. */
export type Outcome =
  | { readonly ok: true; readonly value: unknown; readonly afterMs?: number }
  | { readonly ok: false; readonly error: Error; readonly afterMs?: number };

/** Error of a connection that a fault has cut. */
export class CutConnection extends Error {
  constructor() {
    super('Connection terminated unexpectedly');
    this.name = 'CutConnection';
  }
}

interface Effect {
  readonly actor: Actor;
  readonly kind: EffectKind;
  readonly label: string;
  readonly perform: () => Outcome | Promise<Outcome>;
  /** Error for the caller when the effect fails; null when it cannot fail. */
  readonly failure: Error | null;
  readonly settle: (outcome: Outcome) => void;
  readyAt: number;
  outcome: Outcome | null;
}

interface Timer {
  readonly actor: Actor;
  readonly everyMs: number | null;
  readonly run: () => void;
  dueAt: number;
}

interface WorldEvent {
  readonly at: number;
  readonly label: string;
  readonly run: () => void | Promise<void>;
}

export interface World {
  readonly random: Random;
  /** Virtual milliseconds since 1970. */
  readonly now: () => number;
  readonly events: () => number;
  readonly trace: readonly string[];
  /** Hash of the trace: equal for equal seeds. */
  readonly traceHash: () => string;
  note(text: string): void;
  /** Sets the rule for faults. */
  setStriker(striker: Striker): void;
  strike(point: StrikePoint): Strike | null;
  /**
   * Parks an effect of the current process; resolves when it was performed and the process is awake.
   * `failure`: error for a strike that lets the effect fail; without it, the effect cannot fail.
   */
  park<T>(kind: EffectKind, label: string, perform: Effect['perform'], failure?: Error): Promise<T>;
  /** Returns a known outcome once the process is awake. */
  parkFor(actor: Actor, label: string, outcome: Outcome, settle: (outcome: Outcome) => void): void;
  /** Runs `work` directly after the current effect: a transaction has its connection to itself. */
  takeOver(work: () => Promise<void>): void;
  /** A point between effects, where a process may be killed, paused, or get an error. */
  hook(label: string): Promise<void>;
  setTimer(actor: Actor, run: () => void, delayMs: number, everyMs: number | null): Timer;
  clearTimer(timer: Timer): void;
  /** Schedules an event of the world. */
  at(delayMs: number, label: string, run: WorldEvent['run']): void;
  kill(actor: Actor): void;
  onKill(listener: (actor: Actor) => void): void;
  /** Performs one effect, timer or event. Returns false when none is left. */
  step(): Promise<boolean>;
  /** Resolves when all code rests. */
  settle(): Promise<void>;
  /** Moves the time forward; nothing happens meanwhile. */
  sleepUntil(time: number): void;
}

const never = new Promise<never>(() => undefined);
const nextTurn = setImmediate;

/** Creates a world that starts at `startsAt`. */
export function createWorld(random: Random, startsAt: number): World {
  let now = startsAt;
  let eventCount = 0;
  let striker: Striker = () => null;
  let onKill: (actor: Actor) => void = () => undefined;
  const effects: Effect[] = [];
  const timers = new Set<Timer>();
  let pending: WorldEvent[] = [];
  let exclusive: (() => Promise<void>) | null = null;
  const trace: string[] = [];
  let hash = 0;

  const note = (text: string): void => {
    const line = `${String(now - startsAt).padStart(7)} ${text}`;
    trace.push(line);
    hash = hash32(`${hash}${line}`);
  };
  const isAwake = (actor: Actor): boolean => actor.pausedUntil <= now;
  /** A sent effect happens even while its sender is paused; a transaction and a reply need the process. */
  const needsProcess = (effect: Effect): boolean =>
    effect.outcome !== null || effect.kind === 'begin' || effect.kind === 'hook';
  const readyTime = (effect: Effect): number =>
    needsProcess(effect) ? Math.max(effect.readyAt, effect.actor.pausedUntil) : effect.readyAt;

  const strike = (point: StrikePoint): Strike | null => {
    const { actor, label } = point;
    const struck = striker(point);
    if (struck?.kind === 'fail' && !point.canFail) return null;
    if (struck !== null)
      note(
        `${actor.name} ! ${struck.kind}${'performed' in struck ? (struck.performed ? ' after' : ' before') : ''} ${label}`,
      );
    return struck;
  };

  const kill = (actor: Actor): void => {
    if (!actor.alive) return;
    actor.alive = false;
    for (const timer of timers) if (timer.actor === actor) timers.delete(timer);
    // A sent effect may still arrive; its reply is lost.
    for (const effect of effects.splice(0)) {
      const arrives =
        effect.outcome === null && (effect.kind === 'sql' || effect.kind === 'call') && random.chance(0.5);
      if (effect.actor !== actor || arrives) effects.push(effect);
    }
    onKill(actor);
  };

  const runEffect = async (effect: Effect): Promise<void> => {
    eventCount += 1;
    if (effect.outcome !== null) {
      if (effect.actor.alive) effect.settle(effect.outcome);
      return;
    }
    const { actor, kind, label, failure } = effect;
    const struck = actor.alive ? strike({ actor, kind, label, canFail: failure !== null }) : null;
    note(`${effect.actor.name} ${effect.label}`);
    switch (struck?.kind) {
      case 'kill':
        if (struck.performed) await effect.perform();
        kill(effect.actor);
        return;
      case 'pause':
        effect.actor.pausedUntil = now + struck.ms;
        if (struck.performed && effect.kind !== 'begin') effect.outcome = await effect.perform();
        effects.push(effect);
        return;
      case 'fail':
        if (failure === null) break;
        if (struck.performed && effect.kind !== 'begin') await effect.perform();
        effect.settle({ ok: false, error: failure });
        return;
      case 'slow':
        effect.outcome = await effect.perform();
        effect.readyAt = now + struck.ms + (effect.outcome.afterMs ?? 0);
        if (effect.kind === 'begin') effect.settle(effect.outcome);
        else effects.push(effect);
        return;
      case undefined:
        break;
    }
    const outcome = await effect.perform();
    if (outcome.afterMs !== undefined && outcome.afterMs > 0) {
      effect.outcome = outcome;
      effect.readyAt = now + outcome.afterMs;
      effects.push(effect);
    } else if (effect.actor.alive) effect.settle(outcome);
  };

  const settle = (): Promise<void> => new Promise((resolve) => nextTurn(resolve));

  const world: World = {
    random,
    now: () => now,
    events: () => eventCount,
    trace,
    traceHash: () => hash.toString(16).padStart(8, '0'),
    note,
    setStriker(next) {
      striker = next;
    },
    strike,
    park<T>(kind: EffectKind, label: string, perform: Effect['perform'], failure?: Error): Promise<T> {
      const actor = currentActor.getStore();
      if (actor === undefined) throw new Error(`${label} was parked outside of any process.`);
      if (!actor.alive) return never;
      return new Promise<T>((resolve, reject) => {
        const settleEffect = (outcome: Outcome): void => {
          if (outcome.ok) resolve(outcome.value as T);
          else reject(outcome.error);
        };
        effects.push({
          actor,
          kind,
          label,
          perform,
          failure: failure ?? (kind === 'call' || kind === 'hook' ? null : new CutConnection()),
          settle: settleEffect,
          readyAt: now,
          outcome: null,
        });
      });
    },
    parkFor(actor, label, outcome, settleEffect) {
      effects.push({
        actor,
        kind: 'statement',
        label,
        perform: () => outcome,
        failure: null,
        settle: settleEffect,
        readyAt: now,
        outcome,
      });
    },
    takeOver(work) {
      exclusive = work;
    },
    hook(label) {
      const actor = currentActor.getStore();
      if (actor === undefined) return Promise.resolve();
      if (!actor.alive) return never;
      const struck = strike({ actor, kind: 'hook', label, canFail: true });
      switch (struck?.kind) {
        case 'kill':
          kill(actor);
          return never;
        case 'pause':
          actor.pausedUntil = now + struck.ms;
          return world.park('hook', `${label} resumes`, () => ({ ok: true, value: undefined }));
        case 'fail':
          return Promise.reject(new CutConnection());
        case 'slow':
        case undefined:
          return Promise.resolve();
      }
    },
    setTimer(actor, run, delayMs, everyMs) {
      const timer: Timer = { actor, run, everyMs, dueAt: now + Math.max(1, Math.ceil(delayMs)) };
      if (actor.alive) timers.add(timer);
      return timer;
    },
    clearTimer(timer) {
      timers.delete(timer);
    },
    at(delayMs, label, run) {
      pending.push({ at: now + Math.ceil(delayMs), label, run });
    },
    kill,
    onKill(listener) {
      onKill = listener;
    },
    async step() {
      await settle();
      const ready = effects.filter((effect) => readyTime(effect) <= now);
      const dueTimers = [...timers].filter((timer) => timer.dueAt <= now && isAwake(timer.actor));
      const dueEvents = pending.filter((event) => event.at <= now);
      const count = ready.length + dueTimers.length + dueEvents.length;
      if (count === 0) {
        const times = [
          ...effects.map(readyTime),
          ...[...timers].map((timer) => Math.max(timer.dueAt, timer.actor.pausedUntil)),
          ...pending.map((event) => event.at),
        ];
        if (times.length === 0) return false;
        now = Math.max(now, Math.min(...times));
        return true;
      }
      // Work takes time: leases expire and timers come due in the middle of it.
      if (random.chance(0.06)) now += random.int(1, 150);
      let choice = random.int(0, count - 1);
      const effect = ready[choice];
      if (effect !== undefined) {
        effects.splice(effects.indexOf(effect), 1);
        await runEffect(effect);
        if (exclusive !== null) {
          const work = exclusive;
          exclusive = null;
          await work();
        }
        return true;
      }
      choice -= ready.length;
      const timer = dueTimers[choice];
      if (timer !== undefined) {
        if (timer.everyMs === null) timers.delete(timer);
        else timer.dueAt = now + Math.max(1, Math.ceil(timer.everyMs));
        currentActor.run(timer.actor, timer.run);
        return true;
      }
      const event = dueEvents[choice - dueTimers.length];
      if (event !== undefined) {
        pending = pending.filter((other) => other !== event);
        note(`* ${event.label}`);
        await event.run();
      }
      return true;
    },
    settle,
    sleepUntil(time) {
      now = Math.max(now, time);
    },
  };
  return world;
}
