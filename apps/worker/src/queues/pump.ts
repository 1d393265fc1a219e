import { isError } from '@nightshift/agent-core';
import type { FlowReport } from '../flow-parts/deps.ts';

/** A flow with a place to stand: run until it finds nothing, then until somebody asks again. */
export interface Pump {
  /**
   * Asks for a run: it begins in a free lane at once. While all are taken, one more follows; asking a thousand times is the
   * same as once.
   */
  kick(): void;
  /** Asks for a run and resolves when the pump has found nothing left to do, at once while its flow rests. */
  drain(): Promise<void>;
  /** Takes no more work; resolves when what is under way has ended. */
  stop(): Promise<void>;
}

/** Where reports and failures of flows go: one wide line a job. */
export interface PumpLog {
  report(report: FlowReport): void;
  failure(flow: string, error: unknown): void;
}

const FAILURE_PAUSE_MS = 1_000;
const FAILURE_PAUSE_MS_MAX = 30_000;
/** Leases lost one after the other that pass for the chance of a busy house; one more is a failure. */
const FENCED_MAX = 5;
/** The longest time that a timer can count. */
const TIMER_MS_MAX = 2_000_000_000;

/**
 * Makes a pump with `lanes` runs side by side. A flow that throws is tried again after a pause that grows and that no
 * kick cuts short: when the database is away, asking more often helps nobody. A lost lease is no failure, unless a flow
 * does nothing but lose them. A flow may ask for rest, whether it found work or not: kicks that came
 * while it ran, or come meanwhile, are one look at the end of it.
 */
export function createPump(name: string, flow: () => Promise<FlowReport>, log: PumpLog, lanes = 1): Pump {
  // An object, because these change while a lane waits. `asks` counts kicks: a lane that saw fewer looks once more.
  const at = { stopped: false, running: 0, asks: 0, failures: 0, fenced: 0, restsUntil: 0 };
  let alarm: { readonly timer: NodeJS.Timeout; readonly dueAt: number } | undefined;
  let pause: NodeJS.Timeout | undefined;
  let idle: (() => void)[] = [];

  /** Looks again after `delayMs`; of several wishes the earliest stands, since every look finds all there is. */
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
          // Others may have work too: one finding is a reason to fill the lanes.
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
