import type { IncomingMessage } from 'node:http';
import type { App } from './context.ts';

/**
 * Closes every connection without an active request when the server closes. Fastify closes idle connections after an answer
 * only; a silent connection, or slow headers, would delay the end by minutes.
 */
export function drainConnections(app: App): void {
  const underWay = new Set<IncomingMessage>();
  let isClosing = false;
  const endIfIdle = (): void => {
    if (isClosing && underWay.size === 0) app.server.closeAllConnections();
  };
  app.addHook('onRequest', async ({ raw: request }, { raw: answer }) => {
    underWay.add(request);
    // Also emitted when the client disconnects, which no hook reports.
    answer.once('close', () => {
      underWay.delete(request);
      // The last bytes of the answer may still be in the socket.
      setImmediate(endIfIdle);
    });
  });
  app.addHook('preClose', async () => {
    isClosing = true;
    setImmediate(endIfIdle);
  });
}
