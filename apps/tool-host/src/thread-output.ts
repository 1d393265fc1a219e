/** Writes the output of tool code to the host's stderr, line by line with the tool's name, within limits. */

/** Maximum output kept per call; the log reports dropped text. Unit: characters. */
const OUTPUT_CHARS_PER_CALL_MAX = 16_384;
/** Maximum output kept per thread outside calls (module top level, left-over timers). Unit: characters. */
const OUTPUT_CHARS_OUTSIDE_CALLS_MAX = 65_536;

/** A line marked by {@link captureThreadOutput}: by tool and call, or by `module` outside calls. */
const TOOL_LINE = /^\[(?:module|[\w-]{1,64} \S+)\] /;

/** Whether a line of the host's stderr is tool output. */
export function isToolOutput(line: string): boolean {
  return TOOL_LINE.test(line);
}

/** A source of output, with its printed characters. */
export interface OutputSource {
  readonly label: string;
  printedChars: number;
}

/** Replaces this thread's stdout and stderr writers, and so console. */
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
