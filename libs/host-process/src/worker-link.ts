import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { createFrameReader, createFrameWriter, type FrameWriter } from './frames.ts';
import { FROM_HOST_FD, TO_HOST_FD, type ToHost } from './messages.ts';

export type { FromHost, ToHost } from './messages.ts';

/** The side of the host process. It needs no other package: a jailed process may read no other. */

const PONG = JSON.stringify({ kind: 'pong' });

/** Sends to the worker. A message that the worker cannot get ends the process, because the worker is gone. */
export interface WorkerLink<Message> extends FrameWriter {
  /** Returns false if the message is larger than a frame. `onLeft` is called when it has left this process. */
  send(message: Message, onLeft?: () => void): boolean;
}

/** Ends the process at once: a plain exit waits for threads, and native code may block one for minutes. */
export function endProcess(): never {
  process.kill(process.pid, 'SIGKILL');
  process.exit(1);
}

/** Writes a line to the log at once, so that the last line of a dying process is read. */
export function writeLog(line: string): void {
  try {
    writeSync(2, `${line}\n`);
  } catch {
    // The reader is gone or slow; the loss of a line does no harm.
  }
}

/**
 * Reads messages of the worker from now on, and answers its pings. Ends the process when the worker is gone, or when a frame is unreadable or longer
 * than `frameBytesMax`.
 */
export function connectToWorker<In, Out>(
  frameBytesMax: number,
  onMessage: (message: In) => void,
): WorkerLink<Out> {
  const incoming = new Socket({ fd: TO_HOST_FD, readable: true, writable: false });
  const outgoing = new Socket({ fd: FROM_HOST_FD, readable: false, writable: true });
  const writer = createFrameWriter(outgoing, frameBytesMax);
  const read = createFrameReader(frameBytesMax, (value) => {
    const message = value as ToHost<unknown>;
    if (message.kind === 'ping') writer.write(PONG);
    else onMessage(message as In);
  });
  incoming.on('data', (piece) => {
    try {
      read(piece);
    } catch (error) {
      writeLog(`unreadable frame: ${String(error)}`);
      endProcess();
    }
  });
  for (const pipe of [incoming, outgoing]) {
    pipe.on('error', endProcess);
    pipe.on('close', endProcess);
  }
  // A stop signal often goes to the worker's whole group or unit. The worker decides how long calls may go on.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  return { ...writer, send: (message, onLeft) => writer.write(JSON.stringify(message), onLeft) };
}
