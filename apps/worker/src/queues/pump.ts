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

/**
 * Creates a pump with at most `lanes` parallel runs of its flow.
 *
 * - After an error the flow pauses with exponential backoff, which kicks do not shorten.
 * - A lost lease is no error, unless more than {@link FENCED_MAX} are lost in a row.
 * - A flow may request rest (`rest_ms`). Kicks during the run or the rest lead to one run after the rest.
 */
export function createPump(name: string, flow: () => Promise<FlowReport>, log: PumpLog, lanes = 1): Pump {
  // An object, because lanes change it while others wait. `asks` counts kicks: after a missed kick a lane runs once more.
  const at = { stopped: false, running: 0, asks: 0, failures: 0, fenced: 0, restsUntil: 0 };
  let alarm: { readonly timer: NodeJS.Timeout; readonly dueAt: number } | undefined;
  let pause: NodeJS.Timeout | undefined;
  let idle: (() => void)[] = [];

  /** Schedules a run after `delayMs`. The earliest of several times wins, since each run finds all due work. */
  const later = (delayMs: number): void => {
    const dueAt = performance.now() + delayMs;
    if (at.stopped || (alarm !== undefined && alarm.dueAt <= dueAt)) return;
    clearTimeout(alarm?.timer);
    const ring = (): void => {
      alarm = undefined;
      kick();
    };
    alarm = { timer: setTimeout(ring, Math.min(delayMs, TIMER_MS_MAX)).unref(), dueAt };
  };

  const fail = (error: unknown): void => {
    log.failure(name, error);
    if (at.stopped || pause !== undefined) return;
    const resume = (): void => {
      pause = undefined;
      kick();
    };
    pause = setTimeout(resume, Math.min(FAILURE_PAUSE_MS * 2 ** at.failures, FAILURE_PAUSE_MS_MAX)).unref();
    at.failures += 1;
  };

  const lane = async (): Promise<void> => {
    at.running += 1;
    try {
      while (!at.stopped) {
        const asks = at.asks;
        try {
          const report = await flow();
          at.failures = 0;
          at.fenced = 0;
          if (report.worked || report['alarm'] === true || report['warning'] === true) log.report(report);
          if (report.again_in_ms !== undefined) later(report.again_in_ms);
          if (report.rest_ms !== undefined) {
            at.restsUntil = performance.now() + report.rest_ms;
            if (at.asks !== asks) later(report.rest_ms);
            break;
          }
          if (!report.worked && at.asks === asks) break;
          // More work is likely: fill the other lanes.
          if (report.worked && at.running < lanes && pause === undefined) void lane();
        } catch (error) {
          if (isError(error, 'fenced') && at.fenced < FENCED_MAX) {
            at.fenced += 1;
            continue;
          }
          at.fenced = 0;
          fail(error);
          break;
        }
      }
    } finally {
      at.running -= 1;
      if (at.running === 0) {
        const waiting = idle;
        idle = [];
        for (const resolve of waiting) resolve();
      }
    }
  };

  function kick(): void {
    if (at.stopped) return;
    at.asks += 1;
    const restMs = at.restsUntil - performance.now();
    if (restMs > 0) later(restMs);
    else if (at.running < lanes && pause === undefined) void lane();
  }

  const whenIdle = (): Promise<void> =>
    at.running === 0 ? Promise.resolve() : new Promise((resolve) => idle.push(resolve));

  return {
    kick,
    drain() {
      kick();
      return whenIdle();
    },
    stop() {
      at.stopped = true;
      clearTimeout(alarm?.timer);
      clearTimeout(pause);
      return whenIdle();
    },
  };
}
