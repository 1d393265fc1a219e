import { CommandError } from '../failure.ts';

/** A line of a file. */
export interface Line {
  /** From 1. */
  readonly number: number;
  readonly text: string;
}

/** Yields the lines of a file, without the last if it is empty. */
export async function* linesOfBytes(bytes: AsyncIterable<Buffer>): AsyncGenerator<Line, void, undefined> {
  const decoder = new TextDecoder();
  let open = '';
  let number = 0;
  for await (const part of bytes) {
    const texts = (open + decoder.decode(part, { stream: true })).split('\n');
    open = texts.pop() ?? '';
    for (const text of texts) yield { number: ++number, text };
  }
  if (open !== '') yield { number: number + 1, text: open };
}

/** Parses a line. Throws: a usage error with the line's number. */
export function parseLine({ number, text }: Line, name: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError(
      `Line ${number} of ${name} is no JSON: ${(error as Error).message}. Each line is a request such as {"agent_id": "agent-…", "input": "…"}; nothing was stored.`,
    );
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>;
  throw new CommandError(
    `Line ${number} of ${name} is no JSON object. Each line is a request; nothing was stored.`,
  );
}
