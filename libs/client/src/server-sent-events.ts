import { linesOf } from './lines.ts';

/** An event of a stream. */
export interface ServerSentEvent {
  /** Empty if the event has none. */
  readonly id: string;
  /** Kind of the event. */
  readonly event: string;
  readonly data: string;
}

/** Longest time without a byte of an open stream; the API sends a comment every 15 seconds. */
const SILENCE_MS_MAX = 45_000;

/** Yields the events of a stream until its end. Throws: if the stream is cut, or silent for 45 seconds. */
export async function* serverSentEventsOf(
  body: ReadableStream<Uint8Array> | null,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  let fields: Record<string, string> = {};
  for await (const line of linesOf(body, SILENCE_MS_MAX)) {
    if (line !== '') {
      const [, name = '', value = ''] = /^([^:]*)(?:: ?)?(.*)$/s.exec(line) ?? [];
      fields[name] = name === 'data' && fields[name] !== undefined ? `${fields[name]}\n${value}` : value;
      continue;
    }
    const { id = '', event = 'message', data } = fields;
    fields = {};
    if (data !== undefined) yield { id, event, data };
  }
}
