import { connect } from 'node:net';

const PROBE_MS = 3_000;

/** Connects to a port. Returns null if it is open, else why it is not, as the end of a sentence. */
export function probePort(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PROBE_MS });
    const end = (reason: string | null): void => {
      socket.destroy();
      resolve(reason);
    };
    socket.once('connect', () => end(null));
    socket.once('timeout', () => end('does not answer: check host, port and firewalls'));
    socket.once('error', ({ code, message }: NodeJS.ErrnoException) =>
      end(REASONS[code ?? ''] ?? `fails: ${message}`),
    );
  });
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'has no program that listens',
  ENOTFOUND: 'names a host that does not exist',
  EAI_AGAIN: 'names a host that cannot be found at present',
  EHOSTUNREACH: 'names a host that cannot be reached',
  ENETUNREACH: 'lies in a network that cannot be reached',
};
