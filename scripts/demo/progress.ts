import type { WriteStream } from 'node:tty';

/** The fields of a batch that show its progress. */
export interface BatchProgress {
  readonly state: string;
  readonly state_reason: string | null;
  readonly counts: {
    readonly total: number;
    /** Agents without a run by reason. */
    readonly skipped: Readonly<Record<string, number>>;
    readonly completed: number;
    readonly failed: number;
    readonly cancelled: number;
    readonly expired: number;
  };
  readonly usage: {
    readonly steps: number;
    readonly tool_calls: number;
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly cost_usd: string;
  };
}

/** Shows the progress of one batch on stderr: a live line on a terminal, one line per 10 % elsewhere. */
export interface ProgressBar {
  /** `waits`: the reason for a stall. */
  show(batch: BatchProgress, workers: number, waits?: string | null): void;
  /** Writes a line above the bar. */
  note(text: string): void;
  end(): void;
}

const WIDTH = 28;

export function createProgressBar(
  label: string,
  stepsExpected: number,
  stream: WriteStream = process.stderr,
): ProgressBar {
  const startedAt = performance.now();
  const live = stream.isTTY;
  let shown = '';
  let lastTenth = -1;

  const line = ({ counts, usage }: BatchProgress, workers: number, waits: string | null): string => {
    const ended = counts.completed + counts.failed + counts.cancelled + counts.expired;
    const share =
      counts.total === 0
        ? 1
        : Math.min(1, usage.steps / Math.max(1, stepsExpected), ended === counts.total ? 1 : 0.999);
    const filled = Math.round(share * WIDTH);
    const seconds = (performance.now() - startedAt) / 1000;
    return (
      `${label} ${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)} ${String(Math.floor(share * 100)).padStart(3)} %` +
      ` | runs ${ended}/${counts.total} | steps ${usage.steps} | ${Math.round(usage.steps / Math.max(0.1, seconds))}/s` +
      ` | $${usage.cost_usd} | workers ${workers}${waits === null ? '' : ` | ${waits}`}`
    );
  };
  const clear = (): void => {
    if (live && shown !== '') stream.write('\r\u001b[2K');
  };
  return {
    show(batch, workers, waits = null) {
      const text = line(batch, workers, waits);
      if (live) {
        clear();
        stream.write(text);
        shown = text;
        return;
      }
      const tenth = Math.floor(
        (Math.min(batch.usage.steps, stepsExpected) / Math.max(1, stepsExpected)) * 10,
      );
      if (tenth > lastTenth) {
        lastTenth = tenth;
        stream.write(`${text}\n`);
      }
    },
    note(text) {
      clear();
      stream.write(`${text}\n`);
      if (live) stream.write(shown);
    },
    end() {
      if (live && shown !== '') stream.write('\n');
      shown = '';
    },
  };
}
