import { isError } from '@nightshift/agent-core';
import type { FlowReport } from '../flow-parts/deps.ts';

/** Runs a flow until it finds no work, and again after each kick. */
export interface Pump {
  /** Starts a run in a free lane at once. While all lanes are busy, any number of kicks leads to one more run. */
  kick(): void;
  /** As `kick`; resolves when the flow finds no more work, at once while it rests. */
  drain(): Promise<void>;
  /** Starts no more runs; resolves when the running ones have ended. */
  stop(): Promise<void>;
}

/** Receives reports and failures of flows, one wide log line for each job. */
export interface PumpLog {
  report(report: FlowReport): void;
  failure(flow: string, error: unknown): void;
}

const FAILURE_PAUSE_MS = 1_000;
const FAILURE_PAUSE_MS_MAX = 30_000;
/** Consecutive lost leases that count as chance among busy workers; one more is a failure. */
const FENCED_MAX = 5;
/** Longest timer; above 2^31 ms a timer fires at once. */
const TIMER_MS_MAX = 2_000_000_000;

interface State {
  readonly name: string;
  readonly flow: () => Promise<FlowReport>;
  readonly log: PumpLog;
  readonly lanes: number;
  isStopped: boolean;
  running: number;
  /** Number of kicks: a lane that missed a kick runs once more. */
  kicks: number;
  failures: number;
  /** Leases lost in a row. */
  fenced: number;
  restsUntil: number;
  /** The next scheduled run. */
  alarm: { readonly timer: NodeJS.Timeout; readonly dueAt: number } | undefined;
  /** The pause after a failure. */
  pause: NodeJS.Timeout | undefined;
  /** Resolves the callers that wait for all lanes to end. */
  whenIdle: (() => void)[];
}

/**
 * Creates a pump with at most `lanes` parallel runs of its flow.
 *
 * - After an error the flow pauses with exponential backoff, which kicks do not shorten.
 * - A lost lease is no error, unless more than {@link FENCED_MAX} are lost in a row.
 * - A flow may request rest (`rest_ms`). Kicks during the run or the rest lead to one run after the rest.
 */
export function createPump(name: string, flow: () => Promise<FlowReport>, log: PumpLog, lanes = 1): Pump {
  const counts = { running: 0, kicks: 0, failures: 0, fenced: 0, restsUntil: 0 };
  const timers = { alarm: undefined, pause: undefined };
  const state: State = { name, flow, log, lanes, isStopped: false, ...counts, ...timers, whenIdle: [] };
  const idle = (): Promise<void> =>
    state.running === 0 ? Promise.resolve() : new Promise((resolve) => state.whenIdle.push(resolve));
  return {
    kick: () => kick(state),
    drain() {
      kick(state);
      return idle();
    },
    stop() {
      state.isStopped = true;
      clearTimeout(state.alarm?.timer);
      clearTimeout(state.pause);
      return idle();
    },
  };
}

function kick(state: State): void {
  if (state.isStopped) return;
  state.kicks += 1;
  const restMs = state.restsUntil - performance.now();
  if (restMs > 0) schedule(state, restMs);
  else startLane(state);
}

function startLane(state: State): void {
  if (state.running < state.lanes && state.pause === undefined) void runLane(state);
}

/** Schedules a run after `delayMs`. The earliest of several times wins, since each run finds all due work. */
function schedule(state: State, delayMs: number): void {
  const dueAt = performance.now() + delayMs;
  if (state.isStopped || (state.alarm !== undefined && state.alarm.dueAt <= dueAt)) return;
  clearTimeout(state.alarm?.timer);
  const ring = (): void => {
    state.alarm = undefined;
    kick(state);
  };
  state.alarm = { timer: setTimeout(ring, Math.min(delayMs, TIMER_MS_MAX)).unref(), dueAt };
}

async function runLane(state: State): Promise<void> {
  const { flow } = state;
  state.running += 1;
  // No await between the last look at `kicks` and the end of the lane: a kick between them would be lost.
  try {
    for (let goesOn = true; goesOn && !state.isStopped;) {
      const { kicks } = state;
      try {
        goesOn = afterReport(state, await flow(), kicks);
      } catch (error) {
        goesOn = afterFailure(state, error);
      }
    }
  } finally {
    state.running -= 1;
    if (state.running === 0) for (const resolve of state.whenIdle.splice(0)) resolve();
  }
}

/** Handles the report of a run that began after `kicks` kicks; true when the lane goes on. */
function afterReport(state: State, report: FlowReport, kicks: number): boolean {
  state.failures = 0;
  state.fenced = 0;
  if (report.worked || report['alarm'] === true || report['warning'] === true) state.log.report(report);
  if (report.again_in_ms !== undefined) schedule(state, report.again_in_ms);
  if (report.rest_ms !== undefined) {
    state.restsUntil = performance.now() + report.rest_ms;
    if (state.kicks !== kicks) schedule(state, report.rest_ms);
    return false;
  }
  // More work is likely: fill the other lanes.
  if (report.worked) startLane(state);
  return report.worked || state.kicks !== kicks;
}

/** Handles the error of a run; true when the lane goes on. */
function afterFailure(state: State, error: unknown): boolean {
  if (isError(error, 'fenced') && state.fenced < FENCED_MAX) {
    state.fenced += 1;
    return true;
  }
  state.fenced = 0;
  state.log.failure(state.name, error);
  if (state.isStopped || state.pause !== undefined) return false;
  const resume = (): void => {
    state.pause = undefined;
    kick(state);
  };
  const pauseMs = Math.min(FAILURE_PAUSE_MS * 2 ** state.failures, FAILURE_PAUSE_MS_MAX);
  state.pause = setTimeout(resume, pauseMs).unref();
  state.failures += 1;
  return false;
}
