import type { LookupAddress } from 'node:dns';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { LookupFunction, Socket, TcpNetConnectOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import { isPrivateAddress } from './address-guard.ts';
import { privateAddress } from './url-guard.ts';

/** Looks up all addresses of a name. */
export type Resolve = (
  hostname: string,
  done: (error: Error | null, addresses: readonly LookupAddress[]) => void,
) => void;

/** The two ways to the network. */
export interface EgressDialer {
  readonly resolve: Resolve;
  /** Opens a connection, as `net.connect`. */
  readonly connect: (options: TcpNetConnectOpts) => Socket;
}

export interface GuardedAgents {
  readonly http: HttpAgent;
  readonly https: HttpsAgent;
}

/** Time after which an unused connection is closed. */
const IDLE_MS = 4_000;

/** Makes a lookup that serves all requests waiting for the same name: the system's lookup blocks one of four threads. */
export function shareLookups(resolve: Resolve): Resolve {
  const waiting = new Map<string, Parameters<Resolve>[1][]>();
  return (hostname, done) => {
    const others = waiting.get(hostname);
    if (others !== undefined) {
      others.push(done);
      return;
    }
    const all = [done];
    waiting.set(hostname, all);
    resolve(hostname, (error, addresses) => {
      waiting.delete(hostname);
      for (const each of all) each(error, addresses);
    });
  };
}

/**
 * Makes agents that refuse private addresses: after the lookup, if any address of a name is private, and again on the open
 * connection, before a byte is sent.
 */
export function createGuardedAgents(
  dialer: EgressDialer,
  allowPrivate: boolean,
  keepAlive: boolean,
): GuardedAgents {
  const lookup: LookupFunction = (hostname, options, done) => {
    dialer.resolve(hostname, (error, addresses) => {
      const [first] = addresses;
      if (error !== null) done(error, []);
      else if (first === undefined) done(new Error(`the name ${hostname} has no address`), []);
      else if (!allowPrivate && addresses.some(({ address }) => isPrivateAddress(address)))
        done(privateAddress(), []);
      else if (options.all === true) done(null, [...addresses]);
      else done(null, first.address, first.family);
    });
  };

  function dial(options: object): Socket {
    return dialer.connect({ ...(options as TcpNetConnectOpts), lookup });
  }

  /** Destroys both sockets if the connection is open to a private address. */
  function guard(socket: Socket, secured: Duplex): void {
    // First in line, before TLS begins to speak.
    socket.prependOnceListener('connect', () => {
      if (allowPrivate || !isPrivateAddress(socket.remoteAddress ?? '')) return;
      secured.destroy(privateAddress());
      socket.destroy();
    });
  }

  // Agents made here have no proxy, whatever the environment says: a proxy would look names up by itself.
  const settings = { keepAlive, timeout: IDLE_MS };
  const http = new HttpAgent(settings);
  http.createConnection = (options) => {
    const socket = dial(options);
    guard(socket, socket);
    return socket;
  };
  const https = new HttpsAgent(settings);
  const secure = https.createConnection.bind(https);
  https.createConnection = (options, done) => {
    const socket = dial(options);
    // The types lack `socket`, which `tls.connect` takes.
    const secured = secure(Object.assign({}, options, { socket }), done);
    guard(socket, secured ?? socket);
    return secured;
  };
  return { http, https };
}
