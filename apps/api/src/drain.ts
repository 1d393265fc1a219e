import type { IncomingMessage } from 'node:http';
import type { App } from './context.ts';

/**
 * Once the server closes, ends every connection as soon as no request is under way. Fastify closes those that have answered
 * something and lie idle; one that has never spoken, or dawdles over its headers, would hold the end up for minutes.
 */
export function drainConnections(app: App): void {
  const underWay = new Set<IncomingMessage>();
  let isClosing = false;
  const endIfIdle = (): void => {
    if (isClosing && underWay.size === 0) app.server.closeAllConnections();
  };
  app.addHook('onRequest', async ({ raw: request }, { raw: answer }) => {
    underWay.add(request);
    // Comes also where the client has gone, which no hook is told of.
    answer.once('close', () => {
      underWay.delete(request);
      // The answer's last bytes may still be on their way through the socket.
      setImmediate(endIfIdle);
    });
  });
  app.addHook('preClose', async () => {
    isClosing = true;
    setImmediate(endIfIdle);
  });
}
