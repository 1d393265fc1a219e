import type { App } from './context.ts';

/** Logs a line for each answered request, without bodies, query strings or headers, which may hold secrets. */
export function logRequests(app: App): void {
  app.addHook('onResponse', async (request, reply) => {
    const line = {
      method: request.method,
      path: request.url.split('?', 1)[0],
      route: request.routeOptions.url ?? null,
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime * 10) / 10,
    };
    if (reply.statusCode >= 500) request.log.error(line, 'request');
    else request.log.info(line, 'request');
  });
}
