import { once } from 'node:events';
import { PassThrough, Transform } from 'node:stream';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A TCP relay on 127.0.0.1 that can be cut, reopened on the same port, or silenced. */
export interface TcpGate {
  readonly port: number;
  /** Ends all connections and refuses new ones. */
  cut(): Promise<void>;
  /** Accepts connections again. */
  open(): Promise<void>;
  /** Keeps existing connections open but silent; new connections work. */
  muteExisting(): void;
  close(): Promise<void>;
}

export async function openTcpGate(
  targetPort: number,
  /** Transforms the answers of the target. */
  filter: () => Transform = () => new PassThrough(),
): Promise<TcpGate> {
  let server: Server | undefined;
  let port = 0;
  const pairs = new Set<readonly [Socket, Socket]>();

  async function open(): Promise<void> {
    server = createServer((near) => {
      const far = connect(targetPort, '127.0.0.1');
      const pair = [near, far] as const;
      pairs.add(pair);
      near.on('error', () => undefined).on('close', () => (far.destroy(), pairs.delete(pair)));
      far.on('error', () => undefined).on('close', () => near.destroy());
      near.pipe(far);
      far.pipe(filter()).pipe(near);
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  }

  async function cut(): Promise<void> {
    if (server === undefined) return;
    const closed = once(server, 'close');
    server.close();
    for (const [near, far] of pairs) {
      near.destroy();
      far.destroy();
    }
    await closed;
    server = undefined;
  }

  await open();
  return {
    get port() {
      return port;
    },
    cut,
    open,
    muteExisting() {
      for (const [near, far] of pairs) {
        near.unpipe(far).resume();
        far.unpipe().resume();
      }
    },
    close: cut,
  };
}

/** Returns a port without a listener. */
export async function refusedPort(): Promise<number> {
  const gate = await openTcpGate(1);
  await gate.close();
  return gate.port;
}

/** Drops notifications from the messages of a PostgreSQL, like a pooler with shared sessions. */
export function withoutNotifications(): Transform {
  let rest = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      rest = Buffer.concat([rest, chunk]);
      // One byte for the type, four for the length, which includes itself.
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        const message = rest.subarray(0, 1 + rest.readUInt32BE(1));
        if (message[0] !== 'A'.charCodeAt(0)) this.push(message);
        rest = rest.subarray(message.length);
      }
      done();
    },
  });
}
