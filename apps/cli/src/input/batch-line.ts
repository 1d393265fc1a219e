import type { UploadBatch } from '@nightshift/client';
import { parseLine } from './lines.ts';

const LINE_FEED = 0x0a;

/**
 * Puts the fields of a batch before the requests of a JSONL file: as its first line, or into the first line that has a batch
 * already. `fields` win. `onAdded` is called if it moves the lines of the file.
 */
export async function* withBatchLine(
  bytes: AsyncIterable<Buffer>,
  fields: UploadBatch,
  name: string,
  onAdded: () => void = () => undefined,
): AsyncGenerator<Buffer | string, void, undefined> {
  const firstLines = (line: Buffer): string => {
    const text = line.toString();
    const first = text.trim() === '' ? null : parseLine({ number: 1, text }, name);
    if (first !== null && 'batch' in first)
      return `${JSON.stringify({ batch: { ...(first['batch'] as object), ...fields } })}\n`;
    const added = `${JSON.stringify({ batch: fields })}\n`;
    if (first === null) return added;
    onAdded();
    return `${added}${text}\n`;
  };
  const head: Buffer[] = [];
  let isOpen = true;
  for await (const part of bytes) {
    const end = isOpen ? part.indexOf(LINE_FEED) : -1;
    if (!isOpen) yield part;
    else if (end === -1) head.push(part);
    else {
      isOpen = false;
      yield firstLines(Buffer.concat([...head, part.subarray(0, end)]));
      yield part.subarray(end + 1);
    }
  }
  if (isOpen) yield firstLines(Buffer.concat(head));
}
