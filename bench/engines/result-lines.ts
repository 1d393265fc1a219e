/** Splits and parses result lines as a hand-written engine would. */
import { itemOf } from '../workload.ts';
import type { FloorLine } from './floor-store.ts';

const LINE_FEED = 0x0a;

interface ParsedLine {
  readonly custom_id: string;
  readonly result: {
    readonly message: {
      readonly id: string;
      readonly content: readonly {
        readonly type: string;
        readonly id?: string;
        readonly input?: Record<string, unknown>;
      }[];
      readonly stop_reason: string;
      readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
    };
  };
}

/** Parses a line. Its content is cut from the text, not printed again. */
export function parseLine(text: string): FloorLine {
  const parsed = JSON.parse(text) as ParsedLine;
  const { message } = parsed.result;
  const start = text.indexOf('"content":') + '"content":'.length;
  const end = text.lastIndexOf(',"stop_reason":');
  const use = message.content.find((block) => block.type === 'tool_use');
  return {
    ...itemOf(parsed.custom_id),
    content: text.slice(start, end),
    stop_reason: message.stop_reason,
    message_id: message.id,
    input_tokens: message.usage.input_tokens,
    output_tokens: message.usage.output_tokens,
    call: use === undefined ? null : { id: use.id ?? '', input: use.input ?? {} },
  };
}

/** Yields the lines of a result file, `size` at a time. */
export async function* textChunks(
  chunks: AsyncIterable<Buffer>,
  size: number,
): AsyncGenerator<readonly string[], void, undefined> {
  let rest: Buffer | null = null;
  let lines: string[] = [];
  for await (const chunk of chunks) {
    const bytes: Buffer = rest === null ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, start)) {
      lines.push(bytes.toString('utf8', start, end));
      start = end + 1;
      if (lines.length === size) {
        yield lines;
        lines = [];
      }
    }
    rest = start === bytes.length ? null : bytes.subarray(start);
  }
  if (lines.length > 0) yield lines;
}

/** Runs `work` on every item, at most `limit` at a time. The first error ends it. */
export async function eachInFlight<T>(
  items: AsyncIterable<T> | Iterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  for await (const item of items) {
    const task: Promise<void> = work(item).finally(() => underWay.delete(task));
    // The awaits below report the error; until then it must not count as unhandled.
    task.catch(() => undefined);
    underWay.add(task);
    if (underWay.size >= limit) await Promise.race(underWay);
  }
  await Promise.all(underWay);
}
