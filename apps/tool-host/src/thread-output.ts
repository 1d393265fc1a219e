/**
 * Whatever tool code prints in a thread goes to the host's stderr, line by line, each line naming its tool,
 * and not more of it than a log should hold.
 */

/** Printed text kept per call, in characters; the rest is dropped and the log says so. */
const OUTPUT_CHARS_PER_CALL_MAX = 16_384;
/** Printed text kept per thread outside of any call (module top level, left-over timers), in characters. */
const OUTPUT_CHARS_OUTSIDE_CALLS_MAX = 65_536;

/** A line of a tool, as {@link captureThreadOutput} marks it: those of a call by tool and call, others as of a module. */
const TOOL_LINE = /^\[(?:module|[\w-]{1,64} \S+)\] /;

/** Whether a line of the host's stderr is what a tool has printed. */
export function isToolOutput(line: string): boolean {
  return TOOL_LINE.test(line);
}

/** Who is printing, and how much it has printed so far. */
export interface OutputSource {
  readonly label: string;
  printedChars: number;
}

/** Replaces this thread's stdout and stderr writers, and with them console. */
export function captureThreadOutput(currentSource: () => OutputSource | undefined): void {
  const write = process.stderr.write.bind(process.stderr);
  const outside: OutputSource = { label: 'module', printedChars: 0 };

  const print = (text: string): void => {
    const source = currentSource() ?? outside;
    const limit = source === outside ? OUTPUT_CHARS_OUTSIDE_CALLS_MAX : OUTPUT_CHARS_PER_CALL_MAX;
    if (source.printedChars >= limit) return;
    const kept = text.slice(0, limit - source.printedChars);
    source.printedChars += text.length;
    const lines = kept.endsWith('\n') ? kept.slice(0, -1) : kept;
    let prefixed = '';
    for (const line of lines.split('\n')) prefixed += `[${source.label}] ${line}\n`;
    if (source.printedChars >= limit) prefixed += `[${source.label}] (further output is dropped)\n`;
    write(prefixed);
  };

  for (const stream of [process.stdout, process.stderr]) {
    stream.write = (
      chunk: string | Uint8Array,
      encodingOrDone?: BufferEncoding | (() => void),
      done?: () => void,
    ) => {
      print(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8'));
      const whenDone = typeof encodingOrDone === 'function' ? encodingOrDone : done;
      if (whenDone !== undefined) queueMicrotask(whenDone);
      return true;
    };
  }
}
